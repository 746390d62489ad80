"""Observers, deciders, committers, seeders: when they are called, and what they may do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.leaping import Leaping
from tests.runs.kit import ADD, Do, Witness, add, kinds, log_of, measured, raising, say
from upshot import (
    Agent,
    AgentError,
    Board,
    Budget,
    Failed,
    FinalizeDecision,
    Interrupted,
    Message,
    Parked,
    Request,
    Status,
    ToolCall,
    run,
    start,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.testing.doubles import FakeClock

PASS = ["on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end"]


class Decide:
    """A decider that gives the next of its words; a callable is called."""

    def __init__(self, *words: Any) -> None:
        self._words = list(words)
        self.asked: list[Any] = []

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        self.asked.append(result)
        word = self._words.pop(0) if self._words else None
        return word() if callable(word) else word


def agent(*replies: Any, **facts: Any) -> Agent:
    return Agent("a", model=ScriptedModel(replies or ["Hi."]), **facts)


# -- observers


async def test_observers_are_told_of_a_run_in_order() -> None:
    witness = Witness()
    result = await run(agent(), "?", observers=[witness])
    assert witness.names() == PASS
    (request,) = witness.facts("on_run_start")[0]
    assert request.text == "?"
    assert witness.facts("on_attempt_start") == [(1,)]
    assert witness.facts("on_run_end") == [(result,)]


async def test_run_end_gets_the_result_that_is_returned() -> None:
    witness = Witness()
    result = await run(agent(), "?", observers=[witness])
    assert witness.facts("on_run_end")[0][0] == result


async def test_the_agents_observers_come_before_the_calls() -> None:
    book: list[str] = []
    own = agent(observers=[Witness("1 ", book), Witness("2 ", book)])
    await run(own, "?", observers=[Witness("3 ", book)])
    assert book[:3] == ["1 on_run_start", "2 on_run_start", "3 on_run_start"]


async def test_hooks_are_told_whose_run_it_is() -> None:
    infos: list[Any] = []

    class Look:
        def on_run_start(self, info: Any, request: Any) -> None:
            infos.append(info)

    request = Request("?", task_id="t", context_id="c", run_id="r")
    await run(agent(), request, observers=[Look()])
    (info,) = infos
    assert (info.agent_id, info.run_id, info.task_id, info.context_id) == ("a", "r", "t", "c")


async def test_an_async_observer_is_awaited_before_the_next() -> None:
    book: list[str] = []

    class Slow:
        async def on_run_start(self, info: Any, request: Any) -> None:
            await asyncio.sleep(0.01)
            book.append("slow")

    await run(agent(), "?", observers=[Slow(), Witness("", book)])
    assert book[:2] == ["slow", "on_run_start"]


@pytest.mark.parametrize("method", PASS)
async def test_an_observer_that_raises_is_a_warning_and_the_next_still_runs(method: str) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no\nidea")

    bad = type("Bad", (), {method: staticmethod(broken)})()
    witness = Witness()
    result = await run(agent(), "?", observers=[bad, witness])
    assert (result.status, witness.names()) == (Status.COMPLETED, PASS)
    (warning,) = result.warnings
    assert (warning.code, warning.origin) == ("observer_failed", "observer")
    assert warning.message == f"Bad.{method} raised RuntimeError: no idea"


async def test_an_interrupt_is_told_to_observers() -> None:
    witness = Witness()
    stopped = raising(Interrupted("custom", "why"))
    await run(Agent("a", engine=stopped), "?", observers=[witness])
    (interrupt,) = witness.facts("on_interrupt")[0]
    assert (interrupt.cause, interrupt.detail) == ("custom", "why")


# -- deciders


@pytest.mark.parametrize(
    ("word", "committed", "reason"),
    [
        (None, True, None),
        (FinalizeDecision.accept(), True, None),
        (FinalizeDecision.accept("good"), True, "good"),
        (FinalizeDecision.discard("bad"), False, "bad"),
        (FinalizeDecision.keep_partial("some"), True, "some"),
        (FinalizeDecision.revise("more"), True, "more"),
    ],
)
async def test_a_decider_disposes_of_a_completed_run(
    word: Any, committed: bool, reason: str | None
) -> None:
    result = await run(agent(), "?", deciders=[Decide(word)])
    assert (result.status, result.committed) == (Status.COMPLETED, committed)
    assert result.state.get("finalize_reason") == reason


@pytest.mark.parametrize(
    ("words", "committed"),
    [
        (["keep_partial"], True),
        (["accept"], False),
        (["keep_partial", "discard"], False),
        (["revise"], False),
    ],
)
async def test_an_interrupted_run_is_committed_only_if_kept(
    words: list[Any], committed: bool
) -> None:
    engine = raising(Interrupted("custom"))
    deciders = [Decide(FinalizeDecision(verdict=word)) for word in words]
    result = await run(Agent("a", engine=engine), "?", deciders=deciders, max_attempts=2)
    assert (result.status, result.committed, result.attempts) == ("interrupted", committed, 1)


async def test_any_discard_wins_and_the_first_reason_is_kept() -> None:
    words = [FinalizeDecision.revise("again", "one"), FinalizeDecision.discard("two")]
    deciders = [Decide(words[0]), Decide(words[1])]
    result = await run(agent("Hi.", "Ho."), "?", deciders=deciders, max_attempts=2)
    assert (result.committed, result.attempts) == (False, 1)
    assert result.state["finalize_reason"] == "one"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([FinalizeDecision.keep_partial("k"), FinalizeDecision.discard("d")], "d"),
        ([FinalizeDecision.discard("d"), FinalizeDecision.revise("r")], "d"),
        ([FinalizeDecision.discard(""), FinalizeDecision.discard("e")], "e"),
        ([FinalizeDecision.accept("a"), FinalizeDecision.discard("")], "completed"),
        ([FinalizeDecision.accept("a")], ""),
    ],
)
async def test_the_log_has_the_reason_of_the_word_that_holds(words: Any, reason: str) -> None:
    journal = MemoryJournal()
    options: dict[str, Any] = {"deciders": [Decide(word) for word in words], "journal": journal}
    result = await run(agent(), Request("?", run_id="run-1"), **options)
    (committed,) = [event for event in await log_of(journal, "run-1") if event.kind == "committed"]
    assert committed.reason == reason  # type: ignore[union-attr]
    assert result.committed is (not reason)


async def test_a_run_that_was_only_accepted_is_not_committed_for_how_it_ended() -> None:
    journal, stopped = MemoryJournal(), Agent[Any]("a", engine=raising(Interrupted("custom")))
    options: dict[str, Any] = {"deciders": [Decide(FinalizeDecision.accept("fine"))]}
    await run(stopped, Request("?", run_id="run-1"), journal=journal, **options)
    (committed,) = [event for event in await log_of(journal, "run-1") if event.kind == "committed"]
    assert committed.reason == "interrupted"  # type: ignore[union-attr]


async def test_an_attempt_was_done_again_for_the_reason_of_who_wanted_that() -> None:
    class Choosy:
        def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
            again = FinalizeDecision.revise("Again.", "rude")
            return again if result.content == "Hi." else None

    deciders = [Decide(FinalizeDecision.accept("fine")), Choosy()]
    result = await run(agent("Hi.", "Ho."), "?", deciders=deciders, max_attempts=2)
    assert [line.revise_reason for line in result.attempt_log] == ["rude", ""]


async def test_the_facts_of_deciders_are_merged_in_order() -> None:
    words = [
        FinalizeDecision.accept(state={"x": 1, "y": 1}),
        FinalizeDecision.accept(state={"y": 2}),
    ]
    result = await run(agent(), "?", deciders=[Decide(words[0]), Decide(words[1])])
    assert result.state == {"x": 1, "y": 2}


@pytest.mark.parametrize("word", [lambda: 1 / 0, True, "accept"])
async def test_a_decider_that_breaks_fails_closed_and_keeps_the_answer(word: Any) -> None:
    committed: list[Any] = []
    options: Any = {"committers": [lambda *facts: committed.append(facts)], "max_attempts": 3}
    result = await run(agent(), "?", deciders=[Decide(word)], **options)
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, "hook_failed")
    assert (result.content, result.committed, committed) == ("Hi.", False, [])


async def test_facts_that_are_no_json_fail_closed() -> None:
    word = FinalizeDecision.accept(state={"x": object()})  # type: ignore[dict-item]
    result = await run(agent(), "?", deciders=[Decide(word)], journal=MemoryJournal())
    assert result.error is not None
    assert result.error.code == "hook_failed"


async def test_an_async_decider_is_asked_with_request_and_result() -> None:
    class Ask:
        async def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
            return FinalizeDecision.accept(state={"said": [request.text, result.content]})

    result = await run(agent(), "?", deciders=[Ask()])
    assert result.state["said"] == ["?", "Hi."]


async def test_deciders_are_not_asked_about_a_parked_run() -> None:
    decider = Decide()
    await run(Agent("a", engine=raising(Parked())), "?", deciders=[decider])
    assert decider.asked == []


async def test_a_decider_may_rewrite_what_is_sent() -> None:
    class Shorten:
        def before_model(self, info: Any, request: Any) -> Any:
            return msgspec.structs.replace(request, system="Short.")

    model = ScriptedModel(["Hi."])
    await run(Agent("a", model=model), "?", deciders=[Shorten()])
    assert model.calls[0].system == "Short."


@pytest.mark.parametrize("answer", [lambda: 1 / 0, lambda: "text"])
async def test_a_decider_that_breaks_before_the_model_fails_closed(answer: Any) -> None:
    class Broken:
        async def before_model(self, info: Any, request: Any) -> Any:
            return answer()

    model = ScriptedModel(["Hi."])
    result = await run(Agent("a", model=model), "?", deciders=[Broken()])
    assert result.error is not None
    assert (result.error.code, model.calls) == ("hook_failed", [])
    assert type(result.raw).__name__ == result.error.type


# -- revise


async def test_a_revised_attempt_gets_a_fresh_board_and_the_feedback() -> None:
    model = ScriptedModel([measured("Short."), measured("Longer.")])
    decider = Decide(FinalizeDecision.revise("Be longer.", "too short"))
    witness = Witness()
    result = await run(
        Agent("a", model=model), "Tell.", deciders=[decider], observers=[witness], max_attempts=2
    )
    assert [message.text for message in model.calls[1].messages] == ["Tell.", "Be longer."]
    assert (result.content, result.attempts, result.committed) == ("Longer.", 2, True)
    assert [message.text for message in result.messages] == ["Longer."]
    assert result.usage.total_tokens == 30
    first, second = result.attempt_log
    assert (first.content, first.revise_reason, first.feedback) == (
        "Short.",
        "too short",
        "Be longer.",
    )
    assert (second.content, second.revise_reason) == ("Longer.", "")
    assert [line.usage.total_tokens for line in result.attempt_log] == [15, 15]
    assert [facts[1] for facts in witness.facts("on_run_revise")] == [2]
    assert "finalize_reason" not in result.state


async def test_running_out_of_attempts_is_told() -> None:
    again = FinalizeDecision.revise("More.")
    result = await run(
        agent("1", "2", "3"), "?", deciders=[Decide(again, again, again)], max_attempts=2
    )
    assert (result.attempts, result.content) == (2, "2")
    assert result.state["revise_exhausted"] is True


async def test_one_attempt_is_the_default_and_the_wish_is_recorded() -> None:
    result = await run(agent(), "?", deciders=[Decide(FinalizeDecision.revise("More."))])
    assert (result.attempts, result.committed) == (1, True)
    assert result.state == {"finalize_reason": "More.", "revise_exhausted": True}


async def test_a_failed_attempt_is_not_revised() -> None:
    again = FinalizeDecision.revise("More.")
    result = await run(
        agent(AgentError("auth_error", "no key")), "?", deciders=[Decide(again)], max_attempts=3
    )
    assert (result.status, result.attempts) == (Status.FAILED, 1)


async def test_an_engine_is_told_its_attempt_and_the_feedback() -> None:
    seen: list[Any] = []
    engine = Do(lambda run, host, board: seen.append((run.attempt, run.feedback)))
    decider = Decide(FinalizeDecision.revise("Harder."))
    await run(Agent("a", engine=engine), "?", deciders=[decider], max_attempts=2)
    assert seen == [(1, ""), (2, "Harder.")]


# -- committers


async def test_committers_get_the_result_of_a_run_that_counts() -> None:
    got: list[Any] = []

    async def commit(info: Any, request: Any, result: Any) -> None:
        got.append((info.run_id, request.text, result.content))

    result = await run(agent(), "?", committers=[commit])
    assert got == [(result.run_id, "?", "Hi.")]


async def test_committers_are_not_called_for_a_failed_run() -> None:
    got: list[Any] = []
    engine = raising(ValueError("x"))
    await run(Agent("a", engine=engine), "?", committers=[lambda *facts: got.append(facts)])
    assert got == []


async def test_a_committer_that_raises_leaves_the_answer_uncommitted() -> None:
    def commit(*_: Any) -> None:
        raise OSError("full")

    journal = MemoryJournal()
    result = await run(agent(), "?", committers=[commit], journal=journal)
    assert (result.status, result.content, result.committed) == ("completed", "Hi.", False)
    assert [warning.code for warning in result.warnings] == ["hook_failed"]
    assert "committed" in kinds(await log_of(journal, result.run_id))


def test_a_committer_that_goes_on_and_on_is_ended_by_the_deadline_and_its_grace() -> None:
    loop = Leaping()

    async def commit(*_: Any) -> None:
        loop.leap(60)
        for _ in range(20):
            await asyncio.sleep(0)

    limits = Budget(deadline_s=30)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(run(agent(), "?", committers=[commit], budget=limits))
    assert (result.status, result.content, result.committed) == ("completed", "Hi.", False)
    assert [warning.code for warning in result.warnings] == ["hook_failed"]


async def test_the_log_says_which_committer_failed_first() -> None:
    def first(*_: Any) -> None:
        raise OSError

    def second(*_: Any) -> None:
        raise ValueError

    journal = MemoryJournal()
    result = await run(agent(), "?", committers=[first, second], journal=journal)
    (event,) = [one for one in await log_of(journal, result.run_id) if one.kind == "committed"]
    assert event.reason == "committer first raised OSError"  # type: ignore[union-attr]


# -- seeders


async def test_a_seeder_makes_the_board() -> None:
    async def prepare(info: Any, request: Any) -> Board:
        board = Board()
        board.append(Message("user", f"{request.text} ({info.agent_id})"))
        return board

    model = ScriptedModel(["Hi."])
    result = await run(Agent("a", model=model), "?", prepare=prepare)
    assert model.calls[0].messages[0].text == "? (a)"
    assert [message.text for message in result.messages] == ["Hi."]


@pytest.mark.parametrize("made", [lambda: 1 / 0, lambda: None, lambda: "text"])
async def test_a_seeder_that_breaks_fails_the_run(made: Any) -> None:
    ran: list[Any] = []
    engine = Do(lambda *facts: ran.append(facts))
    result = await run(Agent("a", engine=engine), "?", prepare=lambda info, request: made())
    assert result.error is not None
    assert (result.status, result.error.origin, ran) == (Status.FAILED, "host", [])


async def test_the_seeder_is_asked_once_an_attempt() -> None:
    made: list[Board] = []

    def prepare(info: Any, request: Any) -> Board:
        made.append(Board())
        made[-1].append(Message("user", "?"))
        return made[-1]

    decider = Decide(FinalizeDecision.revise("More."))
    await run(agent("1", "2"), "?", prepare=prepare, deciders=[decider], max_attempts=2)
    assert len(made) == 2


async def test_a_seeder_may_give_one_board_for_all() -> None:
    board = Board()
    board.append(Message("user", "?"))
    board.set("n", [])

    def work(run: Any, host: Any, board: Any) -> Any:
        board.append(say("Hi."))
        board.get("n").append(run.attempt)
        return [len(board.messages()), board.get("n")]

    decider = Decide(FinalizeDecision.revise("", "again"))
    again: Any = {"deciders": [decider], "max_attempts": 2}
    engine = Do(work)
    first = await run(Agent("a", engine=engine), "?", prepare=lambda *_: board, **again)
    other = await run(Agent("a", engine=engine), "?", prepare=lambda *_: board)
    assert (first.output, other.output) == ([2, [2]], [2, [1]])
    assert (len(board.messages()), board.get("n")) == (1, [])


# -- hooks that hang


async def forever(*_: Any) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize(
    "hooks",
    [
        {"observers": [type("O", (), {"on_run_start": staticmethod(forever)})()]},
        {"observers": [type("O", (), {"on_attempt_start": staticmethod(forever)})()]},
        {"deciders": [type("D", (), {"before_finalize": staticmethod(forever)})()]},
        {"prepare": forever},
    ],
    ids=["run start", "attempt start", "decider", "seeder"],
)
async def test_a_hook_that_hangs_is_ended_by_cancel(hooks: Any) -> None:
    witness = Witness()
    own = agent(observers=[witness])
    async with start(own, "?", **hooks) as live:
        await asyncio.sleep(0.01)
        live.cancel()
        result = await live.result()
    assert (result.status, result.committed) == (Status.CANCELED, False)
    assert witness.names().count("on_run_end") == 1


def answers_in_time(clock: FakeClock) -> Agent[Any]:
    """An agent that has 10 ms of a minute left when it has answered."""

    def answer(_: Any) -> str:
        clock.advance(59.99)
        return "Hi."

    return Agent("a", model=ScriptedModel([answer]), budget=Budget(deadline_s=60))


async def test_a_decider_that_hangs_is_ended_by_the_deadline() -> None:
    clock = FakeClock()
    decider = type("D", (), {"before_finalize": staticmethod(forever)})()
    result = await run(answers_in_time(clock), "?", deciders=[decider], clock=clock)
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, "timeout")
    assert (result.content, result.committed) == ("Hi.", False)


async def test_an_observer_that_hangs_at_the_deadline_is_a_warning() -> None:
    clock = FakeClock()
    observer = type("O", (), {"on_attempt_end": staticmethod(forever)})()
    result = await run(answers_in_time(clock), "?", observers=[observer], clock=clock)
    assert (result.status, [one.code for one in result.warnings]) == (
        Status.COMPLETED,
        ["observer_failed"],
    )


async def test_tools_warn_through_the_result_too() -> None:
    calls = [ADD, ToolCall("call-2", "add", {"a": 3, "b": 4})]
    own = Agent("a", model=ScriptedModel([calls, "Done."]), tools=[add])
    result = await run(own, "?")
    assert [warning.code for warning in result.warnings] == ["undeclared_effect"]


async def test_an_answer_after_a_discarded_attempt_is_only_of_the_last() -> None:
    decider = Decide(FinalizeDecision.revise("More."))
    own = Agent(
        "a",
        engine=Do(lambda run, host, board: board.append(say(f"Try {run.attempt}."))),
        deciders=[decider],
    )
    result = await run(own, "?", max_attempts=2)
    assert [message.text for message in result.messages] == ["Try 2."]


async def test_the_error_that_a_broken_decider_replaces_is_a_warning() -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    agent = Agent("a", engine=raising(Failed("not_found", "no such order")))
    result = await run(agent, "?", deciders=[SimpleNamespace(before_finalize=fail)])
    assert result.error is not None
    assert result.error.code == "hook_failed"
    assert [(one.code, one.message) for one in result.warnings] == [("not_found", "no such order")]


class Again:
    """A decider that wants a revision, and stops the run while it thinks."""

    def __init__(self) -> None:
        self.live: Any = None
        self.stop = "interrupt"

    async def before_finalize(self, *_: Any) -> FinalizeDecision:
        getattr(self.live, self.stop)()
        return FinalizeDecision.revise("better", "draft")


@pytest.mark.parametrize(("stop", "status"), [("interrupt", "interrupted"), ("cancel", "canceled")])
async def test_a_run_that_is_stopped_is_not_revised(stop: str, status: str) -> None:
    again, witness = Again(), Witness()
    again.stop = stop
    agent = Agent("a", model=ScriptedModel(["Draft.", "Better."]), observers=[witness])
    async with start(agent, "?", deciders=[again], max_attempts=2) as live:
        again.live = live
        result = await live.result()
    assert (result.status, result.attempts, result.content) == (status, 1, "Draft.")
    assert not result.committed
    assert witness.names().count("on_attempt_start") == 1
    assert witness.names().count("on_interrupt") == (stop == "interrupt")
    assert "on_run_revise" not in witness.names()


async def test_what_a_hook_raised_is_logged_for_the_process_too_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def on_run_start(self, info: Any, request: Any) -> None:
            raise ValueError("no pass-word-7 here")

    agent = Agent("a", engine=Do(lambda run, host, board: "done"), observers=[Broken()])
    result = await run(agent, Request("?", run_id="r"), secrets=["pass-word-7"])
    (record,) = [one for one in caplog.records if one.name == "upshot.runs"]
    assert record.getMessage().startswith("run r: Broken.on_run_start raised ValueError")
    assert "pass-word-7" not in record.getMessage()
    assert result.success


def test_a_wish_that_an_engine_follows_says_who_and_why() -> None:
    wish = Interrupted("user_cancel", "enough")
    assert (wish.cause, wish.detail) == ("user_cancel", "enough")
