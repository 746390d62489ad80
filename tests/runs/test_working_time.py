"""A run may work only for so long; what people take is no work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from upshot import Agent, Budget, ScriptedModel, ScriptEngine, ToolCall, run, tool
from upshot.testing import FakeClock


async def hang(run: Any, host: Any, board: Any) -> None:
    await asyncio.Event().wait()


class Slow:
    """A host whose person takes a minute."""

    def __init__(self) -> None:
        self.clock = FakeClock()

    async def ask_user(self, question: str) -> str:
        self.clock.advance(60)
        await asyncio.sleep(0)
        return "yes"


async def test_a_run_that_works_for_too_long_is_ended():
    result = await run(Agent("a", engine=ScriptEngine(hang)), "?", budget=Budget(working_s=0.02))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "budget_exceeded")
    assert result.error.details["dimension"] == "working_s"


async def test_the_time_of_a_question_is_not_worked():
    async def ask(run: Any, host: Any, board: Any) -> str:
        return await host.ask_user("May I?")

    agent = Agent("a", engine=ScriptEngine(ask))
    host = Slow()
    budget = Budget(working_s=50, deadline_s=100)
    result = await run(agent, "?", budget=budget, host=host, clock=host.clock)
    assert (result.status, result.output) == ("completed", "yes")


async def test_the_time_of_an_approval_is_not_worked():
    @tool(effect="write", approval=True)
    async def send() -> str:
        return "sent"

    clock = FakeClock()

    async def approve(call: object) -> bool:
        clock.advance(60)
        await asyncio.sleep(0)
        return True

    model = ScriptedModel([ToolCall("1", "send", {}), "done"])
    agent = Agent("a", model=model, tools=[send])
    result = await run(agent, "?", budget=Budget(working_s=50), approve=approve, clock=clock)
    assert result.status == "completed", result.error


@pytest.mark.parametrize("inner", [None, Budget(working_s=50)], ids=["no limit", "own limit"])
async def test_a_child_works_in_the_time_of_its_parent(inner: Budget | None):
    async def outer(run: Any, host: Any, board: Any) -> Any:
        return await run.child(Agent("inner", engine=ScriptEngine(hang)), "?", budget=inner)

    agent = Agent("outer", engine=ScriptEngine(outer))
    result = await run(agent, "?", budget=Budget(working_s=0.02))
    assert result.error is not None
    assert result.error.code == "budget_exceeded"


@pytest.mark.parametrize("inner", [None, Budget(working_s=50)], ids=["no limit", "own limit"])
async def test_the_time_of_a_childs_question_is_not_worked_by_its_parent(inner: Budget | None):
    async def ask(run: Any, host: Any, board: Any) -> str:
        return await host.ask_user("May I?")

    async def outer(run: Any, host: Any, board: Any) -> Any:
        child = await run.child(Agent("inner", engine=ScriptEngine(ask)), "?", budget=inner)
        return (await run.call_model(child.output)).content

    host, model = Slow(), ScriptedModel(["Done."])
    agent = Agent("outer", engine=ScriptEngine(outer), model=model)
    budget = Budget(working_s=50)
    result = await run(agent, "?", budget=budget, host=host, clock=host.clock)
    assert (result.status, result.output) == ("completed", "Done."), result.error


async def test_after_the_working_time_no_model_is_asked():
    clock, model = FakeClock(), ScriptedModel(["Never."])

    async def work(run: Any, host: Any, board: Any) -> None:
        clock.advance(60)
        await run.call_model("Well?")

    agent = Agent("a", engine=ScriptEngine(work), model=model)
    result = await run(agent, "?", budget=Budget(working_s=50), clock=clock)
    assert result.error is not None
    assert result.error.code == "budget_exceeded"
    assert result.error.details["dimension"] == "working_s"
    assert result.usage.api_calls == 0


async def test_work_goes_on_to_count_after_a_question():
    async def ask_and_hang(run: Any, host: Any, board: Any) -> None:
        await host.ask_user("May I?")
        await asyncio.Event().wait()

    agent = Agent("a", engine=ScriptEngine(ask_and_hang))
    result = await run(agent, "?", budget=Budget(working_s=0.02), host=Slow())
    assert result.error is not None
    assert result.error.code == "budget_exceeded"
