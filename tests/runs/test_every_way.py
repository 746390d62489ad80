"""Whatever engines, hooks and people do: one result, told once, with the right code."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import Do, Ordered, Witness, kinds, say
from tests.searching import examples
from upshot import (
    Aborted,
    Agent,
    Budget,
    Failed,
    FinalizeDecision,
    Interrupted,
    JournalError,
    ModelRequest,
    Parked,
    PendingQuestion,
    Request,
    RunEvent,
    ScriptedModel,
    Status,
    start,
)

HOOKS = (
    *("on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end"),
    *("on_interrupt", "on_run_revise"),
)
RAISED = {
    "an error": lambda: ValueError("odd"),
    "a group": lambda: ExceptionGroup("many", [KeyError("k")]),
    "a cancel": asyncio.CancelledError,
    "a timeout": TimeoutError,
    "an interrupt": lambda: Interrupted("custom"),
    "an abort": lambda: Aborted("no"),
    "a failure": lambda: Failed("conflict", "no"),
    "a wait": lambda: Parked(PendingQuestion(id="q")),
    "an error of the log": lambda: JournalError("the disk is full"),
}
STATUSES = {
    **dict.fromkeys(RAISED, "failed"),
    "an interrupt": "interrupted",
    "an abort": "aborted",
    "a wait": "input_required",
}


def raiser(what: str, *, is_async: bool) -> Any:
    def plainly(*_: Any) -> Any:
        raise RAISED[what]()

    async def later(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise RAISED[what]()

    return later if is_async else plainly


class Hook:
    """Has one method, under the name of a hook."""

    def __init__(self, name: str, method: Any) -> None:
        setattr(self, name, method)


# Exceptions that name the code with which a run fails; others that `prepare` raises are internal.
CODES = {"a timeout": "timeout", "a failure": "conflict"}
# Where something raises: how it gets into a run, and the status and code that follow.
PLACES: dict[str, tuple[Any, str, str | None]] = {
    "prepare": (lambda hook: {"prepare": hook}, "failed", "internal"),
    "before_finalize": (
        lambda hook: {"deciders": [Hook("before_finalize", hook)]},
        "failed",
        "hook_failed",
    ),
    "before_model": (
        lambda hook: {"deciders": [Hook("before_model", hook)]},
        "failed",
        "hook_failed",
    ),
    "committer": (lambda hook: {"committers": [hook]}, "completed", None),
    **{
        name: (lambda hook, name=name: {"observers": [Hook(name, hook)]}, "completed", None)
        for name in HOOKS[:4]
    },
    **{
        name: (lambda hook, name=name: {"host": Hook(name, hook)}, "completed", None)
        for name in ("publish", "interrupts")
    },
}


async def ask(run: Any, host: Any, board: Any) -> None:
    await host.interrupts()
    reply = await run.call_model(ModelRequest(board.messages()))
    board.append(reply.to_message())


def asking() -> Agent[Any]:
    return Agent("a", engine=Do(ask), model=ScriptedModel(["Hi."]))


# A hook at each place raises each thing; half of them are async, at each place and for each thing.
CASES = [
    pytest.param(place, what, (row + column) % 2 == 0, id=f"{place}, {what}")
    for row, place in enumerate(PLACES)
    for column, what in enumerate(RAISED)
]


@pytest.mark.parametrize(("place", "what", "is_async"), CASES)
async def test_whatever_a_hook_raises_has_its_place_and_its_code(
    place: str, what: str, *, is_async: bool
) -> None:
    options, status, code = PLACES[place]
    witness, journal = Witness(), Ordered()
    given = options(raiser(what, is_async=is_async))
    given["observers"] = [witness, *given.get("observers", [])]
    async with start(asking(), "?", journal=journal, **given) as live:
        result = await live.result()
    if place == "prepare":
        code = CODES.get(what, code)
    assert (str(result.status), result.error and str(result.error.code)) == (status, code)
    assert witness.names().count("on_run_end") == 1
    assert kinds(journal.order).count("run_settled") == 1
    assert journal.order[-1].kind == "run_settled"
    if status == "completed":
        assert result.content == "Hi."
        assert len(result.warnings) == 1
    assert result.committed is (status == "completed" and place != "committer")


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("what", RAISED)
async def test_whatever_an_engine_raises_has_its_status(what: str, *, is_async: bool) -> None:
    witness, journal = Witness(), Ordered()
    agent = Agent("a", engine=Do(raiser(what, is_async=is_async)), observers=[witness])
    async with start(agent, "?", journal=journal) as live:
        result = await live.result()
    assert result.status == STATUSES[what]
    assert (result.error is None) is (result.status is Status.COMPLETED)
    assert witness.names()[-1] == "on_run_end"
    assert journal.order[-1].kind == "run_settled"


async def poll(run: Any, host: Any, board: Any) -> None:
    wish = await host.interrupts()
    if wish:
        raise Interrupted(wish.cause, wish.detail)


DOES: dict[str, Any] = {
    "append": lambda run, host, board: board.append(say("More.")),
    "set": lambda run, host, board: board.set("x", 1),
    "model": ask,
    "poll": poll,
    "sleep": lambda run, host, board: asyncio.sleep(0),
    "step": lambda run, host, board: host.once("k", "write", lambda: 1),
    "ask": lambda run, host, board: host.ask_user("Who?"),
    "child": lambda run, host, board: run.child(asking(), "?", key="c"),
    "publish": lambda run, host, board: host.publish(RunEvent()),
}


async def do(step: Any, run: Any, host: Any, board: Any) -> None:
    if not isinstance(step, str):
        raise RAISED[step[1]]()
    done = DOES[step](run, host, board)
    if inspect.isawaitable(done):
        await done


STEPS = st.one_of(
    st.sampled_from(sorted(DOES)),
    st.tuples(st.just("raise"), st.sampled_from(sorted(RAISED))),
)
OUTSIDE = st.tuples(st.integers(0, 12), st.sampled_from(["interrupt", "cancel", "cancel_call"]))
BROKEN = st.tuples(st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(RAISED)), st.booleans())
VERDICTS = st.lists(st.sampled_from(["accept", "discard", "keep_partial", "revise"]), max_size=3)


class Says:
    def __init__(self, words: list[str]) -> None:
        self._words = list(words)

    def before_finalize(self, *_: Any) -> Any:
        word = self._words.pop(0) if self._words else "accept"
        return FinalizeDecision(word)  # type: ignore[arg-type]


class Told:
    """Keeps a run's own events, and does to it what is wished, when its time has come."""

    def __init__(self, placed_answers: list[tuple[int, str]]) -> None:
        self.events: list[Any] = []
        self._seen = 0
        self._wishes = sorted(placed_answers)

    async def watch(self, live: Any) -> None:
        async for event in live:
            self._seen += 1
            if not event.path:
                self.events.append(event)
            while self._wishes and self._wishes[0][0] <= self._seen:
                _, wish = self._wishes.pop(0)
                if wish == "cancel_call":
                    live.cancel_call("c")
                else:
                    getattr(live, wish)()


@examples(150)
@given(
    steps=st.lists(STEPS, max_size=6),
    placed_answers=st.lists(OUTSIDE, max_size=2),
    hooks=st.lists(BROKEN, max_size=2),
    verdicts=VERDICTS,
    limits=st.tuples(st.integers(1, 3), st.integers(0, 3)),
)
async def test_no_sequence_of_events_leaves_the_life_or_loses_the_result(
    steps: list[Any],
    placed_answers: list[tuple[int, str]],
    hooks: list[tuple[str, str, bool]],
    verdicts: list[str],
    limits: tuple[int, int],
) -> None:
    attempts, turns = limits

    async def work(run: Any, host: Any, board: Any) -> None:
        for step in steps:
            await do(step, run, host, board)

    options: dict[str, Any] = {"deciders": [Says(verdicts)], "budget": Budget(max_turns=turns)}
    for place, what, is_async in hooks:
        for name, value in PLACES[place][0](raiser(what, is_async=is_async)).items():
            options[name] = [*options.get(name, ()), *value] if isinstance(value, list) else value
    witness, journal, told = Witness(), Ordered(), Told(placed_answers)
    options["observers"] = [witness, *options.get("observers", ())]
    model = ScriptedModel(["Hi."] * 20)
    agent = Agent("a", engine=Do(work), model=model)
    request = Request("?", run_id="r")
    async with start(agent, request, journal=journal, max_attempts=attempts, **options) as live:
        await told.watch(live)
        result = await live.result()
    log = [event for event in journal.order if event.run_id == "r"]
    assert kinds(told.events).count("run_settled") == kinds(log).count("run_settled") == 1
    assert log[-1].kind == told.events[-1].kind == "run_settled"
    assert told.events[-1].result is result
    assert (result.error is None) is (result.status is Status.COMPLETED)
    assert not result.committed or result.status in (Status.COMPLETED, Status.INTERRUPTED)
    assert [event.seq for event in log] == list(range(1, len(log) + 1))
    names = witness.names()
    assert names.count("on_run_start") == names.count("on_run_end") == 1
    assert (names[0], names[-1]) == ("on_run_start", "on_run_end")
    assert names.count("on_attempt_start") == names.count("on_attempt_end") == result.attempts
    assert result.attempts <= attempts
    assert len(result.attempt_log) == result.attempts
