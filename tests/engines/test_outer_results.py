"""What an outer run lends to the agents inside it, and shows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.machine_kit import engine_of
from tests.runs.kit import Do, say
from upshot import (
    Agent,
    Graph,
    GraphEngine,
    Handoff,
    Request,
    RunInfo,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolContext,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal

Outer = Callable[[Agent[Any]], Agent[Any]]


def in_graph(agent: Agent[Any]) -> Agent[Any]:
    return Agent("outer", engine=GraphEngine(Graph({"n": agent}, start="n")))


def in_machine(agent: Agent[Any]) -> Agent[Any]:
    states = """
    ask: {type: initial, agent: talker, transitions: [{to: done}]}
    done: {type: final}
    """
    return Agent("outer", engine=engine_of(states, agents={"talker": agent}))


def in_script(agent: Agent[Any]) -> Agent[Any]:
    async def script(run: Any, host: Any, board: Any) -> Any:
        return await run.child(agent, "?")

    return Agent("outer", engine=ScriptEngine(script))


ALL = [in_graph, in_machine, in_script]
GIVEN = Request("?", task_id="t", context_id="c", run_id="r")


@pytest.mark.parametrize("outer", ALL)
async def test_an_agent_inside_has_what_the_caller_gave_the_run(outer: Outer) -> None:
    seen: list[Any] = []

    def look(run: Any, host: Any, board: Any) -> None:
        seen.append((run.request.task_id, run.request.context_id, dict(run.attributes)))
        board.append(say("Hi."))

    await run(outer(Agent("inner", engine=Do(look))), GIVEN, attributes={"tenant": "x"})
    assert seen == [("t", "c", {"tenant": "x"})]


async def test_what_an_agent_inside_is_given_of_its_own_stays() -> None:
    seen: list[Any] = []

    def look(run: Any, host: Any, board: Any) -> None:
        seen.append((run.request.task_id, run.request.context_id, dict(run.attributes)))

    async def script(run: Any, host: Any, board: Any) -> str:
        await run.child(inner, Request("?", task_id="own"), attributes={"tenant": "y"})
        await run.child(inner, "?", attributes={})
        return "Done."

    inner: Agent[Any] = Agent("inner", engine=Do(look))
    await run(Agent("a", engine=ScriptEngine(script)), GIVEN, attributes={"tenant": "x"})
    assert seen == [("own", "c", {"tenant": "y"}), ("t", "c", {})]


@pytest.mark.parametrize("outer", [in_graph, in_machine])
async def test_the_inputs_reach_an_agent_inside(outer: Outer) -> None:
    seen: list[Any] = []

    def look(run: Any, host: Any, board: Any) -> None:
        seen.append(board.get("x"))
        board.append(say("Hi."))

    await run(outer(Agent("inner", engine=Do(look))), Request("?", inputs={"x": 1}))
    assert seen == [1]


async def test_tools_and_filters_see_the_task_and_the_attributes() -> None:
    seen: list[Any] = []

    @tool
    async def look(context: ToolContext[Any]) -> str:
        seen.append((context.task_id, context.context_id, context.attributes))
        return "ok"

    def show(info: RunInfo, board: object) -> bool:
        seen.append((info.task_id, info.context_id, info.attributes))
        return False

    model = ScriptedModel([ToolCall("c", "look", {}), "Done."])
    agent = Agent("a", model=model, tools=[look], handoffs=[Handoff("b", filter=show)])
    await run(agent, GIVEN, attributes={"tenant": "x"})
    assert len(seen) > 1
    assert all(one == ("t", "c", {"tenant": "x"}) for one in seen)


async def test_who_is_shown_the_attributes_cannot_change_the_run() -> None:
    class Meddler:
        def on_run_start(self, info: RunInfo, request: Any) -> None:
            info.attributes["tenant"]["name"] = "other"  # pyright: ignore

    seen: list[Any] = []
    agent: Agent[Any] = Agent("a", engine=Do(lambda r, h, b: seen.append(r.attributes["tenant"])))
    await run(agent, "?", attributes={"tenant": {"name": "x"}}, observers=[Meddler()])
    assert seen == [{"name": "x"}]


async def test_what_was_asked_inside_a_turn_is_no_turn_of_the_conversation() -> None:
    journal, seen = MemoryJournal(), list[list[str]]()

    def reply(messages: Any) -> str:
        seen.append([message.text for message in messages])
        return "Answer."

    outer = in_graph(Agent("inner", model=ScriptedModel(["Aside."])))
    await run(outer, Request("One?", context_id="c"), journal=journal)
    agent = Agent("b", model=ScriptedModel(reply))
    await run(agent, Request("Two?", context_id="c"), journal=journal, history="context")
    assert seen == [["One?", "Aside.", "Two?"]]


async def test_hooks_can_tell_a_later_session_of_a_run() -> None:
    infos: list[RunInfo] = []

    class Looker:
        def on_run_start(self, info: RunInfo, request: Any) -> None:
            infos.append(info)

    @tool(approval=True, effect="write")
    async def pay() -> str:
        return "paid"

    model = ScriptedModel([ToolCall("c", "pay", {}), "Done."])
    agent = Agent("a", model=model, tools=[pay], observers=[Looker()])
    journal = MemoryJournal()
    await run(agent, GIVEN, journal=journal)
    await resume("r", agent, journal=journal)
    assert [info.resumed for info in infos] == [False, True]
