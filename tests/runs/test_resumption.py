"""Going on with another engine, with one that cannot, and with one that says where it can."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Do, log_of, say
from upshot import (
    Agent,
    AgentResult,
    Answer,
    Checkpoint,
    FinalizeDecision,
    Graph,
    GraphEngine,
    LoopEngine,
    Misuse,
    ScriptedModel,
    ScriptEngine,
    replay,
    resume,
    run,
)
from upshot.engines import Question
from upshot.journal import MemoryJournal

AGENT: Agent[Any] = Agent("a")


async def asking(run: Any, host: Any, board: Any) -> Any:
    board.append(say("Working."))
    return await host.ask_user("Well?")


def graph() -> GraphEngine:
    return GraphEngine(Graph({"q": Question("Well?")}))


class Own(Do):
    """An engine of somebody's own, without a word on resuming."""

    def __init__(self, work: Any = asking) -> None:
        super().__init__(work)


class Resuming(Own):
    """One that can resume where *steps* name the point."""

    def __init__(self, *steps: str, work: Any = asking) -> None:
        super().__init__(work)
        self.steps = steps
        self.asked: list[Checkpoint] = []

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        self.asked.append(checkpoint)
        return checkpoint.step in self.steps


async def parked(engine: Any, journal: MemoryJournal, agent: Agent[Any] = AGENT) -> str:
    first = await run(agent, "?", engine=engine, journal=journal)
    assert first.status == "input_required", first.error
    return first.run_id


async def gone_on(first: Any, then: Any) -> AgentResult[Any]:
    """What comes of a run that *first* parked and *then* went on with."""
    journal = MemoryJournal()
    run_id = await parked(first, journal)
    return await answered(run_id, journal, engine=then)


async def answered(run_id: str, journal: MemoryJournal, **options: Any) -> AgentResult[Any]:
    pending = [
        event.pending async for event in journal.events(run_id) if event.kind == "question_asked"
    ]  # type: ignore[union-attr]
    answers = [Answer(pending[-1].id, "yes")]
    return await resume(run_id, AGENT, journal=journal, answers=answers, **options)


def codes(result: AgentResult[Any]) -> list[str]:
    return [warning.code for warning in result.warnings]


# -- another engine


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (graph(), ScriptEngine(asking)),
        (ScriptEngine(asking), graph()),
        (ScriptEngine(asking), LoopEngine(ScriptedModel(["Done."]))),
    ],
    ids=["graph to script", "script to graph", "script to loop"],
)
async def test_another_engine_than_before_is_told(first: Any, then: Any) -> None:
    result = await gone_on(first, then)
    assert codes(result) == ["agent_changed"]
    was, now = type(first).__name__, type(then).__name__
    assert result.warnings[0].message == (
        f"the engine was {was} until now, and is {now} from here on"
    )


async def test_another_engine_of_the_agent_is_told_once() -> None:
    journal = MemoryJournal()
    run_id = await parked(None, journal, Agent("a", engine=graph()))
    agent: Agent[Any] = Agent("a", engine=ScriptEngine(asking))
    result = await resume(run_id, agent, journal=journal)
    assert codes(result) == ["agent_changed"]


@pytest.mark.parametrize("engine", [graph(), ScriptEngine(asking)], ids=["graph", "script"])
async def test_the_engine_of_before_is_no_warning(engine: Any) -> None:
    result = await gone_on(engine, engine)
    assert result.success
    assert result.warnings == ()


# -- an engine without can_resume


async def test_an_engine_without_can_resume_is_told_to_start_over() -> None:
    result = await gone_on(Own(), Own())
    assert codes(result) == ["engine_starts_over"]
    said = result.warnings[0].message
    assert "the engine Own cannot resume, so it was called again from the top" in said
    assert "give it can_resume(checkpoint)" in said
    assert "run.hand_back(board)" in said


async def test_it_is_told_though_the_engine_parks_again_or_fails() -> None:
    async def failing(*_: Any) -> None:
        raise KeyError("k")

    assert codes(await gone_on(Own(), Own(failing))) == ["engine_starts_over"]
    journal = MemoryJournal()
    run_id = await parked(Own(), journal)
    again = await resume(run_id, AGENT, engine=Own(), journal=journal)
    assert (again.status, codes(again)) == ("input_required", ["engine_starts_over"])


async def test_an_engine_that_has_its_work_handed_back_does_not_start_over() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        run.hand_back(board)
        return await asking(run, host, board)

    result = await gone_on(Own(work), Own(work))
    assert result.warnings == ()
    assert [message.text for message in result.messages] == ["Working."]


async def test_an_engine_may_say_that_it_finds_its_place_by_the_log() -> None:
    class Placed(Resuming):
        goes_on_by_log = True

    engine = Placed()
    assert (await gone_on(engine, engine)).warnings == ()
    assert engine.asked == []


async def test_a_new_run_and_a_new_attempt_start_without_a_word() -> None:
    class Again:
        def before_finalize(self, *_: Any) -> FinalizeDecision:
            return FinalizeDecision.revise("", "again")

    engine = Resuming(work=lambda *_: "Done.")
    for one in (Own(lambda *_: "Done."), engine):
        agent: Agent[Any] = Agent("a", engine=one, deciders=[Again()])
        assert codes(await run(agent, "?", max_attempts=2)) == []
    assert engine.asked == []


@pytest.mark.parametrize("last", ["run_started", "attempt_started", "attempt_ended"])
async def test_what_merely_begins_or_is_over_is_not_gone_on_with(last: str) -> None:
    whole, cut = MemoryJournal(), MemoryJournal()
    run_id = (await run(AGENT, "?", engine=Own(lambda *_: "Done."), journal=whole)).run_id
    log = await log_of(whole, run_id)
    for event in log[: [event.kind for event in log].index(last) + 1]:
        cut.append(event)
    engine = Resuming(work=lambda *_: "Done.")
    result = await resume(run_id, AGENT, engine=engine, journal=cut)
    assert (result.output or result.content, engine.asked) == ("Done.", [])


# -- an engine that is asked


async def test_an_engine_is_asked_about_what_the_log_shows_and_finds_it_in_the_run() -> None:
    given: list[Checkpoint | None] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        given.append(run.resume_from)
        if run.resume_from is None:
            board.set("n", 1)
            point = Checkpoint(run.id, "half", board.snapshot(), iteration=2, payload={"x": 1})
            await host.checkpoint(point)
            board.append(say("On."))
        return await host.ask_user("Well?")

    engine = Resuming("half", work=work)
    result = await gone_on(engine, engine)
    assert result.success, result.error
    assert result.warnings == ()
    (asked,) = engine.asked
    assert given == [None, asked]
    assert (asked.exec_id, asked.step, asked.iteration) == (result.run_id, "half", 2)
    assert asked.payload == {"x": 1}
    assert asked.original_started_at == result.started_at
    assert asked.board.variables == {"n": 1}
    assert [message.text for message in asked.board.channels["main"]] == ["?", "On."]


async def test_an_engine_that_named_no_point_is_asked_about_none() -> None:
    engine = Resuming("")
    assert (await gone_on(engine, engine)).success
    assert [point.step for point in engine.asked] == [""]


async def test_an_engine_that_cannot_go_on_is_misuse_and_nothing_is_logged() -> None:
    journal, engine = MemoryJournal(), Resuming("elsewhere")
    run_id = await parked(engine, journal)
    before = await log_of(journal, run_id)
    with pytest.raises(Misuse, match=f"Resuming cannot continue run '{run_id}', which stopped"):
        await answered(run_id, journal, engine=engine)
    assert await log_of(journal, run_id) == before


async def test_a_can_resume_that_raises_is_misuse_and_nothing_is_logged() -> None:
    class Broken(Resuming):
        def can_resume(self, checkpoint: Checkpoint) -> bool:
            raise ValueError("no idea")

    journal = MemoryJournal()
    run_id = await parked(Own(), journal)
    before = await log_of(journal, run_id)
    with pytest.raises(Misuse, match=r"Broken\.can_resume raised ValueError: no idea"):
        await answered(run_id, journal, engine=Broken())
    assert await log_of(journal, run_id) == before


async def test_a_replay_asks_no_engine_and_starts_nothing_over() -> None:
    journal, engine = MemoryJournal(), Resuming("")
    run_id = await parked(engine, journal)
    await answered(run_id, journal, engine=engine)
    engine.asked.clear()
    again = await replay(run_id, AGENT, engine=engine, journal=journal)
    assert engine.asked == []
    assert codes(again.result) == []
