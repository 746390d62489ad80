"""ObserverContract and DeciderContract: what hooks of a run must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Any
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
from upshot.testing.suite import Role, Suite, ending
from upshot.tools.definition.tool import Tool

_AT_ONCE = 5
_DOWN = AgentError(ErrorCode.INVALID_REQUEST, "It is down.")
_OBSERVED = tuple(name for name in vars(Observer) if not name.startswith("_"))
_DECIDED = tuple(name for name in vars(Decider) if not name.startswith("_"))
_ANSWER = "An answer."
_GIVE = "give `answer` one that it accepts"
# A name that is nearer than this is a mistake and not a method of the hook's own.
_NEAR = 0.85


class ObserverContract(Suite):
    """A suite for pytest: inherit, and give a ``make`` that returns an observer.

    Attributes:
        request: What the runs are asked that it sees.
        answer: What they answer.
        patience_s: How many seconds a check may take; a longer one is red.
    """

    request: str = "A question."
    answer: str = "An answer."
    _role: Role = Role("an observer", some_of=_OBSERVED)

    def make(self) -> Observer | Awaitable[Observer] | AbstractAsyncContextManager[Observer]:
        """The observer; a coroutine of it or an async context manager will do."""
        raise NotImplementedError("an ObserverContract gives the observer in make()")

    async def test_it_lets_a_run_be(self) -> None:
        """The run ends as without it, and none of its methods raises."""
        alone = await _work(self.request, self.answer)
        async with self._made() as observer:
            result = await _work(self.request, self.answer, observers=[observer])
            _silent(result)
            told, expected = _said(result), _said(alone)
            assert told == expected, f"without it the run gave {expected}, and with it {told}"

    async def test_it_sees_every_end(self) -> None:
        """A run that fails, is done again or is interrupted is seen like any other."""
        ends: tuple[dict[str, Any], ...] = (
            {"model": ScriptedModel([_DOWN])},
            {"model": ScriptedModel(["One.", "Two."]), "deciders": [_Again()], "max_attempts": 2},
            {"model": ScriptedModel(["One."]), "host": _Closing()},
        )
        for hooks in ends:
            async with self._made() as observer:
                agent = Agent[Any]("contract", retry=None)
                _silent(await run(agent, self.request, observers=[observer], **hooks))

    async def test_what_is_named_like_a_hook_is_one(self) -> None:
        """A mistyped method is never called."""
        async with self._made() as observer:
            _well_named(observer, _OBSERVED)

    async def test_one_of_it_sees_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""
        async with self._made() as observer:
            hooks: dict[str, Any] = {"observers": [observer]}
            works = [_work(self.request, self.answer, **hooks) for _ in range(_AT_ONCE)]
            for result in await asyncio.gather(*works):
                _silent(result)


class DeciderContract(Suite):
    """A suite for pytest: inherit, and give a ``make`` that returns a decider.

    Attributes:
        request: What the runs are asked that it decides on.
        answer: What they answer. One of your own it has to let pass; where it does not with the
            one that is here, what depends on that is skipped.
        patience_s: How many seconds a check may take; a longer one is red.
    """

    request: str = "A question."
    answer: str = _ANSWER
    _role: Role = Role("a decider", some_of=_DECIDED)

    def make(self) -> Decider | Awaitable[Decider] | AbstractAsyncContextManager[Decider]:
        """The decider; a coroutine of it or an async context manager will do."""
        raise NotImplementedError("a DeciderContract gives the decider in make()")

    async def test_it_lets_a_plain_run_pass(self) -> None:
        """The run completes and is committed; a decider that raises would fail it."""
        async with self._made() as decider:
            _passed(await _work(self.request, self.answer, deciders=[decider]), self.answer)

    async def test_it_asks_for_no_other_attempt_at_a_plain_run(self) -> None:
        """One attempt is enough, however many may be made."""
        async with self._made() as decider:
            result = await _work(self.request, self.answer, deciders=[decider], max_attempts=3)
            if result.attempts != 1 and self.answer == _ANSWER:
                raise SkipTest(f"it had the run done {result.attempts} times; {_GIVE}")
            assert result.attempts == 1, f"it had the run done {result.attempts} times"
            _passed(result, self.answer)

    async def test_it_bears_a_run_without_an_answer(self) -> None:
        """It is asked about a failed and an interrupted run too, and does not raise."""
        ends: tuple[dict[str, Any], ...] = (
            {"model": ScriptedModel([_DOWN])},
            {"model": ScriptedModel([self.answer]), "host": _Closing()},
        )
        for hooks in ends:
            async with self._made() as decider:
                agent = Agent[Any]("contract", retry=None)
                result = await run(agent, self.request, deciders=[decider], **hooks)
            code = result.error and result.error.code
            assert code != ErrorCode.HOOK_FAILED, f"of a run without an answer {ending(result)}"

    async def test_what_is_named_like_a_hook_is_one(self) -> None:
        """A mistyped method is never called."""
        async with self._made() as decider:
            _well_named(decider, _DECIDED)

    async def test_one_of_it_decides_on_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""
        async with self._made() as decider:
            works = [_work(self.request, self.answer, deciders=[decider]) for _ in range(_AT_ONCE)]
            for result in await asyncio.gather(*works):
                _passed(result, self.answer)


class _Again:
    """Has a first attempt done again."""

    def before_finalize(self, info: object, request: object, result: Any) -> Any:
        return FinalizeDecision.revise("Again.") if result.content == "One." else None


class _Closing:
    """A host that wants the run to stop."""

    def interrupts(self) -> Interrupt:
        return Interrupt(InterruptCause.HOST_SHUTDOWN, "good night")


async def _work(request: str, answer: str, **hooks: Any) -> AgentResult[Any]:
    """A run with hooks: a tool that works, one that fails, an answer."""
    calls = [ToolCall("c1", "works", {}), ToolCall("c2", "fails", {})]
    model = ScriptedModel([calls, answer, answer, answer])
    agent = Agent[Any]("contract", model=model, tools=[_works(), _fails()])
    return await run(agent, request, **hooks)


def _said(result: AgentResult[Any]) -> tuple[Any, ...]:
    return result.status, result.content, len(result.messages), len(result.tool_records)


def _silent(result: AgentResult[Any]) -> None:
    """Check that no observer raised."""
    raised = [one.message for one in result.warnings if one.origin == Origin.OBSERVER]
    assert not raised, f"one of its methods raised: {'; '.join(raised)}"


def _passed(result: AgentResult[Any], answer: str) -> None:
    assert result.status is Status.COMPLETED, ending(result)
    assert result.content == answer, f"the answer was {answer!r}, and it became {result.content!r}"
    verdict = "revise" if "revise_exhausted" in result.state else "discard"
    reason = result.state.get("finalize_reason", "")
    is_kept = result.committed and verdict != "revise"
    said = f"it does not let {answer!r} pass: {verdict}, {reason!r}; {_GIVE}"
    if not is_kept and answer == _ANSWER:
        raise SkipTest(said)
    assert is_kept, said


def _well_named(subject: object, known: tuple[str, ...]) -> None:
    for name in dir(subject):
        if name.startswith("_") or name in (*_OBSERVED, *_DECIDED):
            continue
        near = nearest(name, known, cutoff=_NEAR)
        is_method = near and callable(getattr(subject, name))
        assert not is_method, f"upshot never calls its {name}: the hook is {''.join(near)}"


def _works() -> Tool:
    async def call(arguments: dict[str, Any]) -> str:
        return "done"

    return Tool.from_schema("works", "Works.", {"type": "object"}, call, effect="read")


def _fails() -> Tool:
    async def call(arguments: dict[str, Any]) -> str:
        raise ValueError("it never works")

    return Tool.from_schema("fails", "Fails.", {"type": "object"}, call, effect="read")
