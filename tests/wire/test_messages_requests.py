"""Conversations as Anthropic's Messages surface wants them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.talk import body_of, messages
from upshot.contract import (
    File,
    Image,
    Message,
    ModelSettings,
    Reasoning,
    ServerToolBlock,
    Text,
    ToolCall,
    ToolSpec,
)
from upshot.wire import read_response
from upshot.wire.messages import MessagesEncoder

TOOL = ToolSpec(name="f", parameters={"type": "object"})
MARK = {"type": "ephemeral"}
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def encoder(*said):
    made = MessagesEncoder(provider="anthropic")
    for message in said:
        made.append(message)
    return made


def turns(*said, **more):
    return body_of(encoder(*said), **more)["messages"]


def fields(model="claude-sonnet-4-5", **settings):
    return body_of(encoder(), model=model, tools=(TOOL,), settings=ModelSettings(**settings))


def test_turns_alternate_and_system_is_apart():
    made = encoder(Message("user", "a"), Message("assistant", "b"))
    found = body_of(made, system="be kind")
    assert found["system"] == "be kind"
    assert found["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
    ]


def test_tool_results_that_follow_one_another_are_one_turn():
    calls = (ToolCall("t1", "f", '{"x":1}'), ToolCall("t2", "f"))
    made = encoder(
        Message("user", "go"),
        Message("assistant", "", tool_calls=calls),
        Message("tool", "1", tool_call_id="t1"),
    )
    assert len(body_of(made)["messages"]) == 3
    made.append(Message("tool", "2", tool_call_id="t2"))
    made.append(Message("user", "and?"))
    _, asked, answered = body_of(made)["messages"]
    assert asked["content"][0] == {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}
    assert [block["type"] for block in answered["content"]] == [
        "tool_result",
        "tool_result",
        "text",
    ]
    assert answered["content"][1]["tool_use_id"] == "t2"


def test_arguments_that_are_no_object_are_put_into_one():
    call = ToolCall("t", "f", "ls -l")
    (turn,) = turns(Message("assistant", "", tool_calls=(call,)))
    assert turn["content"][0]["input"] == {"input": "ls -l"}


def test_ids_of_other_providers_are_made_to_fit():
    call = ToolCall("functions.f:0", "f")
    asked, answered = turns(
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "1", tool_call_id="functions.f:0"),
    )
    assert asked["content"][0]["id"] == answered["content"][0]["tool_use_id"]
    assert asked["content"][0]["id"].isalnum()


def test_signed_thoughts_go_back_where_they_were():
    parts = (
        Reasoning(text="hm", signature="s", provider="anthropic"),
        Text("x"),
        Reasoning(signature="d", provider="anthropic", redacted=True),
    )
    (turn,) = turns(Message("assistant", parts))
    assert turn["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "x"},
        {"type": "redacted_thinking", "data": "d"},
    ]


@pytest.mark.parametrize(
    "part",
    [Reasoning(text="hm", provider="anthropic"), Reasoning(text="hm", signature="s", provider="x")],
    ids=["unsigned", "foreign"],
)
def test_other_thoughts_are_dropped(part):
    (turn,) = turns(Message("assistant", (part, Text("x"))))
    assert turn["content"] == [{"type": "text", "text": "x"}]


def test_a_reply_goes_back_as_it_came():
    body = (
        b'{"content": [{"type": "thinking", "thinking": "hm", "signature": "s"},'
        b'{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]}'
    )
    response = read_response("messages", status=200, headers={}, body=body, provider="anthropic")
    (turn,) = turns(response.to_message())
    assert turn["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ]


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (Image(url="http://x"), {"type": "image", "source": {"type": "url", "url": "http://x"}}),
        (
            Image(data=b"hi", media_type="image/gif"),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "aGk="},
            },
        ),
        (
            File(data=b"hi", media_type="text/plain", name="n"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "hi"},
                "title": "n",
            },
        ),
        (File(id="f1"), {"type": "document", "source": {"type": "file", "file_id": "f1"}}),
    ],
    ids=["image-url", "image", "text-file", "file-id"],
)
def test_parts_become_blocks(part, sent):
    (turn,) = turns(Message("user", (part,)))
    assert turn["content"] == [sent]


def test_empty_turns_are_left_out():
    assert turns(Message("user", "a"), Message("assistant", " "), Message("user", "b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


def test_an_early_system_message_joins_the_instructions():
    made = encoder(Message("system", "one"), Message("user", "a"), Message("system", "two"))
    found = body_of(made, system="zero")
    assert found["system"] == "zero\n\none"
    assert found["messages"][0]["content"][1] == {"type": "text", "text": "two"}


def test_cache_marks_stand_on_the_stable_ends():
    made = encoder(Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    asked = {"system": "s", "tools": (TOOL, TOOL), "settings": ModelSettings(cache=True)}
    found = body_of(made, **asked)
    assert [tool.get("cache_control") for tool in found["tools"]] == [None, MARK]
    assert found["system"] == [{"type": "text", "text": "s", "cache_control": MARK}]
    assert "cache_control" not in found["messages"][0]["content"][0]
    assert found["messages"][2]["content"] == [{"type": "text", "text": "c", "cache_control": MARK}]


def test_a_mark_does_not_stay_when_the_conversation_goes_on():
    made = encoder(Message("user", "a"))
    body_of(made, settings=ModelSettings(cache=True))
    made.append(Message("user", "b"))
    first, last = body_of(made, settings=ModelSettings(cache=True))["messages"][0]["content"]
    assert "cache_control" not in first
    assert last["cache_control"] == MARK


@pytest.mark.parametrize(
    ("model", "settings", "most"),
    [
        ("claude-sonnet-4-5", {}, 16384),
        ("claude-3-haiku-20240307", {}, 4096),
        ("claude-3-5-sonnet-20241022", {}, 8192),
        ("claude-sonnet-4-5", {"max_tokens": 7}, 7),
        ("claude-sonnet-4-5", {"reasoning": "low"}, 16384 + 2048),
    ],
)
def test_the_most_tokens_are_always_sent(model, settings, most):
    assert fields(model, **settings)["max_tokens"] == most


@pytest.mark.parametrize(
    ("model", "settings", "thinking"),
    [
        ("claude-sonnet-4-5", {"reasoning": "low"}, {"type": "enabled", "budget_tokens": 2048}),
        (
            "claude-sonnet-4-20250514",
            {"reasoning": 5000},
            {"type": "enabled", "budget_tokens": 5000},
        ),
        ("claude-sonnet-4-5", {"reasoning": "none"}, {"type": "disabled"}),
        ("claude-opus-4-6", {"reasoning": "high"}, {"type": "adaptive"}),
        (
            "claude-sonnet-4-5",
            {"reasoning": "high", "max_tokens": 2000},
            {"type": "enabled", "budget_tokens": 1999},
        ),
        ("claude-sonnet-4-5", {"reasoning": "high", "max_tokens": 500}, None),
        ("claude-sonnet-4-5", {}, None),
    ],
)
def test_thinking_leaves_room_for_the_answer(model, settings, thinking):
    assert fields(model, **settings).get("thinking") == thinking


def test_an_adaptive_model_is_told_the_effort():
    assert fields("claude-opus-4-6", reasoning="xhigh")["output_config"] == {"effort": "max"}


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "f"}, {"type": "tool", "name": "f"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        ({}, None),
    ],
)
def test_a_tool_choice_is_an_object(settings, sent):
    assert fields(**settings).get("tool_choice") == sent


def test_a_closed_schema_is_sent_to_a_model_that_takes_it():
    found = body_of(encoder(), model="claude-sonnet-4-5", output_schema=CLOSED)
    assert found["output_config"] == {"format": {"type": "json_schema", "schema": CLOSED}}


@pytest.mark.parametrize(
    ("model", "schema"),
    [("claude-3-5-haiku-latest", CLOSED), ("claude-sonnet-4-5", {"type": "object"})],
)
def test_another_schema_is_told_in_words(model, schema):
    found = body_of(encoder(), model=model, output_schema=schema)
    assert "output_config" not in found
    assert '"type":"object"' in found["system"]


@given(st.lists(messages, max_size=5), st.booleans())
def test_any_conversation_makes_turns_that_alternate(said, cache):
    found = turns(*said, settings=ModelSettings(cache=cache))
    roles = [turn["role"] for turn in found]
    assert all(one != other for one, other in pairwise(roles))
    assert all(turn["content"] for turn in found)


def asked_in(provider="anthropic"):
    kept = ServerToolBlock({"type": "container", "id": "container_1"}, provider)
    return Message("assistant", (Text("Computing."), kept), paused=True)


def test_a_paused_turn_goes_on_in_the_container_of_its_code():
    made = encoder(Message("user", "go"))
    assert "container" not in body_of(made)
    made.append(asked_in())
    found = body_of(made)
    assert found["container"] == "container_1"
    assert found["messages"][-1]["content"] == [{"type": "text", "text": "Computing."}]
    made.append(Message("tool", "1", tool_call_id="t1"))
    assert body_of(made)["container"] == "container_1"


def test_a_new_turn_and_another_provider_are_told_of_no_container():
    made = encoder(Message("user", "go"), asked_in(), Message("user", "and now?"))
    assert "container" not in body_of(made)
    assert "container" not in body_of(encoder(asked_in(provider="openai")))


def test_a_container_that_is_set_goes_before_that_of_the_turn():
    made = encoder(asked_in())
    settings = ModelSettings(extra={"container": "mine"})
    assert body_of(made, settings=settings)["container"] == "mine"
