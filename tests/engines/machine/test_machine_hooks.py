"""Hooks of a machine: what they are told, what they may change, and where they may lead."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from tests.engines.machine_kit import cut_and_resumed, engine_of, go, logged, talker
from upshot import (
    AgentError,
    AgentResult,
    ErrorCode,
    Failed,
    MachineEngine,
    Misuse,
    Origin,
    ResultView,
    Status,
    Usage,
    to_contract,
)

STATES = """
    a:
      type: initial
      agent: talker
      output_to_context: {said: output.content}
      transitions: [{to: b}]
    b: {type: final, output: context}
    c: {type: final, output: {code: result.error.code, from: '"c"'}}
"""
REFUSED = AgentError("rate_limit", "no", retry_after_s=9)


def engine(hooks: object, *replies: Any, states: str = STATES, **given: Any) -> MachineEngine:
    return engine_of(states, agents={"talker": talker(*replies)}, hooks=hooks, **given)


class Told:
    """Hooks that write down what they are told."""

    def __init__(self) -> None:
        self.story: list[tuple[Any, ...]] = []

    def on_state_enter(self, state_name: str, context: dict[str, Any]) -> None:
        self.story.append(("enter", state_name))

    async def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> None:
        self.story.append(("exit", state_name))

    def on_transition(self, from_state: str, to_state: str, context: dict[str, Any]) -> None:
        self.story.append(("go", from_state, to_state))

    async def on_error(self, state_name: str, error: Exception, context: dict[str, Any]) -> None:
        self.story.append(("error", state_name, str(error)))


async def test_hooks_are_told_in_order_sync_or_async() -> None:
    hooks = Told()
    await go(engine(hooks, "hi"))
    assert hooks.story == [
        ("enter", "a"), ("exit", "a"), ("go", "a", "b"), ("enter", "b"), ("exit", "b"),
    ]  # fmt: skip


async def test_states_of_sub_machines_have_the_name_of_their_state_before_theirs() -> None:
    hooks = Told()
    states = """
        a: {type: initial, machine: {states: {x: {type: initial, transitions: [{to: y}]},
            y: {type: final, output: {n: 1}}}}, transitions: [{to: b}]}
        b: {type: final}
    """
    await go(engine(hooks, states=states))
    assert ("go", "a/x", "a/y") in hooks.story


async def test_an_exit_hook_written_for_the_flat_contract_works_unchanged() -> None:
    class Flat:
        def __init__(self) -> None:
            self.errors: list[Any] = []

        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> Any:
            if output and isinstance(output, dict):
                error = output.get("error")
                if error:
                    self.errors.append((error.get("code"), error.get("retry_after_s")))
            return None

    hooks = Flat()
    result = await go(engine(hooks, REFUSED))
    assert hooks.errors == [("rate_limit", 9)]
    assert result.error == REFUSED


async def test_the_text_that_a_function_returns_is_the_content_that_hooks_see() -> None:
    seen: list[Any] = []
    hooks = SimpleNamespace(on_state_exit=lambda state, context, output: seen.append(output))
    states = "a: {type: initial, function: f, transitions: [{to: z}]}\nz: {type: final}"
    await go(engine_of(states, functions={"f": lambda: "hi"}, hooks=hooks))
    assert (seen[0].content, seen[0].result.output) == ("hi", "hi")


async def test_the_exit_hook_sees_the_whole_result() -> None:
    seen: list[ResultView] = []

    class Looking:
        def on_state_exit(
            self, state_name: str, context: dict[str, Any], output: ResultView
        ) -> None:
            seen.append(output)

    await go(engine(Looking(), "hi"))
    view = seen[0]
    assert type(view).__mro__[1] is dict
    assert dict(view) == to_contract(view.result)
    assert "error" not in view
    assert (view.content, view.status, view.result.agent_id) == ("hi", "completed", "talker")


async def test_what_hooks_do_to_the_context_is_kept_also_deep_inside() -> None:
    class Changing:
        def on_state_enter(self, state_name: str, context: dict[str, Any]) -> None:
            context.setdefault("seen", []).append(state_name)

        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> None:
            context["deep"]["n"] += 1
            context.pop("gone", None)

    result = await go(engine(Changing(), "hi"), inputs={"deep": {"n": 1}, "gone": 1})
    assert result.output == {"deep": {"n": 3}, "seen": ["a", "b"], "said": "hi"}


async def test_an_enter_hook_may_hand_back_another_context() -> None:
    class Replacing:
        def on_state_enter(self, state_name: str, context: dict[str, Any]) -> dict[str, Any]:
            return {"only": state_name}

    assert (await go(engine(Replacing(), "hi"), inputs={"x": 1})).output == {"only": "b"}


async def test_a_context_that_is_no_json_is_the_hooks_failure() -> None:
    class Odd:
        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> None:
            context["odd"] = object()

    result = await go(engine(Odd(), "hi"))
    assert result.error is not None
    assert result.error.code is ErrorCode.HOOK_FAILED
    assert "'odd'" in result.error.message


@pytest.mark.parametrize(
    "told",
    [{"content": "mine"}, AgentResult(content="mine", output="mine")],
    ids=["a contract dict", "a result"],
)
async def test_an_exit_hook_may_replace_what_came_of_the_state(told: Any) -> None:
    class Replacing:
        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> Any:
            return told if state_name == "a" else None

    assert (await go(engine(Replacing(), REFUSED))).output == {"said": "mine"}


async def test_an_exit_hook_may_hand_back_what_it_got() -> None:
    class Passing:
        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> Any:
            return output

    result = await go(engine(Passing(), REFUSED))
    assert result.error == REFUSED


async def test_an_exit_hook_may_name_the_next_state() -> None:
    class Routing:
        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> Any:
            return "c" if state_name == "a" and output.error else None

    result = await go(engine(Routing(), REFUSED))
    assert result.output == {"code": "rate_limit", "from": "c"}


async def test_a_state_that_is_nowhere_is_a_dead_end() -> None:
    class Lost:
        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> str:
            return "nowhere"

    result = await go(engine(Lost(), "hi"))
    assert result.error is not None
    assert result.error.code is ErrorCode.DEAD_END
    assert result.error.details == {"state": "a", "to": "nowhere"}


async def test_a_transition_hook_may_lead_elsewhere() -> None:
    class Diverting:
        def on_transition(self, from_state: str, to_state: str, context: dict[str, Any]) -> str:
            return "c"

    result = await go(engine(Diverting(), "hi"))
    assert result.output == {"code": None, "from": "c"}


async def test_a_state_that_does_nothing_is_told_of_as_empty_also_after_a_failure() -> None:
    seen: list[dict[str, Any]] = []

    class Naive:
        def on_state_exit(self, state_name: str, context: dict[str, Any], output: Any) -> Any:
            seen.append(dict(output))
            if output and isinstance(output, dict) and output.get("error"):
                return "c"
            return output

    result = await go(engine(Naive(), REFUSED))
    assert seen[1] == {}
    assert result.output == {"code": "rate_limit", "from": "c"}


# ---- bugs

BUGGY = """
    a: {type: initial, function: f, transitions: [{to: b}]}
    b: {type: final, output: context}
    c: {type: final, output: {code: result.error.code, from: '"c"'}}
"""


def raises(error: Exception) -> Any:
    def work() -> None:
        raise error

    return work


async def test_on_error_is_told_of_a_bug_and_may_name_a_state() -> None:
    class Rescuing(Told):
        async def on_error(self, state_name: str, error: Exception, context: Any) -> Any:
            await super().on_error(state_name, error, context)
            return "c"

    hooks = Rescuing()
    made = engine_of(BUGGY, functions={"f": raises(ValueError("a bug"))}, hooks=hooks)
    assert (await go(made)).output == {"code": "internal", "from": "c"}
    assert ("error", "a", "a bug") in hooks.story


async def test_on_error_is_not_told_of_what_providers_and_limits_do() -> None:
    hooks = Told()
    await go(engine(hooks, REFUSED))
    await go(engine_of(BUGGY, functions={"f": raises(Failed("not_found", "no"))}, hooks=hooks))
    assert not [line for line in hooks.story if line[0] == "error"]


async def test_a_result_that_was_unwrapped_is_no_bug() -> None:
    def unwrap() -> None:
        AgentResult(status=Status.FAILED, error=REFUSED).unwrap()

    hooks = Told()
    result = await go(engine_of(BUGGY, functions={"f": unwrap}, hooks=hooks))
    assert result.error == REFUSED
    assert not [line for line in hooks.story if line[0] == "error"]


@pytest.mark.parametrize("name", ["on_state_enter", "on_state_exit", "on_transition"])
async def test_a_hook_that_raises_fails_the_run_and_says_which(name: str) -> None:
    class Broken:
        pass

    def hook(*facts: Any) -> None:
        raise KeyError("x")

    setattr(Broken, name, staticmethod(hook))
    result = await go(engine(Broken(), "hi"))
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.code is ErrorCode.HOOK_FAILED
    assert result.error.origin is Origin.HOST
    assert name in result.error.message


@pytest.mark.parametrize("name", ["on_state_enter", "on_state_exit", "on_transition"])
async def test_on_error_may_save_a_run_from_another_hook(name: str) -> None:
    class Broken:
        def on_error(self, state_name: str, error: Exception, context: Any) -> str:
            assert isinstance(error, KeyError)
            return "c"

    def hook(state: str, *facts: Any) -> None:
        if state == "a":
            raise KeyError("x")

    setattr(Broken, name, staticmethod(hook))
    result = await go(engine(Broken(), "hi"))
    assert result.output == {"code": None, "from": "c"}


async def test_an_on_error_that_raises_fails_the_run() -> None:
    class Broken:
        def on_error(self, state_name: str, error: Exception, context: Any) -> str:
            raise ValueError("worse")

    made = engine_of(BUGGY, functions={"f": raises(ValueError("a bug"))}, hooks=Broken())
    result = await go(made)
    assert result.error is not None
    assert result.error.code is ErrorCode.HOOK_FAILED
    assert "worse" in result.error.message


async def test_a_resumed_run_sees_what_hooks_did_and_calls_none_again_for_finished_states() -> None:
    class Counting(Told):
        def on_state_enter(self, state_name: str, context: dict[str, Any]) -> None:
            super().on_state_enter(state_name, context)
            context.setdefault("seen", []).append(state_name)

    whole, log = await logged(engine(Counting(), "hi"))
    place = next(n for n, e in enumerate(log) if e.kind == "step_settled" and "a#1" in e.key
                 and "enter" not in e.key)  # type: ignore[union-attr]  # fmt: skip
    hooks = Counting()
    again, _ = await cut_and_resumed(engine(hooks), log[: place + 1])
    assert again.output == whole.output == {"said": "hi", "seen": ["a", "b"]}
    assert hooks.story == [("enter", "b"), ("exit", "b")]


# ---- the view


def test_a_view_is_the_contract_dict_and_the_result() -> None:
    result = AgentResult(output={"a": 1}, usage=Usage(input_tokens=1, output_tokens=1))
    view = ResultView(result)
    assert view == to_contract(result)
    assert view.result is result
    assert view["usage"]["input_tokens"] == 1  # type: ignore[index,call-overload]
    assert view.usage.input_tokens == 1
    assert view.get("error") is None


def test_what_a_view_has_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = ResultView(AgentResult()).nothing


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
)
def test_a_view_can_be_copied(copied: Any) -> None:
    view = ResultView(AgentResult(content="x", output="x"))
    view["more"] = 1
    made = copied(view)
    assert made == view
    assert made.result == view.result


class Hooks:
    def on_state_enter(self, state_name: str, context: Any) -> None:
        """Nothing."""


class OfTheClass:
    @staticmethod
    def on_state_enter(state_name: str, context: Any) -> None:
        context["seen"] = True

    @classmethod
    def on_state_exit(cls, state_name: str, context: Any, output: Any) -> None:
        """Nothing."""


def test_a_class_of_hooks_is_misuse_when_the_engine_is_made() -> None:
    with pytest.raises(Misuse, match=r"hooks is the class Hooks: give an object.*hooks=Hooks\(\)"):
        engine(Hooks, "hi")


async def test_a_class_whose_hooks_need_no_object_will_do() -> None:
    result = await go(engine(OfTheClass, "hi"))
    assert result.output["seen"] is True
