"""ObserverContract and DeciderContract: what hooks of a run must do."""

from __future__ import annotations

import asyncio
from typing import Any

from ..contract import AgentResult, Decider, Observer, Origin, Status, ToolCall
from ..contract.agent import Agent
from ..entry import run
from ..models import ScriptedModel
from ..tools import Tool

__all__ = ["DeciderContract", "ObserverContract"]

_AT_ONCE = 5


class _HookContract:
    def _play(self, count: int, **hooks: Any) -> list[AgentResult[Any]]:
        """Runs of one agent with the same hook: a tool that works, one that fails, an answer."""

        async def one() -> AgentResult[Any]:
            calls = [ToolCall("c1", "works", {}), ToolCall("c2", "fails", {})]
            model = ScriptedModel([calls, "An answer."])
            agent = Agent("contract", model=model, tools=[_works(), _fails()])
            return await run(agent, "A question.", **hooks)

        async def all_at_once() -> list[AgentResult[Any]]:
            return list(await asyncio.gather(*(one() for _ in range(count))))

        return asyncio.run(all_at_once())


class ObserverContract(_HookContract):
    """A suite for pytest: inherit, and give a ``make`` that returns an observer."""

    def make(self) -> Observer:
        """The observer."""
        raise NotImplementedError("an ObserverContract gives the observer in make()")

    def test_it_lets_a_run_be(self) -> None:
        """The run ends as without it, and none of its methods raised."""
        (result,) = self._play(1, observers=[self.make()])
        assert (result.status, result.content) == (Status.COMPLETED, "An answer.")
        assert not _complaints(result)

    def test_one_of_it_sees_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""
        for result in self._play(_AT_ONCE, observers=[self.make()]):
            assert not _complaints(result)


class DeciderContract(_HookContract):
    """A suite for pytest: inherit, and give a ``make`` that returns a decider."""

    def make(self) -> Decider:
        """A decider that lets a plain question and its answer pass."""
        raise NotImplementedError("a DeciderContract gives the decider in make()")

    def test_it_lets_a_plain_run_pass(self) -> None:
        """The run completes; a decider that raises would fail it."""
        (result,) = self._play(1, deciders=[self.make()])
        assert result.status == Status.COMPLETED, result.error

    def test_one_of_it_decides_on_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""
        for result in self._play(_AT_ONCE, deciders=[self.make()]):
            assert result.status == Status.COMPLETED, result.error


def _complaints(result: AgentResult[Any]) -> list[str]:
    return [one.message for one in result.warnings if one.origin == Origin.OBSERVER]


def _works() -> Tool:
    async def call(arguments: dict[str, Any]) -> str:
        return "done"

    return Tool.from_schema("works", "Works.", {"type": "object"}, call, effect="read")


def _fails() -> Tool:
    async def call(arguments: dict[str, Any]) -> str:
        raise ValueError("it never works")

    return Tool.from_schema("fails", "Fails.", {"type": "object"}, call, effect="read")
