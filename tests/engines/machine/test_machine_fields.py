"""Fields: whatever stands in one, the machine is refused with its place or does not fail by it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import jsonschema_rs
import pytest
from hypothesis import settings

from tests.engines.machine_kit import go, whole
from upshot import ErrorCode, MachineEngine, Misuse, load_machine, tool
from upshot.engines import check_machine, machine_schema

WHOLE: dict[str, Any] = {
    "spec": "upshot.machine/1",
    "name": "m",
    "context": {"n": 1, "l": [1, 2], "o": {"a": 1}},
    "settings": {"max_steps": 20},
    "agents": {
        "w": {"model": "scripted:x", "name": "W", "instructions": "Work.", "tools": ["look"],
              "output_schema": {"type": "object"},
              "settings": {"temperature": 0.5, "stop": ["x"], "reasoning": "low"}},
        "v": None,
        "u": "scripted:y",
    },
    "states": {
        "a": {"type": "initial", "function": "one",
              "input": {"x": "context.n", "y": {"z": "context.o.a"}, "t": {"text": "hey"},
                        "q": ["context.n"]},
              "retry": {"max_attempts": 1, "backoff_s": 0}, "output_to_context": {"r": "output"},
              "on_error": {"default": "e", "rate_limit": "e"},
              "transitions": [{"when": "context.n > 5", "to": "e"}, {"to": "b"}]},
        "b": {"foreach": "context.l", "as": "item", "key": "string(item)", "at_once": 1,
              "function": "one", "input": {"x": "item"}, "transitions": [{"to": "c"}]},
        "c": {"parallel": {"x": {"function": "one", "input": {"x": "1"},
                                 "retry": {"max_attempts": 1}},
                           "y": {"agent": "v"}},
              "input": {"z": "context.n"}, "on_error": "e", "transitions": [{"to": "d"}]},
        "d": {"machine": {"states": {"p": {"type": "initial", "agent": "v",
                                           "transitions": [{"to": "q"}]},
                                     "q": {"type": "final", "output": {"x": "1"}}}},
              "input": {"x": "context.n"}, "transitions": [{"to": "g"}]},
        "g": {"agent": "w", "input": {"message": "'Go on.'"}, "transitions": [{"to": "h"}]},
        "h": {"wait": "approval",
              "input": {"question": {"text": "ok?"}, "choices": [{"text": "y"}]},
              "transitions": [{"when": True, "to": "f"}]},
        "e": {"type": "final", "output": {"code": "result.error.code"}},
        "f": {"type": "final", "output": {"n": "context.n"}},
    },
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    50, 0, -1, 1.5, True, False, None, "", "no such thing", "5", "'t'", "null", "1 / 0", [], [1],
    ["5"], [[1]], [{"a": 1}], {}, {"a": 1}, {"text": "x"}, {"text": 5},
)  # fmt: skip
# Where no way leads on a hook may; and "y" may be none of the choices.
HARMLESS = (ErrorCode.DEAD_END, ErrorCode.INPUT_REQUIRED)

FITS = jsonschema_rs.validator_for(machine_schema())

Place = tuple[str | int, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    if place:
        yield place
    if isinstance(value, dict | list):
        held: Any = cast("Any", value)
        names = list(held) if isinstance(value, dict) else range(len(held))
        for name in names:
            yield from places(held[name], (*place, name))


def with_value(place: Place, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(WHOLE)
    holder: Any = made
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    return made


class Agreeable:
    async def execute(self, input: Any, context: Any) -> Any:
        return {"content": "fine"}

    def ask_user(self, question: str) -> str:
        return "y"


@tool(effect="read")
def look() -> str:
    return "x"


def one(**given: Any) -> int:
    return 1


def engine_of(data: Mapping[str, Any]) -> MachineEngine:
    """An engine with whatever the machine names."""
    machine = load_machine(data)
    named = {(task.kind, task.name) for _, task in machine.tasks()}
    agents = {name: Agreeable() for kind, name in named if kind == "agent"}
    functions = {name: one for kind, name in named if kind == "function"}
    return MachineEngine(machine, agents=agents, functions=functions, tools=[look])


PLACES = list(places(WHOLE))


def values_of(place: Place) -> tuple[Any, ...]:
    """The values for a place: all in a search, else each 16th, and others at the next place."""
    if not settings.default.derandomize:
        return VALUES
    return VALUES[PLACES.index(place) % 16 :: 16]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.hypothesis
async def test_a_value_of_any_kind_is_a_fault_with_its_place_or_does_no_harm(place: Place) -> None:
    for value in values_of(place):
        data = with_value(place, value)
        told = check_machine(json.dumps(data, indent=1))
        assert all(fault.mark.line and fault.mark.column for fault in told), value
        if any(fault.severity == "fault" for fault in told):
            with pytest.raises(Misuse):
                load_machine(data)
            continue
        FITS.validate(data)
        if place[0] == "context":
            # What the context holds is known only when it runs.
            continue
        result = await go(engine_of(data), host=Agreeable())
        error = result.error
        assert error is None or error.code in HARMLESS, (value, error)


@pytest.mark.parametrize(
    ("state", "found", "expected"),
    [
        ("transitions: [{when: @5, to: b}]", "the number '5'", "true or false"),
        ("transitions: [{when: @, to: b}]", "nothing", "true or false"),
        ("transitions: [{when: @[x], to: b}]", "a list", "true or false"),
        ("transitions: [{when: @'5', to: b}]", "always gives the number 5", "true or false"),
        ("transitions: [{when: @1 / 0 > 1, to: b}]", "cannot be evaluated", "true or false"),
        ("foreach: @5, agent: w", "the number '5'", "a list or mapping of items"),
        ("foreach: @'5', agent: w", "always gives the number 5", "a list or mapping of items"),
        ("foreach: context.l, key: @true, agent: w", "the truth value 'true'", "item.id"),
        ("foreach: context.l, key: @'5', agent: w", "the same for all items", "item.id"),
        ("foreach: context.l, as: @'', agent: w", "an empty text", "a name for the item"),
        ("function: f, input: @5", "the number '5'", "the keywords of the function"),
        ("function: f, input: @[1]", "a list", "the keywords of the function"),
        ("function: f, input: @'5'", "always gives the number 5", "the keywords of the function"),
        ("function: f, input: {x: @1 / 0}", "cannot be evaluated", "a value"),
        ("machine: @'', input: {}", "an empty text", "the file of a machine"),
        ("agent: w, input: @~", "nothing", "what the agent is asked"),
        ("wait: w, input: {choices: @5}", "the number '5'", "a list of choices"),
        ("wait: w, input: @[1]", "a list", "the question"),
        ("parallel: {x: {agent: w}, y: {function: f}}, input: @[1]", "a list", "the keywords"),
        ("agent: w, output_to_context: {x: @1e999}", "the number 1e999", "a number that JSON has"),
    ],
)
def test_a_value_of_another_kind_is_told_where_it_stands(
    state: str, found: str, expected: str
) -> None:
    text = whole(f"a: {{type: initial, {state}}}\nb: {{type: final}}")
    column = text.splitlines()[2].index("@") + 1
    told = check_machine(text.replace("@", ""))
    (fault,) = [fault for fault in told if fault.severity == "fault"]
    assert (fault.mark.line, fault.mark.column) == (3, column)
    assert found in fault.found
    assert expected in fault.expected


@pytest.mark.parametrize("written", ["true", "True", "TRUE"])
async def test_a_truth_value_is_a_constant_condition(written: str) -> None:
    ways = f"[{{when: false, to: a}}, {{when: {written}, to: b}}]"
    text = whole(f"a: {{type: initial, transitions: {ways}}}\nb: {{type: final, output: 1}}")
    result = await go(MachineEngine(load_machine(text)))
    assert result.output == 1


def test_a_setting_of_another_kind_is_told_where_it_stands() -> None:
    text = whole("a: {type: final}", agents="{w: {settings: {seed: 1, temperature: hot}}}")
    told = [fault for fault in check_machine(text) if "temperature" in fault.expected]
    assert [(fault.mark.line, fault.mark.column) for fault in told] == [(2, 47)]


async def test_the_list_of_a_final_state_is_its_output() -> None:
    text = whole("a: {type: initial, transitions: [{to: b}]}\nb: {type: final, output: [1, 2]}")
    assert (await go(MachineEngine(load_machine(text)))).output == [1, 2]


@pytest.mark.parametrize("agent", ["gpt-5", "{model: gpt-5}"])
def test_a_model_without_its_provider_is_a_warning(agent: str) -> None:
    (told,) = check_machine(
        f"""
spec: upshot.machine/1
agents: {{w: {agent}}}
states:
  a: {{type: initial, agent: w, transitions: [{{to: b}}]}}
  b: {{type: final}}
"""
    )
    assert (told.severity, told.found) == ("warning", "the model 'gpt-5'")
    assert told.expected == "provider:model, such as openai:gpt-5"
