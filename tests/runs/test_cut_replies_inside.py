"""Replies that a filter or the limit on tokens cut off, in other engines than the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.machine_kit import engine_of
from upshot import (
    Agent,
    Graph,
    GraphEngine,
    ModelResponse,
    ScriptEngine,
    Text,
    ToolCall,
    run,
    start,
    tool,
)
from upshot.contract.model_calls import ModelRequest
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolDenied
from upshot.engines import AgentTask
from upshot.guard import guard
from upshot.models import ScriptedModel
from upshot.tools.export import Conversation, ForeignCall
from upshot.wire.accumulator import mark_cut

paid: list[str] = []
WHOLE = ToolCall("c1", "pay", {"to": "ada"})
BARE = ToolCall("c2", "pay", {})


@tool(effect="write")
def pay(to: str = "nobody") -> str:
    """Pay."""
    paid.append(to)
    return "paid"


@pytest.fixture(autouse=True)
def nothing_is_paid() -> None:
    paid.clear()


def model_of(finish: Any, *calls: ToolCall) -> ScriptedModel:
    cut = ModelResponse(parts=(Text("Here is h"), *calls), finish_reason=finish)
    return ScriptedModel([cut, "Done."])


def inner(finish: Any, *calls: ToolCall, **options: Any) -> Agent[Any]:
    return Agent("inner", model=model_of(finish, *calls), tools=[pay], **options)


def graph(agent: Agent[Any]) -> Agent[Any]:
    return Agent("outer", engine=GraphEngine(Graph({"ask": AgentTask(agent)})))


def machine(agent: Agent[Any]) -> Agent[Any]:
    states = """
        ask: {type: initial, agent: inner, transitions: [{to: done}]}
        done: {type: final}
    """
    return Agent("outer", engine=engine_of(states, agents={"inner": agent}))


def script(agent: Agent[Any]) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return await run.child(agent, "Go.")

    return Agent("outer", engine=ScriptEngine(work))


INSIDE = pytest.mark.parametrize("within", [graph, machine, script])
Within = Callable[[Agent[Any]], Agent[Any]]


@INSIDE
async def test_an_agent_inside_makes_no_call_that_a_filter_cut(within: Within) -> None:
    result = await run(within(inner("content_filter", WHOLE)), "Go.")
    assert result.error is not None
    assert (paid, result.status, result.error.code) == ([], "failed", "content_filter")


@INSIDE
async def test_it_may_allow_that_itself(within: Within) -> None:
    result = await run(within(inner("content_filter", allow_filtered=True)), "Go.")
    assert (result.status, result.content) == ("completed", "Here is h")


@INSIDE
async def test_it_makes_the_whole_calls_of_a_reply_that_reached_its_limit(within: Within) -> None:
    result = await run(within(inner("length", WHOLE, BARE)), "Go.")
    assert (result.status, result.content, paid) == ("completed", "Done.", ["ada"])


def content_of(reply: ModelResponse) -> str | None:
    return reply.content


def whole(reply: ModelResponse) -> ModelResponse:
    return reply


def own_loop(*, answers: Callable[[Any], Any]) -> Any:
    """A script that makes each call of a reply, whatever became of that."""

    async def work(run: Any, host: Any, board: Any) -> Any:
        reply = await run.call_model(ModelRequest(board.messages()))
        await run.tools.dispatch(reply.tool_calls)
        return answers(reply)

    return ScriptEngine(work)


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("answers", [content_of, whole])
async def test_a_script_that_looks_at_no_error_makes_none_of_the_calls(
    answers: Callable[[Any], Any], is_watched: bool
) -> None:
    engine = own_loop(answers=answers)
    agent = Agent("a", model=model_of("content_filter", WHOLE), tools=[pay], engine=engine)
    if is_watched:
        async with start(agent, "Go.") as live:
            result: AgentResult[Any] = await live.finish()
    else:
        result = await run(agent, "Go.")
    assert result.error is not None
    assert (paid, result.status, result.error.code) == ([], "failed", "content_filter")
    assert [one.kind for one in result.tool_outcomes] == ["tool_denied"]


async def test_a_script_may_answer_otherwise_after_such_a_reply() -> None:
    engine = own_loop(answers=lambda _: "I was not allowed to say it.")
    agent = Agent("a", model=model_of("content_filter", WHOLE), tools=[pay], engine=engine)
    result = await run(agent, "Go.")
    assert (result.status, paid) == ("completed", [])


async def test_a_script_makes_no_call_of_any_reply_that_failed() -> None:
    agent = Agent("a", model=model_of("error", WHOLE), tools=[pay], engine=own_loop(answers=str))
    await run(agent, "Go.", retry=None)
    assert paid == []


async def test_a_script_makes_the_whole_calls_of_a_reply_that_reached_its_limit() -> None:
    engine = own_loop(answers=lambda _: "ok")
    agent = Agent("a", model=model_of("length", WHOLE, BARE), tools=[pay], engine=engine)
    result = await run(agent, "Go.")
    assert paid == ["ada"]
    denied = result.tool_outcomes[1]
    assert isinstance(denied, ToolDenied)
    assert "was cut off before this call was whole" in denied.details


async def test_a_reply_that_an_engine_only_reports_is_no_answer_either() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        await host.report_usage(ModelResponse(content="Here is h", finish_reason="content_filter"))
        return "Here is h"

    result = await run(Agent("a", engine=ScriptEngine(work)), "Go.")
    assert result.error is not None
    assert result.error.code == "content_filter"
    allowed = await run(Agent("a", engine=ScriptEngine(work), allow_filtered=True), "Go.")
    assert allowed.status == "completed"


@pytest.mark.parametrize("is_filtered", [True, False])
def test_a_guard_denies_what_the_framework_shows_to_be_cut(
    tmp_path: Any, is_filtered: bool
) -> None:
    reply = mark_cut((WHOLE, BARE), fails=is_filtered)
    calls = tuple(call for call in reply if isinstance(call, ToolCall))
    shown = Conversation("case-7", "Go.", 1, (calls,))
    desk = guard([pay], journal=tmp_path / "desk.db")

    async def make() -> list[Any]:
        given = [ForeignCall(call, conversation=lambda: shown) for call in (WHOLE, BARE)]
        return [(await desk.make(one)).outcome for one in given]

    kinds = [outcome.kind for outcome in asyncio.run(make())]
    whole = "tool_denied" if is_filtered else "tool_execution_result"
    assert kinds == [whole, "tool_denied"]
    assert paid == ([] if is_filtered else ["ada"])
