"""Loading machines: all faults at once, each with its place, what was found and what is wanted."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.machine_kit import whole
from tests.processes import run_python
from upshot import Agent, BrokenMachine, Misuse, ModelSettings, load_machine
from upshot.engines import check_machine, machine_schema

BROKEN = """\
spec: upshot.machine/2
nam: x
settings: {max_steps: 0, steps: 1}
agents: {w: {modl: x, settings: {temp: 1}}, v: 5}
states:
  a:
    type: initial
    agent: w
    function: f
    transitions: [{when: 'context.n <', to: bb}, {when: contxt.n > 1, to: b}, {too: b}]
  b:
    type: initial
    as: x
    foreach: "foo(1)"
    transitions: {to: a}
    on_error: {default: c, rate_limit: zz}
    retry: {max_attempts: x, backoff: 1}
  c:
    type: fnal
    output: {x: '1 +'}
    transitions: []
  c: {type: final}
  d:
    type: final
    parallel: {x: {wait: a}, y: {agent: w, function: f}}
    machine: nowhere.yml
    transitions: [{to: a}]
  e:
    agent: w
    input: {a: [result.eror, {b: "'"}]}
    output_to_context: [1]
    transitions: []
"""
EXPECTED = {
    "1:7": "form 'upshot.machine/1'",
    "2:1": "did you mean 'name'?",
    "3:23": "a whole number from 1",
    "3:26": "did you mean 'max_steps'?",
    "4:14": "did you mean 'model'?",
    "4:34": "a setting of models",
    "4:48": "a text, a mapping or null: a model",
    "9:5": "one of agent, function",
    "10:38": "an expression in CEL",
    "10:45": "did you mean 'b'?",
    "10:57": "did you mean 'context'?",
    "10:79": "the key 'to'",
    "10:80": "did you mean 'to'?",
    "12:11": "one initial state; 'a' is one",
    "14:5": "agent or function or machine beside it",
    "14:15": "a function of CEL",
    "15:18": "a list: transitions",
    "16:40": "the name of a state",
    "17:5": "agent or function or machine or parallel beside it",
    "17:27": "a whole number from 1",
    "17:30": "did you mean 'backoff_s'?",
    "19:11": "initial or final",
    "20:5": "it in a final state",
    "20:21": "a literal text is {text: ...}",
    "22:3": "each key once",
    "25:20": "a key of a member of parallel",
    "25:16": "one of agent, function, machine",
    "25:44": "one of agent, function",
    "26:5": "one of agent, function",
    "26:14": "the file of another machine",
    "27:5": "none: the machine ends there",
    "30:17": "did you mean 'error'?",
    "30:35": "an expression in CEL",
    "31:24": "a mapping",
}


def faults_of(text: str) -> list[Any]:
    return [fault for fault in check_machine(text) if fault.severity == "fault"]


def test_all_faults_are_told_at_once_with_their_places() -> None:
    found = {f"{f.mark.line}:{f.mark.column}": f.expected for f in faults_of(BROKEN)}
    wrong = {
        place: (found.get(place), wanted)
        for place, wanted in EXPECTED.items()
        if wanted not in found.get(place, "")
    }
    assert not wrong
    assert set(found) <= set(EXPECTED)


def test_faults_come_in_the_order_of_the_text() -> None:
    places = [(fault.mark.line, fault.mark.column) for fault in check_machine(BROKEN)]
    assert places == sorted(places)


def test_a_broken_machine_is_misuse_with_all_faults_in_its_message() -> None:
    with pytest.raises(BrokenMachine) as caught:
        load_machine(BROKEN)
    assert isinstance(caught.value, Misuse)
    assert isinstance(caught.value, ValueError)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(faults_of(BROKEN)) + 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_single_fault_is_one_line() -> None:
    with pytest.raises(BrokenMachine) as caught:
        load_machine(whole("a: {type: initial, transitions: [{to: b}]}"))
    assert str(caught.value) == (
        "machine:3:41: the state 'b': expected the name of a state: one of a"
    )


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        ("a: {type: final}", "no_initial"),
        ("a: {type: initial}\nb: {type: initial}", "two_initial"),
        ("a: {type: initial, on_error: zz}", "unknown_state"),
        ("a: {type: initial, wait: x, agent: y}", "combination"),
        ("a: {type: initial, key: x}", "combination"),
        ("a: {type: initial, retry: {max_attempts: 1}}", "combination"),
        ("a: {type: initial, when: 1}", "unknown_key"),
        ("a: {type: initial, agent: x, retry: {}}", "missing_key"),
        ("a: {type: initial, agent: }", "type"),
        ("a: {type: initial, wait: 5, transitions: [{to: b}]}\nb: {type: final}", "type"),
        ("a: {type: initial, transitions: [{when: }]}", "type"),
    ],
)
def test_each_kind_of_fault_has_a_word(states: str, kind: str) -> None:
    assert kind in [fault.kind for fault in faults_of(whole(states))]


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        ("a: {type: initial}\nb: {type: final}", "dead_end"),
        (
            "a: {type: initial, transitions: [{to: b}]}\nb: {type: final}\nc: {type: final}",
            "unreachable",
        ),
        ("a: {type: initial, transitions: [{to: a}]}", "no_final"),
        ("a: {type: initial, transitions: [{to: b}, {to: a}]}\nb: {type: final}", "never_tried"),
    ],
)
def test_what_a_hook_could_mend_is_a_warning(states: str, kind: str) -> None:
    machine = load_machine(whole(states))
    assert kind in [warning.kind for warning in machine.warnings]


@pytest.mark.parametrize("spec", ["{a: 1}", "[upshot.machine/1]", "5"])
def test_a_spec_that_is_no_name_is_a_fault(spec: str) -> None:
    text = f"spec: {spec}\nstates:\n  a: {{type: initial, transitions: []}}"
    assert [fault.kind for fault in faults_of(text)] == ["spec"]


def test_a_state_whose_way_a_hook_knows_is_no_dead_end() -> None:
    machine = load_machine(whole("a: {type: initial, transitions: []}\nb: {type: final}"))
    assert [warning.kind for warning in machine.warnings] == ["unreachable"]


def test_a_machine_without_a_spec_is_warned_of() -> None:
    machine = load_machine({"states": {"a": {"type": "initial", "transitions": [{"to": "b"}]},
                                       "b": {"type": "final"}}})  # fmt: skip
    assert [warning.kind for warning in machine.warnings] == ["no_spec"]


@pytest.mark.parametrize(
    ("written", "column"),
    [("context.n <", 21), ("'context.n <'", 22), ('"context.n <"', 22)],
    ids=["plain", "single", "double"],
)
def test_an_expression_is_told_to_the_column_however_it_is_quoted(
    written: str, column: int
) -> None:
    text = f"states:\n  a:\n    type: final\n    output:\n      x: {written}\n"
    found = [f for f in faults_of(text) if f.kind == "expression"]
    assert [(f.mark.line, f.mark.column) for f in found] == [(5, column)]


def test_an_expression_in_a_block_is_told_by_its_line() -> None:
    block = "      x: |\n        context.n +\n        foo.bar\n"
    text = f"states:\n  a:\n    type: final\n    output:\n{block}"
    found = [f for f in faults_of(text) if f.kind == "expression"]
    assert [f.mark.line for f in found] == [7]


MERGED = """\
spec: upshot.machine/1
agents:
  base: &base
    model: openai:gpt-5
    modl: x
  writer: {<<: *base, instructions: Write.}
  editor: {<<: *base, instructions: Edit.}
states:
  a: {type: initial, agent: writer, transitions: [{to: b}]}
  b: {type: final}
"""


def test_a_fault_in_what_is_merged_is_told_once_where_it_is_written() -> None:
    (fault,) = faults_of(MERGED)
    assert (fault.mark.line, fault.mark.column) == (5, 5)


def test_agents_share_what_a_merge_key_names() -> None:
    agents = load_machine(MERGED.replace("    modl: x\n", "")).agents.values()
    assert [agent and (agent.model, agent.instructions) for agent in agents] == [
        ("openai:gpt-5", None), ("openai:gpt-5", "Write."), ("openai:gpt-5", "Edit."),
    ]  # fmt: skip


# ---- where it comes from

GOOD = whole(
    "a: {type: initial, agent: w, input: {x: context.n}, transitions: [{to: b}]}\n"
    "b: {type: final, output: {x: output.content}}",
    name="good",
    context="{n: 1, l: [1, {a: null}]}",
    agents="{w: 'openai:gpt-5'}",
)


def cast_of(agents: str) -> Mapping[str, Agent[Any] | None]:
    return load_machine(whole("a: {type: initial, transitions: []}", agents=agents)).agents


def test_agents_are_described_in_full_by_a_model_or_only_named() -> None:
    full = "{model: m:x, instructions: Hi., tools: [look], settings: {temperature: 0.5}}"
    cast = cast_of(f"{{full: {full}, short: 'm:y', given: null}}")
    known, short = cast["full"], cast["short"]
    assert known is not None
    assert (known.id, known.model, known.instructions) == ("full", "m:x", "Hi.")
    assert (known.tools, known.settings) == (("look",), ModelSettings(temperature=0.5))
    assert short is not None
    assert (short.model, cast["given"]) == ("m:y", None)
    assert cast_of("[one, two]") == {"one": None, "two": None}


def test_an_agent_may_be_described_with_the_schema_of_its_output() -> None:
    known = cast_of("{w: {model: m:x, output_schema: {type: object}}}")["w"]
    assert known is not None
    assert known.output_type == {"type": "object"}


@pytest.mark.parametrize(
    ("agents", "said"),
    [
        ("{w: {settings: {temperature: hot}}}", "temperature"),
        ("{w: {settings: 5}}", "the settings of an agent's model"),
        ("{' ': 'm:x'}", "the id of an agent must be"),
        ("5", "agents by name"),
    ],
    ids=["setting", "settings", "id", "cast"],
)
def test_agents_that_cannot_be_are_faults(agents: str, said: str) -> None:
    text = whole("a: {type: initial, transitions: []}", agents=agents)
    assert any(said in str(fault) for fault in faults_of(text))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("foreach: context.l, as: context, agent: w", "the text 'context'"),
        ("foreach: context.l, as: 'a b', agent: w", "the text 'a b'"),
        ("agent: w, retry: {max_attempts: 2, backoff_s: -1}", "seconds, 0 or more"),
    ],
    ids=["a name that is taken", "no name", "seconds"],
)
def test_names_and_numbers_that_cannot_be_are_faults(state: str, said: str) -> None:
    text = whole(f"a: {{type: initial, {state}, transitions: []}}")
    assert any(said in str(fault) for fault in faults_of(text))


def test_an_agent_that_the_machine_does_not_describe_is_a_warning_with_the_nearest() -> None:
    text = whole("a: {type: initial, agent: wirter, transitions: []}", agents="{writer: 'm:x'}")
    (told,) = [one for one in load_machine(text).warnings if one.kind == "unknown_agent"]
    assert "did you mean 'writer'?" in str(told)


def test_a_machine_is_read_from_a_file_a_text_and_data(tmp_path: Path) -> None:
    path = tmp_path / "good.yml"
    path.write_text(GOOD)
    machines = [load_machine(path), load_machine(str(path)), load_machine(GOOD)]
    machines.append(load_machine(machines[0].data))
    assert len({repr(machine) for machine in machines}) == 1
    assert all(machine.data == machines[0].data for machine in machines)
    assert machines[0].file == str(path)


def test_a_machine_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "thing.yml"
    path.write_text(whole("a: {type: initial, transitions: []}"))
    assert load_machine(path).name == "thing"


def test_places_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text("states: 1")
    assert str(check_machine(path)[-1]).startswith(f"{path}:1:9: ")


def test_faults_of_plain_data_are_told_by_their_path() -> None:
    states = {"a": {"type": "initial", "transitions": [{"to": "b"}]}}
    faults = [f for f in check_machine({"states": states}) if f.severity == "fault"]
    assert [str(f) for f in faults] == [
        "states.a.transitions[0].to: the state 'b': expected the name of a state: one of a"
    ]


@pytest.mark.parametrize("source", ["nowhere.yml", "/dev/null", "."])
def test_what_is_no_file_is_misuse(source: str) -> None:
    with pytest.raises(Misuse, match="cannot be read"):
        load_machine(source)


@pytest.mark.parametrize("source", [5, None, ["states"]])
def test_what_is_no_source_is_misuse(source: Any) -> None:
    with pytest.raises(Misuse, match="a path or a mapping"):
        load_machine(source)


def test_a_folder_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="cannot be read: it is a folder"):
        load_machine(tmp_path)


def test_a_file_that_is_no_text_is_misuse(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Misuse, match="UTF-8"):
        load_machine(path)


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    with path.open("wb") as file:
        file.truncate(10_000_000_000)
    assert "bytes" in str(check_machine(path)[0])


SUB = "a: {{type: initial, machine: {0}, transitions: [{{to: b}}]}}\nb: {{type: final}}"


def test_faults_of_sub_machines_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text("states: 5")
    (tmp_path / "outer.yml").write_text(whole(SUB.format("inner.yml"), nam="x"))
    files = {Path(fault.mark.file).name for fault in check_machine(tmp_path / "outer.yml")}
    assert files == {"inner.yml", "outer.yml"}


def test_a_machine_cannot_be_a_part_of_itself(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text(whole(SUB.format("two.yml")))
    (tmp_path / "two.yml").write_text(whole(SUB.format("one.yml")))
    (fault,) = faults_of(str(tmp_path / "one.yml"))
    assert "which this one is a part of" in fault.found
    assert fault.mark.file.endswith("two.yml")


def test_a_machine_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text("states: 5")
    both = "parallel: {x: {machine: inner.yml}, y: {machine: ./inner.yml}}"
    (tmp_path / "outer.yml").write_text(whole(f"a: {{type: initial, {both}}}"))
    found = [f for f in check_machine(tmp_path / "outer.yml") if f.mark.file.endswith("inner.yml")]
    assert len([f for f in found if f.severity == "fault"]) == 1


@pytest.mark.parametrize("missing", ["yaml", "cel"])
def test_without_the_extra_it_is_named(missing: str) -> None:
    program = (
        "import sys; sys.modules[sys.argv[1]] = None; import upshot\n"
        "try: upshot.load_machine('states:\\n  a: {type: initial, output: 1 + 1}')\n"
        "except upshot.Misuse as error: print(error)"
    )
    done = run_python("-W", "error", "-c", program, missing, text=True, check=True)
    assert "pip install 'upshot-agents[machine]', or in a clone pip install -e" in done.stdout


# ---- the published schema


@pytest.mark.parametrize("name", ["", "0", "01", "-1", "a.b", "a/b", "~", "\ue000x"])
def test_a_fault_below_any_name_is_told_where_it_stands(name: str) -> None:
    data = {"states": {name: {"type": "initial", name or "?": 1, "transitions": 5}}}
    told = {fault.mark.path for fault in check_machine(data) if fault.severity == "fault"}
    assert told == {f"states.{name}.{name or '?'}", f"states.{name}.transitions"}


SCHEMA: Any = machine_schema()
KEYS = st.sampled_from(
    ["type", "agent", "function", "wait", "parallel", "input", "output", "retry", "transitions",
     "foreach", "as", "key", "at_once", "on_error", "output_to_context", "extra"]
)  # fmt: skip
VALUES = st.sampled_from(
    ["initial", "final", "context.n", "a", "", 1, 0, 1.5, True, None, [], ["a"], {}, {"text": "x"},
     {"max_attempts": 2}, {"max_attempts": 0}, [{"to": "a"}], [{"when": True}],
     {"x": {"agent": "w"}}, {"x": 1}, {"default": "a"}]
)  # fmt: skip
STATES = st.dictionaries(
    st.sampled_from("ab"), st.dictionaries(KEYS, VALUES, max_size=4), max_size=2
)


def test_the_schema_is_one() -> None:
    jsonschema_rs.meta.validate(SCHEMA)


@given(STATES)
def test_what_can_be_loaded_fits_the_schema(states: dict[str, Any]) -> None:
    data = {"spec": "upshot.machine/1", "states": states}
    if not any(fault.severity == "fault" for fault in check_machine(data)):
        jsonschema_rs.validate(SCHEMA, data)


@given(STATES)
def test_what_does_not_fit_the_schema_cannot_be_loaded(states: dict[str, Any]) -> None:
    data = {"spec": "upshot.machine/1", "states": states}
    if not jsonschema_rs.is_valid(SCHEMA, data):
        with pytest.raises(BrokenMachine):
            load_machine(data)


def test_the_schema_accepts_a_machine_with_everything() -> None:
    jsonschema_rs.validate(SCHEMA, load_machine(GOOD).data)


WORDS = st.text(max_size=5)
ANYTHING = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, ANYTHING, max_size=4))
def test_any_data_is_a_machine_or_has_faults(data: dict[str, Any]) -> None:
    assert check_machine(data)
    assert check_machine({"states": data})


def test_a_broken_condition_is_none_that_always_holds() -> None:
    ways = "[{when: 'context.n <', to: b}, {to: a}, {to: c}]"
    states = f"a: {{type: initial, transitions: {ways}}}\nb: {{type: final}}\nc: {{type: final}}"
    told = [fault for fault in check_machine(whole(states)) if fault.kind == "never_tried"]
    assert [fault.found for fault in told] == ["a transition to 'c' that is never tried"]


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_text_is_no_machine_and_no_folder(text: str) -> None:
    with pytest.raises(Misuse, match="a mapping, not an empty text"):
        load_machine(text)


@pytest.mark.parametrize("text", ["\n", " \n\n"])
def test_blank_lines_are_the_text_of_a_machine_that_lacks_all(text: str) -> None:
    assert [fault.expected for fault in check_machine(text)] == ["a machine"]
    with pytest.raises(BrokenMachine):
        load_machine(text)


@pytest.mark.parametrize(
    ("states", "agents"),
    [("a: 5\nb: {type: initial, transitions: [{to: a}]}", "{}"),
     ("a: {type: initial, agent: w, transitions: []}", "{w: 5}")],
    ids=["state", "agent"],
)  # fmt: skip
def test_what_is_no_state_or_agent_is_one_fault_and_its_name_is_known(
    states: str, agents: str
) -> None:
    told = check_machine(whole(states, agents=agents))
    assert [one.kind for one in told if one.kind not in ("no_final", "dead_end")] == ["type"]


def test_the_warnings_of_a_machine_are_those_of_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text(whole("a: {type: initial, transitions: []}"))
    (tmp_path / "outer.yml").write_text(whole(SUB.format("inner.yml")))
    machine = load_machine(tmp_path / "outer.yml")
    assert machine.warnings == ()
    assert [one.kind for one in check_machine(tmp_path / "outer.yml")] == ["no_final"]
