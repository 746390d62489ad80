"""What a run's deciders have to say about the model calls of runs inside it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from tests.runs.kit import Do
from upshot import (
    Agent,
    Budget,
    FinalizeDecision,
    Graph,
    GraphEngine,
    Message,
    ModelRequest,
    RunInfo,
    ScriptEngine,
    run,
    run_sync,
    start,
)
from upshot.models import ScriptedModel


class Stamp:
    """Writes its name behind the text of the last message."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[RunInfo] = []
        self.finalized = 0

    def before_model(self, info: RunInfo, request: ModelRequest) -> ModelRequest:
        self.asked.append(info)
        last = Message("user", f"{request.messages[-1].text}{self.name}")
        return replace(request, messages=(*request.messages[:-1], last))

    def before_finalize(self, *_: Any) -> FinalizeDecision | None:
        self.finalized += 1
        return None


def sent(model: ScriptedModel) -> list[str]:
    return [request.messages[-1].text for request in model.calls]


async def through_a_script(inner: Agent[Any], **options: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await run.child(inner, "?")

    await run(Agent("outer", engine=ScriptEngine(work)), "?", **options)


async def through_a_graph(inner: Agent[Any], **options: Any) -> None:
    graph = Graph(nodes={"one": inner}, edges=[], start="one")
    await run(Agent("outer", engine=GraphEngine(graph)), "?", **options)


async def through_two_levels(inner: Agent[Any], **options: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await run.child(inner, "?")

    await through_a_script(Agent("between", engine=Do(work)), **options)


async def through_another_thread(inner: Agent[Any], **options: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await asyncio.to_thread(run_sync, inner, "?")

    await run(Agent("outer", engine=Do(work)), "?", **options)


@pytest.mark.parametrize(
    "through", [through_a_script, through_a_graph, through_two_levels, through_another_thread]
)
async def test_deciders_of_a_run_see_what_runs_inside_send(through: Any) -> None:
    model, stamp = ScriptedModel(["Hi."]), Stamp("!")
    await through(Agent("inner", model=model), deciders=[stamp])
    assert sent(model) == ["?!"]
    assert [info.agent_id for info in stamp.asked] == ["inner"]


async def test_the_innermost_are_asked_first_and_the_outermost_last() -> None:
    model = ScriptedModel(["Hi."])
    inner = Agent("inner", model=model, deciders=[Stamp("1")])

    async def work(run: Any, host: Any, board: Any) -> None:
        await run.child(inner, "?", deciders=[Stamp("2")])

    between = Agent("between", engine=Do(work), deciders=[Stamp("3")])
    await through_a_script(between, deciders=[Stamp("4")])
    assert sent(model) == ["?1234"]


async def test_a_decider_of_both_runs_is_asked_once_and_has_the_last_word() -> None:
    model, stamp = ScriptedModel(["Hi."]), Stamp("!")
    inner = Agent("inner", model=model, deciders=[stamp, Stamp("1")])
    await through_two_levels(inner, deciders=[stamp])
    assert sent(model) == ["?1!"]
    assert [info.agent_id for info in stamp.asked] == ["inner"]


async def test_a_decider_is_asked_in_the_loop_of_its_own_run() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    class Waiting:
        async def before_model(self, *_: Any) -> None:
            await asyncio.sleep(0)
            loops.append(asyncio.get_running_loop())

    model = ScriptedModel(["Hi."])
    await through_another_thread(Agent("inner", model=model), deciders=[Waiting()])
    assert (loops, len(model.calls)) == ([asyncio.get_running_loop()], 1)


async def test_a_decider_that_waits_is_cancelled_with_the_run_in_another_thread() -> None:
    class Slow:
        async def before_model(self, *_: Any) -> None:
            lives[0].cancel()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    async def inner() -> Any:
        async with start(Agent("inner", model=ScriptedModel(["Hi."])), "?") as live:
            lives.append(live)
            return await live.result()

    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await asyncio.to_thread(asyncio.run, inner())
        await ended.wait()
        return result.error.code

    ended, lives = asyncio.Event(), list[Any]()
    result = await run(Agent("outer", engine=Do(work)), "?", deciders=[Slow()])
    assert (result.output, ended.is_set()) == ("canceled", True)


async def test_nothing_is_sent_where_the_loop_of_the_run_round_it_has_ended() -> None:
    model, ended = ScriptedModel(["Hi."]), threading.Event()
    told: list[Any] = []

    def late() -> None:
        ended.wait(60)
        told.append(run_sync(Agent("inner", model=model), "?", budget=Budget(deadline_s=5)))

    def work(run: Any, host: Any, board: Any) -> None:
        context = contextvars.copy_context()
        threads.append(threading.Thread(target=context.run, args=(late,)))
        threads[0].start()

    agent, threads = Agent("outer", engine=Do(work)), list[threading.Thread]()
    loop = asyncio.new_event_loop()
    # It stops and is not closed, as that of a notebook.
    await asyncio.to_thread(loop.run_until_complete, run(agent, "?", deciders=[Stamp("!")]))
    ended.set()
    await asyncio.to_thread(threads[0].join)
    loop.close()
    assert (told[0].error.code, model.calls) == ("hook_failed", [])


async def test_what_becomes_of_a_run_inside_is_not_theirs_to_say() -> None:
    stamp = Stamp("!")
    await through_a_script(Agent("inner", model=ScriptedModel(["Hi."])), deciders=[stamp])
    assert stamp.finalized == 1


async def test_a_broken_decider_of_the_outer_run_keeps_the_inner_one_from_sending() -> None:
    class Broken:
        def before_model(self, info: Any, request: Any) -> None:
            raise ValueError("no")

    model = ScriptedModel(["Hi."])

    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(Agent("inner", model=model), "?")).error.code

    result = await run(Agent("outer", engine=Do(work)), "?", deciders=[Broken()])
    assert (result.output, model.calls) == ("hook_failed", [])


async def test_a_decider_that_asks_a_model_itself_is_not_asked_about_that() -> None:
    asked: list[RunInfo] = []

    class Summary:
        async def before_model(self, info: RunInfo, request: ModelRequest) -> ModelRequest:
            asked.append(info)
            told = await run(Agent("summary", model=short), request.messages[-1].text)
            return replace(request, messages=(Message("user", told.content or ""),))

    short, model = ScriptedModel(["In short."]), ScriptedModel(["Hi."])
    agent = Agent("a", model=model, deciders=[Summary(), Stamp("!")])
    await run(agent, "A long text.")
    assert (sent(short), sent(model)) == (["A long text.!"], ["In short.!"])
    assert [info.agent_id for info in asked] == ["a"]
