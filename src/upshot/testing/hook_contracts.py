"""ObserverContract and DeciderContract: what hooks of a run must do."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any, TypeVar
from unittest import SkipTest

from upshot.contract.agent import Agent
from upshot.contract.base.checks import nearest
from upshot.contract.base.enums import ErrorCode, InterruptCause, Origin, Status
from upshot.contract.error import AgentError
from upshot.contract.protocols import Decider, Observer
from upshot.contract.result import AgentResult
from upshot.contract.run_control import FinalizeDecision, Interrupt
from upshot.contract.tool_calls import ToolCall
from upshot.entry.api import run
from upshot.models.scripted import ScriptedModel
from upshot.runs.callbacks import call
from upshot.testing.suite import Role, Suite, ending
from upshot.tools.definition.tool import Tool

H = TypeVar("H")

_AT_ONCE = 5
_DOWN = AgentError(ErrorCode.INVALID_REQUEST, "It is down.")
_OBSERVED = tuple(name for name in vars(Observer) if not name.startswith("_"))
_DECIDED = tuple(name for name in vars(Decider) if not name.startswith("_"))
_ANSWER = "An answer."
_GIVE = "give `answer` one that it accepts"
# A name this near to a hook's is a mistake and not a method of the user's own.
_NEAR = 0.85


class _HookContract(Suite[H]):
    """What the suites for observers and deciders share."""

    request: str = "A question."
    answer: str = _ANSWER
    # The option of a run that takes the hook, and the methods that a hook may have.
    _option: str
    _known: tuple[str, ...]

    async def test_what_is_named_like_a_hook_is_one(self) -> None:
        """A mistyped method would never be called."""
        async with self._made() as hook:
            for name in dir(hook):
                if name.startswith("_") or name in (*_OBSERVED, *_DECIDED):
                    continue
                near = nearest(name, self._known, cutoff=_NEAR)
                is_method = near and callable(getattr(hook, name))
                assert not is_method, f"upshot never calls its {name}: the hook is {''.join(near)}"

    async def _ended(self, hook: object, **options: Any) -> AgentResult[Any]:
        """Run without tools, ending as *options* say."""
        agent = Agent[Any]("contract", retry=None)
        return await run(agent, self.request, **{self._option: [hook]}, **options)

    async def _work(self, hook: object | None, **options: Any) -> AgentResult[Any]:
        """Run with a tool that works, one that fails, and an answer."""
        calls = [ToolCall("c1", "works", {}), ToolCall("c2", "fails", {})]
        model = ScriptedModel([calls, *[self.answer] * 3])
        tools = [_tool("works"), _tool("fails", ValueError("it never works"))]
        agent = Agent[Any]("contract", model=model, tools=tools)
        hooks = {} if hook is None else {self._option: [hook]}
        return await run(agent, self.request, **hooks, **options)

    async def _many(self, hook: object) -> list[AgentResult[Any]]:
        """Run several times at once."""
        return await asyncio.gather(*(self._work(hook) for _ in range(_AT_ONCE)))


class ObserverContract(_HookContract[Observer]):
    """A suite for pytest: inherit, and define a ``make`` that returns an observer.

    Attributes:
        request: The request of the runs that it sees.
        answer: Their answer.
    """

    _role: Role = Role("an observer", some_of=_OBSERVED)
    _option = "observers"
    _known = _OBSERVED

    async def test_it_lets_a_run_be(self) -> None:
        """The run ends as it does without it, and none of its methods raises."""
        alone = await self._work(None)
        async with self._made() as observer:
            result = await self._work(observer)
            _check_silent(result)
            actual, expected = _comparable(result), _comparable(alone)
            assert actual == expected, f"without it the run gave {expected}, and with it {actual}"

    async def test_it_changes_nothing_that_it_is_shown(self) -> None:
        """Each of its methods leaves run, request and result unchanged."""
        async with self._made() as observer:
            watched = _Watched(observer)
            _check_silent(await self._work(watched))
            assert not watched.changed, f"it changed {' and '.join(watched.changed)}"

    async def test_it_sees_every_end(self) -> None:
        """It sees runs that fail, are revised or are interrupted like any other."""
        ends: tuple[dict[str, Any], ...] = (
            {"model": ScriptedModel([_DOWN])},
            {"model": ScriptedModel(["One.", "Two."]), "deciders": [_Again()], "max_attempts": 2},
            {"model": ScriptedModel(["One."]), "host": _Closing()},
        )
        for options in ends:
            async with self._made() as observer:
                _check_silent(await self._ended(observer, **options))

    async def test_one_of_it_sees_many_runs_at_once(self) -> None:
        """None of its state belongs to one run only."""
        async with self._made() as observer:
            for result in await self._many(observer):
                _check_silent(result)


class DeciderContract(_HookContract[Decider]):
    """A suite for pytest: inherit, and define a ``make`` that returns a decider.

    Attributes:
        request: The request of the runs that it decides on.
        answer: Their answer. If you set it, the decider must accept it; if the decider does not
            accept the default, the checks that depend on it are skipped.
    """

    _role: Role = Role("a decider", some_of=_DECIDED)
    _option = "deciders"
    _known = _DECIDED

    async def test_it_lets_a_plain_run_pass(self) -> None:
        """The run completes and is committed; a decider that raises would fail it."""
        async with self._made() as decider:
            _check_passed(await self._work(decider), self.answer)

    async def test_it_asks_for_no_other_attempt_at_a_plain_run(self) -> None:
        """One attempt is enough, even if more are allowed."""
        async with self._made() as decider:
            result = await self._work(decider, max_attempts=3)
            if result.attempts != 1 and self.answer == _ANSWER:
                raise SkipTest(f"it had the run done {result.attempts} times; {_GIVE}")
            assert result.attempts == 1, f"it had the run done {result.attempts} times"
            _check_passed(result, self.answer)

    async def test_it_bears_a_run_without_an_answer(self) -> None:
        """It is also asked about a failed and an interrupted run, and must not raise."""
        ends: tuple[dict[str, Any], ...] = (
            {"model": ScriptedModel([_DOWN])},
            {"model": ScriptedModel([self.answer]), "host": _Closing()},
        )
        for options in ends:
            async with self._made() as decider:
                result = await self._ended(decider, **options)
            code = result.error and result.error.code
            assert code != ErrorCode.HOOK_FAILED, f"of a run without an answer {ending(result)}"

    async def test_one_of_it_decides_on_many_runs_at_once(self) -> None:
        """None of its state belongs to one run only."""
        async with self._made() as decider:
            for result in await self._many(decider):
                _check_passed(result, self.answer)


class _Watched:
    """Forwards everything to an observer, and records what it changes."""

    def __init__(self, observer: object) -> None:
        self._observer = observer
        self.changed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._observer, name)
        if name not in _OBSERVED:
            return method

        async def tell(*shown: object) -> None:
            before = [deepcopy(_facts_of(one)) for one in shown]
            await call(method, *shown)
            for one, facts in zip(shown, before, strict=True):
                after = _facts_of(one)
                self.changed += [
                    f"the {field} that {name} was shown"
                    for field in facts
                    if facts[field] != after[field]
                ]

        return tell


_SHOWN = ("attributes", "committed", "content", "error", "inputs", "messages", "metadata", "state")


def _facts_of(shown: object) -> dict[str, object]:
    """Return the parts of an observer's argument that can be changed."""
    return {name: getattr(shown, name) for name in (*_SHOWN, "status") if hasattr(shown, name)}


class _Again:
    """A decider that asks for a second attempt."""

    def before_finalize(self, info: object, request: object, result: Any) -> Any:
        return FinalizeDecision.revise("Again.") if result.content == "One." else None


class _Closing:
    """A host that requests a stop."""

    def interrupts(self) -> Interrupt:
        return Interrupt(InterruptCause.HOST_SHUTDOWN, "good night")


def _comparable(result: AgentResult[Any]) -> tuple[Any, ...]:
    return result.status, result.content, len(result.messages), len(result.tool_records)


def _check_silent(result: AgentResult[Any]) -> None:
    """Check that no observer raised."""
    raised = [one.message for one in result.warnings if one.origin == Origin.OBSERVER]
    assert not raised, f"one of its methods raised: {'; '.join(raised)}"


def _check_passed(result: AgentResult[Any], answer: str) -> None:
    assert result.status is Status.COMPLETED, ending(result)
    assert result.content == answer, f"the answer was {answer!r}, and it became {result.content!r}"
    verdict = "revise" if "revise_exhausted" in result.state else "discard"
    reason = result.state.get("finalize_reason", "")
    is_kept = result.committed and verdict != "revise"
    problem = f"it does not let {answer!r} pass: {verdict}, {reason!r}; {_GIVE}"
    if not is_kept and answer == _ANSWER:
        raise SkipTest(problem)
    assert is_kept, problem


def _tool(name: str, error: Exception | None = None) -> Tool:
    async def call(arguments: dict[str, Any]) -> str:
        if error is not None:
            raise error
        return "done"

    return Tool.from_schema(name, f"It {name}.", {"type": "object"}, call, effect="read")
