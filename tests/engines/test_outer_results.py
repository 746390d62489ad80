"""What an outer run lends to the agents inside it, and shows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engines.machine_kit import engine_of
from tests.runs.kit import Do, measured, say
from upshot import (
    Agent,
    AgentError,
    FinalizeDecision,
    Graph,
    GraphEngine,
    Handoff,
    Message,
    ModelRequest,
    ModelResponse,
    RateLimitState,
    RateLimitWindow,
    Request,
    RunInfo,
    ScriptedModel,
    ScriptEngine,
    TextDelta,
    ToolCall,
    ToolContext,
    Usage,
    resume,
    run,
    start,
    states,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.state.stored_events import result_of

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
    # Whose it is stays, whatever else is given.
    assert seen == [("own", "c", {"tenant": "y"}), ("t", "c", {"tenant": "x"})]


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
    await run(agent, Request("Two?", context_id="c"), journal=journal)
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


# -- watching


@pytest.mark.parametrize("outer", ALL)
async def test_what_an_agent_inside_says_is_seen_as_it_comes(outer: Outer) -> None:
    inner: Agent[Any] = Agent("inner", model=ScriptedModel(["one two three"]))
    async with start(outer(inner), GIVEN) as live:
        texts = [event.text async for event in live if isinstance(event, TextDelta)]
    assert "".join(texts) == "one two three"
    assert len(texts) > 1


@pytest.mark.parametrize("outer", ALL)
async def test_the_text_of_a_run_is_that_of_the_agents_in_it_once(outer: Outer) -> None:
    inner: Agent[Any] = Agent("inner", model=ScriptedModel(["one two three"]))
    async with start(outer(inner), GIVEN) as live:
        texts = [text async for text in live.text()]
    assert "".join(texts) == "one two three"
    assert len(texts) > 1


async def test_events_inside_name_the_runs_around_them() -> None:
    agent = in_graph(in_script(Agent("inner", model=ScriptedModel(["Hi."]))))
    async with start(agent, GIVEN, journal=MemoryJournal()) as live:
        events = [event async for event in live]
    ids = list(dict.fromkeys(event.run_id for event in events))
    assert {event.run_id: event.path for event in events} == {
        ids[0]: (),
        ids[1]: ("r",),
        ids[2]: ("r", ids[1]),
    }
    for run_id in ids:
        own = [event for event in events if event.run_id == run_id]
        assert (own[0].kind, own[-1].kind) == ("run_started", "run_settled")
        seqs = [event.seq for event in own if not event.part]
        assert seqs == list(range(1, len(seqs) + 1))
    assert events[-1].run_id == "r"


async def test_a_log_has_no_path() -> None:
    journal = MemoryJournal()
    async with start(
        in_graph(Agent("inner", model=ScriptedModel(["Hi."]))), GIVEN, journal=journal
    ) as live:
        await live.result()
    for summary in await journal.runs():
        assert {event.path async for event in journal.events(summary.run_id)} == {()}


async def test_an_agent_that_speaks_itself_is_not_spoken_for_by_those_in_its_tools() -> None:
    @tool
    async def ask() -> str:
        return (await run(Agent("inner", model=ScriptedModel(["Aside."])), "?")).content or ""

    model = ScriptedModel([ToolCall("c", "ask", {}), "Done."])
    async with start(Agent("a", model=model, tools=[ask]), GIVEN) as live:
        assert [text async for text in live.text()] == ["Done."]


async def test_an_answer_that_no_agent_inside_said_comes_at_the_end() -> None:
    async def script(run: Any, host: Any, board: Any) -> None:
        await run.child(Agent("inner", model=ScriptedModel(["Draft."])), "?")
        board.append(say("Final."))

    async with start(Agent("a", engine=ScriptEngine(script)), GIVEN) as live:
        assert "".join([text async for text in live.text()]) == "Draft.\n\nFinal."


@pytest.mark.parametrize("outer", [lambda inner: inner, *ALL])
async def test_an_interrupt_in_an_answer_inside_interrupts_the_run(outer: Outer) -> None:
    class Keep:
        def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
            return FinalizeDecision.keep_partial("worth it")

    class Slow:
        name = "m"

        async def call(self, request: Any) -> Any:
            raise AssertionError("it is watched")

        async def stream(self, request: Any) -> Any:
            yield TextDelta(text="one ")
            live.interrupt()
            yield TextDelta(text="two")
            yield measured("one two")

    async with start(outer(Agent("inner", model=Slow())), GIVEN, deciders=[Keep()]) as live:
        result = await live.finish()
    assert result.status == "interrupted"


LIMITS = RateLimitState(limited=False, windows=(RateLimitWindow(name="requests", remaining=9),))
LAST = ModelResponse(
    content="Hi.",
    usage=Usage(input_tokens=1, output_tokens=1, api_calls=1),
    finish_reason="stop",
    rate_limit=LIMITS,
    provider_data={"provider": "test", "request_id": "q1"},
)


@pytest.mark.parametrize("outer", ALL)
@pytest.mark.parametrize("fails", [False, True])
async def test_it_tells_of_the_last_model_call_also_where_that_was_inside(
    outer: Outer, *, fails: bool
) -> None:
    error = AgentError("invalid_request", "no") if fails else None
    inner = Agent("inner", model=ScriptedModel([replace(LAST, error=error)]))
    journal = MemoryJournal()
    result = await run(outer(inner), Request("?", run_id="r"), journal=journal)
    assert result.success is not fails
    assert (result.finish_reason, result.rate_limit) == ("stop", LIMITS)
    assert result.provider_data == LAST.provider_data
    folded = [result_of(state) async for _, state in states(journal.events("r"))][-1]
    assert folded == result


async def test_what_a_child_told_is_the_last_word_until_the_next_reply() -> None:
    inner = Agent("inner", model=ScriptedModel([LAST]))

    async def script(run: Any, host: Any, board: Any) -> str:
        await run.child(inner, "?")
        reply = await run.call_model(ModelRequest(messages=(Message("user", "?"),)))
        return reply.content

    own = replace(LAST, finish_reason="length", provider_data={"provider": "own"})
    agent = Agent("outer", engine=ScriptEngine(script), model=ScriptedModel([own]))
    result = await run(agent, "?")
    assert (result.finish_reason, result.provider_data) == ("length", {"provider": "own"})


async def test_a_child_that_asked_no_model_tells_nothing_of_it() -> None:
    silent = Agent("silent", engine=Do(lambda run, host, board: "done"))

    async def script(run: Any, host: Any, board: Any) -> str:
        await run.call_model(ModelRequest(messages=(Message("user", "?"),)))
        await run.child(silent, "?")
        return "Hi."

    agent = Agent("outer", engine=ScriptEngine(script), model=ScriptedModel([LAST]))
    result = await run(agent, "?")
    assert (result.finish_reason, result.provider_data) == ("stop", LAST.provider_data)
