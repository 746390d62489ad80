"""Random machines: whatever they do, there is exactly one result, with a code from the list."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.engines.machine_kit import cut_and_resumed, logged, talker
from tests.searching import examples
from upshot import (
    AgentError,
    BrokenMachine,
    ErrorCode,
    Event,
    Failed,
    MachineEngine,
    Misuse,
    Status,
    load_machine,
)
from upshot.testing import FakeClock

NAMES = ("a", "b", "c")
EXPRESSIONS = (
    "context.n", "context.zz", "output", "output.content", "result.error.code", "input.message",
    "'text'", "1", "context.l", "item", "1 / context.n", "result", "has(result.error)",
    "[1, context.n]",
)  # fmt: skip
CONDITIONS = (
    "context.n < 2", "true", "false", "has(result.error)", "result.success", "context.zz", "output",
    "result.error.code == 'rate_limit'",
)  # fmt: skip
CODES = st.sampled_from(["default", "rate_limit"])
KNOWN = {*ErrorCode, "rate_limit", "odd_code"}


def works() -> st.SearchStrategy[dict[str, Any]]:
    task = st.sampled_from(
        [{"agent": "good"}, {"agent": "bad"}, {"agent": "odd"}, {"function": "one"},
         {"function": "bug"}, {"function": "echo"}, {"wait": "person"},
         {"parallel": {"x": {"agent": "good"}, "y": {"function": "one"}}},
         {"parallel": {"x": {"agent": "bad"}, "y": {"function": "bug"}}},
         {"foreach": "context.l", "function": "one"}, {"foreach": "context.n", "agent": "good"},
         {"foreach": "[1, 2]", "function": "echo", "key": "string(item)"},
         {"machine": {"states": {"p": {"type": "initial", "function": "one",
                                       "transitions": [{"to": "q"}]}, "q": {"type": "final"}}}},
         {"machine": {"states": {"p": {"type": "initial", "wait": "inner",
                                       "transitions": [{"to": "q"}]}, "q": {"type": "final"}}}},
         {}]
    )  # fmt: skip
    expression = st.sampled_from(EXPRESSIONS)
    targets = st.sampled_from(NAMES)
    ways = st.lists(
        st.fixed_dictionaries({"to": targets}, optional={"when": st.sampled_from(CONDITIONS)}),
        max_size=3,
    )
    more = st.fixed_dictionaries(
        {"transitions": ways},
        optional={
            "output_to_context": st.dictionaries(st.sampled_from("nm"), expression, max_size=2),
            "on_error": targets | st.dictionaries(CODES, targets),
        },
    )
    given = st.dictionaries(st.sampled_from(["message", "x"]), expression, max_size=2)
    return st.tuples(task, more, given).map(
        lambda all: {**all[0], **all[1], **({"input": all[2]} if all[0] and all[2] else {})}
    )


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    states = {name: draw(works()) for name in NAMES}
    states["a"]["type"] = "initial"
    for state in states.values():
        # Most machines shall come to an end.
        if draw(st.integers(0, 4)):
            state["transitions"].append({"to": draw(st.sampled_from("bcc"))})
    if draw(st.integers(0, 4)):
        states["c"] = {"type": "final", "output": {"n": draw(st.sampled_from(EXPRESSIONS[5:]))}}
    return {"spec": "upshot.machine/1", "context": {"n": 0, "l": [1, 2]},
            "settings": {"max_steps": 8}, "states": states}  # fmt: skip


class Odd:
    """An agent that returns no JSON."""

    async def execute(self, input: Any, context: Any) -> Any:
        return {"a": object(), "error": 5}


class Hooks:
    """Hooks that do what a list says, one item a call."""

    def __init__(self, placed_answers: list[str]) -> None:
        self._wishes = placed_answers

    def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> Any:
        wish = self._wishes.pop() if self._wishes else ""
        if wish == "raise":
            raise ValueError("a bug")
        context["n"] = context.get("n") if wish == "keep" else 1
        return {"replace": {"content": "x"}, "nowhere": "nowhere", "a": "a"}.get(wish)

    def on_error(self, state_name: str, error: Exception, context: dict[str, Any]) -> str | None:
        return "b" if len(self._wishes) % 2 else None


def bug(**given: Any) -> None:
    raise ValueError("a bug")


def one(**given: Any) -> int:
    if given.get("x") == "text":
        raise Failed("odd_code", "no", retryable=True)
    return 1


def engine_of(data: dict[str, Any], placed_answers: list[str]) -> MachineEngine | None:
    refused = AgentError("rate_limit", "no", retryable=True, retry_after_s=5)
    try:
        return MachineEngine(
            load_machine(data),
            agents={"good": talker(*["hi"] * 40), "bad": talker(*[refused] * 40), "odd": Odd()},
            functions={"one": one, "bug": bug, "echo": lambda **given: given},
            hooks=Hooks(list(placed_answers)) if placed_answers else None,
            clock=FakeClock(),
        )
    except BrokenMachine:
        return None


def timeless(value: Any) -> Any:
    """*value* without moments and durations: a whole result may be in it."""
    if isinstance(value, dict):
        times = {"started_at", "ended_at", "duration_ms", "elapsed_ms"}
        return {name: timeless(item) for name, item in value.items() if name not in times}
    return [timeless(item) for item in value] if isinstance(value, list) else value


WISHES = st.lists(st.sampled_from(["", "raise", "keep", "replace", "nowhere", "a"]), max_size=6)


@examples(60)
@given(machines(), WISHES)
async def test_a_random_machine_ends_with_one_result_of_a_known_kind(
    data: dict[str, Any], placed_answers: list[str]
) -> None:
    engine = engine_of(data, placed_answers)
    if engine is None:
        return
    result, log = await logged(engine)
    own = [event for event in log if event.run_id == "run-1"]
    assert [event.kind for event in own].count("run_settled") == 1
    assert own[-1].kind == "run_settled"
    assert result.status in (Status.COMPLETED, Status.FAILED, Status.INPUT_REQUIRED)
    assert (result.status is Status.COMPLETED) == (result.error is None)
    assert result.error is None or result.error.code in KNOWN


@examples(25)
@example(
    {
        "states": {
            "a": {"agent": "good", "transitions": [{"to": "b"}], "type": "initial"},
            "b": {"type": "final", "output": {"n": "result"}},
        }
    },
    1,
)
@given(machines(), st.integers(min_value=1))
async def test_a_random_machine_that_is_cut_ends_as_if_it_had_not_been(
    data: dict[str, Any], place: int
) -> None:
    engine = engine_of(data, [])
    if engine is None:
        return
    whole, log = await logged(engine)
    own: list[Event] = [event for event in log if event.run_id == "run-1"]
    again = engine_of(data, [])
    assert again is not None
    result, _ = await cut_and_resumed(again, own[: 1 + place % len(own)])
    assert (result.status, timeless(result.output), result.error and result.error.code) == (
        whole.status,
        timeless(whole.output),
        whole.error and whole.error.code,
    )


@given(machines())
def test_the_data_of_a_machine_makes_the_same_machine(data: dict[str, Any]) -> None:
    try:
        machine = load_machine(data)
    except Misuse:
        return
    assert load_machine(machine.data).data == machine.data == data
