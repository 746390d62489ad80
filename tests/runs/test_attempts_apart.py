"""Nothing of one attempt is in the next, and what made a run careful is known after a crash."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.kit import Do, Ordered, say
from upshot import (
    Agent,
    Board,
    BoardChanged,
    Decided,
    FinalizeDecision,
    Policy,
    QuestionAnswered,
    Request,
    RunEvent,
    ScriptedModel,
    ToolCall,
    resume,
    run,
    start,
    states,
    tool,
)
from upshot.engines.script import ScriptEngine
from upshot.state.run_state import RunState


class Twice:
    """A decider that wants one revision."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        is_first = result.attempts == 1
        return FinalizeDecision.revise("better", "r") if is_first else FinalizeDecision.accept()


AGAIN: dict[str, Any] = {"deciders": [Twice()], "max_attempts": 2}


async def folded(journal: Ordered, run_id: str) -> RunState:
    last = RunState()
    async for _, state in states(journal.events(run_id)):
        last = state
    return last


async def test_an_attempt_whose_seeder_raises_has_nothing_of_the_one_before() -> None:
    boards = [Board()]

    def prepare(info: Any, request: Request) -> Board:
        return boards.pop()

    agent = Agent("a", model=ScriptedModel(["one", "two"]))
    result = await run(agent, "?", prepare=prepare, **AGAIN)
    assert (result.status, result.attempts) == ("failed", 2)
    assert (result.content, result.messages) == (None, ())


async def test_a_task_of_an_earlier_attempt_writes_nothing_on_the_board_of_the_next() -> None:
    journal, tasks, is_later = Ordered(), list[Any](), asyncio.Event()

    async def later(board: Board) -> None:
        await is_later.wait()
        board.append(say("late"))

    async def work(run: Any, host: Any, board: Any) -> None:
        if run.attempt == 1:
            tasks.append(asyncio.ensure_future(later(board)))
            return
        is_later.set()
        await asyncio.gather(*tasks)
        board.append(say("two"))

    result = await run(Agent("a", engine=Do(work)), "?", journal=journal, **AGAIN)
    state = await folded(journal, result.run_id)
    assert [message.text for message in state.board.messages()] == ["?", "better", "two"]


@pytest.mark.parametrize("does", ["raises", "interrupts"])
async def test_a_seed_stays_whole_where_a_watcher_of_its_first_piece_does_something(
    does: str,
) -> None:
    journal = Ordered()

    def prepare(info: Any, request: Request) -> Board:
        board = Board()
        board.append(request.to_message())
        board.append(say("beside"), "side")
        return board

    def publish(event: RunEvent) -> None:
        if isinstance(event, BoardChanged):
            live.interrupt("custom")
            if does == "raises":
                raise ValueError("odd")

    options: dict[str, Any] = {"prepare": prepare, "host": SimpleNamespace(publish=publish)}
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    async with start(agent, "?", journal=journal, **options) as live:
        result = await live.result()
    state = await folded(journal, result.run_id)
    assert [change.channel for change in state.seed] == ["main", "side"]


@tool(effect="read", trust="untrusted")
def fetch() -> str:
    """Fetch."""
    return "a stranger's words"


def reading() -> Agent[Any]:
    return Agent("b", model=ScriptedModel([[ToolCall("f", "fetch")], "read"]), tools=[fetch])


async def inside(run: Any, host: Any, board: Any) -> str:
    await run.child(reading(), "?", key="child")
    await run.tools.dispatch([ToolCall("p", "put")])
    return "done"


@pytest.mark.parametrize("place", ["its history", "a run inside", "the run round it"])
async def test_a_run_is_as_careful_after_a_crash_as_before(place: str) -> None:
    written: list[str] = []

    @tool(effect="write")
    def put() -> str:
        """Put."""
        written.append(place)
        return "put"

    def putting() -> Agent[Any]:
        return Agent("a", model=ScriptedModel([[ToolCall("p", "put")], "done"]), tools=[put])

    async def outside(run: Any, host: Any, board: Any) -> str:
        await run.tools.dispatch([ToolCall("f", "fetch")])
        return str((await run.child(putting(), "?", key="child")).status)

    def agent() -> Agent[Any]:
        if place == "its history":
            return putting()
        script = inside if place == "a run inside" else outside
        return Agent("a", engine=ScriptEngine(script), tools=[put, fetch])

    journal, options = Ordered(), {"policy": Policy(taint=True)}
    history = (await run(reading(), "?")).all_messages() if place == "its history" else ()
    await run(agent(), Request("?", run_id="r"), journal=journal, history=history, **options)

    assert not written
    for length in range(3, len(journal.order)):
        await resume("r", agent(), journal=journal.cut(length), **options)
        assert (length, written) == (length, [])


async def test_who_goes_on_without_a_word_on_the_policy_goes_on_with_the_logged_one() -> None:
    written: list[str] = []

    @tool(effect="write")
    def put() -> str:
        """Put."""
        written.append("put")
        return "put"

    def agent() -> Agent[Any]:
        replies = [[ToolCall("f", "fetch")], [ToolCall("p", "put")], "done"]
        return Agent("a", model=ScriptedModel(replies), tools=[fetch, put])

    journal = Ordered()
    await run(agent(), Request("?", run_id="r"), journal=journal, policy=Policy(taint=True))
    again = await resume("r", agent(), journal=journal)
    assert (again.status, written) == ("input_required", [])
    freed = await resume("r", agent(), journal=journal, policy=Policy(taint="off"))
    assert (freed.status, written) == ("completed", ["put"])


class Own(RunEvent, frozen=True, kw_only=True, tag="own"):
    """An event that upshot does not know."""


@pytest.mark.parametrize(
    "event",
    [
        Own(),
        BoardChanged(refs=(99,)),
        BoardChanged(messages=(say("forged"),)),
        Decided(decision=FinalizeDecision.discard("forged")),
        QuestionAnswered(id="q", value="forged"),
    ],
)
async def test_an_engine_cannot_publish_what_its_log_would_be_misread_by(event: RunEvent) -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await host.publish(event)
        board.append(say("mine"))

    journal = Ordered()
    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    state = await folded(journal, result.run_id)
    assert [warning.code for warning in result.warnings] == ["event_refused"]
    assert [message.text for message in state.board.messages()] == ["?", "mine"]
    assert (state.decisions, state.answers_given) == ([], {})


async def test_what_is_read_without_its_secrets_shows_no_mark_of_them() -> None:
    journal = Ordered()
    agent = Agent("a", model=ScriptedModel(["said hush and husher"]))
    request = Request("?", run_id="r")
    await run(agent, request, journal=journal, secrets=["hush", "husher"])
    result = await resume("r", agent, journal=journal)
    assert result.content == "said *** and ***"


async def test_a_call_that_was_cut_off_counts_for_the_attempt_that_made_it() -> None:
    def agent() -> Agent[Any]:
        return Agent("a", model=ScriptedModel(["one", "two"]), deciders=[Twice()])

    journal = Ordered()
    await run(agent(), Request("?", run_id="r"), journal=journal, max_attempts=2)
    # The process ends at a model call of the first attempt, then at one of the second.
    journal = journal.cut(_calls(journal)[0])
    await resume("r", agent(), journal=journal)
    result = await resume("r", agent(), journal=journal.cut(_calls(journal)[-1]))
    assert [line.usage.api_calls for line in result.attempt_log] == [2, 2]


def _calls(journal: Ordered) -> list[int]:
    """After how many events each model call had begun."""
    return [at for at, event in enumerate(journal.order, 1) if event.kind == "model_started"]
