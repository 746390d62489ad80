"""Scenarios: the forms they are read from, and what is said of a bad one."""

from __future__ import annotations

import json
import sys

import pytest

from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelResponse
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Usage
from upshot.errors import Misuse
from upshot.sim import Limits, Reply, Scenario, ScriptedCall, Simulator, StatusFault, read_scenario

WHOLE = {
    "name": "two steps",
    "latency": {"first_byte_ms": 20},
    "limits": {"requests_per_minute": 60},
    "faults": [{"kind": "slow", "first_byte_ms": 5}],
    "replies": [{"tool_calls": [{"name": "f", "arguments": {"a": 1}}]}, "done"],
}


def test_a_json_file_and_a_yaml_file_and_a_mapping_read_alike(tmp_path):
    as_json, as_yaml = tmp_path / "s.json", tmp_path / "s.yaml"
    as_json.write_text(json.dumps(WHOLE))
    as_yaml.write_text(
        "name: two steps\nlatency: {first_byte_ms: 20}\nlimits: {requests_per_minute: 60}\n"
        "faults:\n  - {kind: slow, first_byte_ms: 5}\n"
        "replies:\n  - tool_calls:\n      - {name: f, arguments: {a: 1}}\n  - done\n"
    )
    wanted = read_scenario(WHOLE)
    assert read_scenario(as_json) == read_scenario(str(as_yaml)) == read_scenario(wanted) == wanted
    assert wanted.limits == Limits(requests_per_minute=60)


@pytest.mark.parametrize(
    ("item", "reply"),
    [
        ("hello", "hello"),
        ({"text": "hello"}, Reply(text="hello")),
        (Reply(text="x"), Reply(text="x")),
        (
            ToolCall("c1", "f", {"a": 1}),
            Reply(tool_calls=(ScriptedCall(id="c1", name="f", arguments={"a": 1}),)),
        ),
        (
            [ToolCall("", "f"), ToolCall("", "g", "{broken")],
            Reply(tool_calls=(ScriptedCall(name="f"), ScriptedCall(name="g", arguments="{broken"))),
        ),
        (
            AgentError("rate_limit", "later", status_code=429, retry_after_s=2.0),
            Reply(
                faults=(StatusFault(status=429, message="later", retry_after_s=2.0, times=None),)
            ),
        ),
    ],
)
def test_an_item_of_a_python_script_is_a_reply(item, reply):
    assert read_scenario([item]).replies == (reply,)


def test_a_model_response_is_a_reply_with_its_usage():
    response = ModelResponse(
        content="hi", finish_reason="length", usage=Usage(input_tokens=9, output_tokens=2)
    )
    reply = read_scenario([response]).replies[0]
    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish_reason) == ("hi", "length")
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (9, 2)


def test_a_failed_model_response_is_an_error_reply():
    response = ModelResponse(error=AgentError("server_error", "down", status_code=503))
    reply = read_scenario([response]).replies[0]
    assert isinstance(reply, Reply)
    assert reply.faults == (StatusFault(status=503, message="down", times=None),)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "the whole: a scenario needs `replies`"),
        ({"replies": "hello"}, "replies: expected `array`, got `str`"),
        ({"replies": [3]}, "replies[0]: expected `str | object`, got `int`"),
        ({"replies": [{"txt": "hi"}]}, "replies[0]: object contains unknown field `txt`"),
        (
            {"replies": [{"tool_calls": [{"arguments": {}}]}]},
            "replies[0].tool_calls[0]: object missing required field `name`",
        ),
        ({"replies": ["a"], "when_spent": "stop"}, "when_spent: invalid enum value 'stop'"),
        ({"replies": ["a"], "chunk_chars": 0}, "chunk_chars must be a whole number of at least 1"),
        ({"replies": ["a"], "latency": {"first_byte_ms": -1}}, "latency: first_byte_ms must be"),
        ({"models": {"m": []}}, "each of `models` needs at least one reply"),
        (
            {"replies": [{"faults": [{"kind": "reset", "at": 2}]}]},
            "replies[0]: a fault inside a reply applies to that reply",
        ),
    ],
)
def test_a_bad_scenario_is_told_with_file_and_place_and_what_was_expected(tmp_path, data, told):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(Misuse) as raised:
        read_scenario(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("s.json", "{'a': 1}", "s.json, line 1, column 2: this is not JSON: "),
        ("s.json", " ", "s.json: the file is empty"),
        ("s.json", "[1]", "the whole: expected `object`, got `array`"),
        ("s.yaml", "replies:\n  - a\n b: [", "s.yaml, line 3, column 2: this is not YAML: "),
        ("s.yml", "just words", "the whole: expected `object`, got `str`"),
    ],
)
def test_a_file_that_does_not_parse_says_where(tmp_path, name, text, told):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(Misuse) as raised:
        read_scenario(path)
    assert str(path) in str(raised.value)
    assert told in str(raised.value)


def test_a_file_that_is_not_there_is_misuse(tmp_path):
    with pytest.raises(Misuse, match=r"nowhere\.json cannot be read: No such file"):
        read_scenario(tmp_path / "nowhere.json")


def test_yaml_without_a_reader_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "s.yaml"
    path.write_text("replies: [a]")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(Misuse, match=r"pip install 'upshot-agents\[machine\]'"):
        read_scenario(path)


def test_a_script_that_is_none_is_misuse():
    with pytest.raises(Misuse, match=r"a script is a list of replies, .* not int"):
        Simulator(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [3, [], [ToolCall("", "f"), "x"], None])
def test_a_script_item_of_no_known_form_is_misuse(item):
    with pytest.raises(Misuse, match="script: item 1: expected a text"):
        read_scenario(["fine", item])


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ({"text": "{{ nope }}"}, "replies[0].text"),
        ({"reasoning": "{{ results.x | nope }}"}, "replies[0].reasoning"),
        (
            {"tool_calls": [{"name": "f", "arguments": {"a": [{"b": "{{"}]}}]},
            "replies[0].tool_calls[0].arguments.a[0].b",
        ),
    ],
)
def test_a_template_that_does_not_compile_is_misuse_with_its_place(tmp_path, reply, place):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"replies": [reply]}))
    with pytest.raises(Misuse) as raised:
        Simulator(path)
    assert str(raised.value).startswith(f"{path}: {place}: at character ")
    assert "expected" in str(raised.value)


def test_a_scenario_is_a_value():
    assert Scenario(replies=("a",)) == read_scenario(["a"])
