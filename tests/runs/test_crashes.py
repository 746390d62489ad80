"""Whatever breaks: what began is ended once, for observers, for the log and for watchers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.kit import Do, Witness, kinds, log_of, raising, say
from upshot import (
    Aborted,
    Agent,
    AgentError,
    AgentResult,
    Budget,
    Failed,
    FinalizeDecision,
    Interrupted,
    JournalError,
    ModelResponse,
    Parked,
    Request,
    RequestConfig,
    RunSettled,
    RunWarning,
    Warned,
    run,
    start,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


def nothing(*_: Any) -> None: ...


def broken(*_: Any) -> Any:
    raise RuntimeError("broken")


async def sleep(*_: Any) -> None:
    await asyncio.sleep(60)


class Broken:
    """Breaks in the hook that it is named after."""

    def __init__(self, hook: str) -> None:
        setattr(self, hook, broken)


CRASHES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "engine raises": {"engine": Do(broken)},
    "engine is interrupted": {"engine": raising(Interrupted("custom"))},
    "engine aborts": {"engine": raising(Aborted("no"))},
    "engine fails": {"engine": raising(Failed("conflict", "no"))},
    "engine parks": {"engine": raising(Parked())},
    "engine raises a cancel": {"engine": raising(asyncio.CancelledError())},
    "engine gives no board": {"engine": Do(lambda run, host, board: object())},
    "model fails": {"model": ScriptedModel([AgentError("auth_error", "no key")])},
    "model raises": {"model": ScriptedModel([broken])},
    "seeder raises": {"prepare": broken},
    "decider raises": {"deciders": [Broken("before_finalize")]},
    "decider raises before the model": {"deciders": [Broken("before_model")]},
    "committer raises": {"committers": [broken]},
    "deadline": {"engine": Do(sleep), "budget": Budget(deadline_s=0.01)},
} | {
    f"observer raises in {hook}": {"observers": [Broken(hook)]}
    for hook in ("on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end")
}


class Escape(BaseException):
    """What no ``except Exception`` holds."""


ESCAPES = [SystemExit, KeyboardInterrupt, GeneratorExit, Escape]
HOOKS = ("on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end", "on_run_revise")


def escaping(kind: type[BaseException]) -> dict[str, dict[str, Any]]:
    """Every place at which somebody else's code may raise *kind*."""

    def now(*_: Any, **__: Any) -> Any:
        raise kind("escaped")

    async def then(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(0)
        raise kind("escaped")

    async def in_a_thread(*_: Any) -> Any:
        await asyncio.to_thread(now)

    async def park(run: Any, host: Any, board: Any) -> None:
        await host.interrupts()
        await host.checkpoint(None)
        await host.report_usage(ModelResponse())
        await host.once("step", "read", now)

    revises = SimpleNamespace(before_finalize=lambda *_: FinalizeDecision.revise("again", "no"))
    places: dict[str, dict[str, Any]] = {
        "a thread": {"engine": Do(in_a_thread)},
        "a step": {"engine": Do(park)},
    }
    for how, escape in (("", now), (" later", then)):
        host = SimpleNamespace(publish=escape, interrupts=escape, report_usage=escape)
        places |= {
            f"engine{how}": {"engine": Do(escape)},
            f"prepare{how}": {"prepare": escape},
            f"committer{how}": {"committers": [escape]},
            f"host{how}": {"host": host},
            f"model{how}": {"model": SimpleNamespace(name="m", call=escape)},
        }
        for hook in ("before_finalize", "before_model"):
            places[f"{hook}{how}"] = {"deciders": [SimpleNamespace(**{hook: escape})]}
        for hook in HOOKS:
            observer = SimpleNamespace(**{hook: escape})
            options = {"observers": [observer], "deciders": [revises], "max_attempts": 2}
            places[f"{hook}{how}"] = options
    return {f"{kind.__name__} in {place}": options for place, options in places.items()}


# What watchers are told does not hang on the class that escapes.
WATCHED = CRASHES | escaping(Escape)
CRASHES |= {name: options for kind in ESCAPES for name, options in escaping(kind).items()}


@pytest.mark.parametrize("options", CRASHES.values(), ids=CRASHES)
async def test_what_began_is_ended_once(options: dict[str, Any]) -> None:
    witness, journal = Witness(), MemoryJournal()
    options = {"model": ScriptedModel(["Hi."], per_conversation=True)} | options
    agent = Agent("a", observers=[witness])
    result = await run(agent, "?", journal=journal, **options)
    assert witness.names().count("on_run_start") == witness.names().count("on_run_end") == 1
    assert witness.names()[-1] == "on_run_end"
    assert witness.names().count("on_attempt_start") == witness.names().count("on_attempt_end")
    log = await log_of(journal, result.run_id)
    assert kinds(log).count("run_started") == kinds(log).count("run_settled") == 1
    assert log[-1].kind == "run_settled"
    assert log[-1].result == result  # type: ignore[union-attr]


@pytest.mark.parametrize("options", WATCHED.values(), ids=WATCHED)
async def test_watchers_are_told_of_the_end_too(options: dict[str, Any]) -> None:
    options = {"model": ScriptedModel(["Hi."], per_conversation=True)} | options
    async with start(Agent("a"), "?", **options) as live:
        events = [event async for event in live]
        result = await live.result()
    assert events[-1].kind == "run_settled"
    assert events[-1].result is result  # type: ignore[union-attr]


class Failing(MemoryJournal):
    """A journal that can no longer be written from the n-th event on."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._left = last

    def append(self, event: Any, *, epoch: int | None = None) -> None:
        if self._left == 0:
            raise JournalError("the disk is full")
        self._left -= 1
        super().append(event, epoch=epoch)


@pytest.mark.parametrize("last", range(9))
async def test_a_log_that_is_lost_fails_the_run_and_ends_it_once(last: int) -> None:
    witness = Witness()
    agent = Agent("a", model=ScriptedModel(["Hi."]), observers=[witness])
    async with start(agent, "?", journal=Failing(last)) as live:
        events = [event async for event in live]
        result = await live.result()
    assert kinds(events).count("run_settled") == 1
    assert witness.names().count("on_run_start") == witness.names().count("on_run_end")
    told = [result.error.message] if result.error else [one.message for one in result.warnings]
    assert told == ["the disk is full"]


@pytest.mark.parametrize("hooks", [{}, {"committers": [nothing]}])
async def test_a_log_that_is_lost_after_the_commit_leaves_the_run_committed(hooks: Any) -> None:
    # The first event after the commit is the warning of a mode that nobody takes.
    request = Request("?", config=RequestConfig(accepted_output_modes=("image/*",)))

    def work(_run: Any, _host: Any, board: Any) -> None:
        board.append(say("Hi."))
        board.append(say("Beside."), "side")

    agent = Agent("a", engine=Do(work))
    whole, options = MemoryJournal(), {"artifacts": ["side"], **hooks}
    run_id = (await run(agent, request, journal=whole, **options)).run_id
    events = kinds(await log_of(whole, run_id))
    last = events.index("committed") + 1
    assert events[last] == "warning"
    result = await run(agent, request, journal=Failing(last), **options)
    assert (result.success, result.committed) == (True, True)
    assert [line.content for line in result.attempt_log] == ["Hi."]
    assert [warning.code for warning in result.warnings][-1] == "journal_failed"


class Unsafe(MemoryJournal):
    """A journal whose disk fails where somebody waits for a whole run."""

    async def durable(self, run_id: str, seq: int) -> None:
        await super().durable(run_id, seq)
        (summary,) = await self.runs()
        if summary.ended:
            raise JournalError("the disk is full")


async def test_a_log_that_is_lost_at_the_very_end_is_told_in_the_result() -> None:
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    result = await run(agent, "?", journal=Unsafe())
    assert result.content == "Hi."
    assert [(w.code, w.message) for w in result.warnings] == [
        ("journal_failed", "the disk is full")
    ]


async def test_an_old_epoch_stops_the_run_that_lost_its_log() -> None:
    journal = MemoryJournal()

    async def work(run: Any, host: Any, board: Any) -> None:
        await journal.claim(run.id)
        board.set("x", 1)
        await asyncio.sleep(60)

    result = await run(Agent("a", engine=Do(work)), Request("?", run_id="r"), journal=journal)
    assert result.error is not None
    assert (result.status, result.error.type, result.error.origin) == (
        "failed",
        "JournalError",
        "journal",
    )


async def test_a_hand_made_run_settled_does_not_end_the_run() -> None:
    def work(run: Any, host: Any, board: Any) -> str:
        host.publish(RunSettled(result=AgentResult()))
        return "mine"

    journal = MemoryJournal()
    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    assert kinds(await log_of(journal, result.run_id)).count("run_settled") == 1
    assert result.output == "mine"
    assert [warning.code for warning in result.warnings] == ["event_refused"]


async def test_what_is_published_after_the_end_is_not_logged() -> None:
    async def later(host: Any) -> None:
        await asyncio.sleep(0.01)
        host.publish(Warned(warning=RunWarning(code="late")))

    tasks: list[Any] = []

    def work(run: Any, host: Any, board: Any) -> None:
        tasks.append(asyncio.ensure_future(later(host)))

    journal = MemoryJournal()
    result = await run(Agent("a", engine=Do(work)), "?", journal=journal)
    await tasks[0]
    assert kinds(await log_of(journal, result.run_id))[-1] == "run_settled"
    assert result.warnings == ()


@pytest.mark.parametrize("kind", ESCAPES)
async def test_what_an_engine_raises_past_exceptions_is_a_failure_of_its_name(kind: Any) -> None:
    result = await run(Agent("a", engine=raising(kind("out"))), "?")
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "internal")
    assert (result.error.type, result.error.message) == (kind.__name__, "out")


@pytest.mark.parametrize("hook", ["before_model", "before_finalize"])
@pytest.mark.parametrize("kind", ESCAPES)
async def test_a_decider_that_leaves_past_exceptions_fails_closed(kind: Any, hook: str) -> None:
    def escape(*_: Any) -> None:
        raise kind("out")

    agent = Agent("a", model=ScriptedModel(["Hi."]))
    result = await run(agent, "?", deciders=[SimpleNamespace(**{hook: escape})])
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("hook_failed", kind.__name__)
    assert not result.committed


class Mute(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("nope")


async def test_an_exception_that_cannot_be_printed_is_told_by_its_name() -> None:
    result = await run(Agent("a", engine=raising(Mute())), "?")
    assert result.error is not None
    assert (result.error.type, result.error.message) == ("Mute", "Mute")


async def test_an_observer_whose_exception_cannot_be_printed_is_a_warning() -> None:
    def fail(*_: Any) -> None:
        raise Mute

    agent = Agent("a", model=ScriptedModel(["Hi."]))
    result = await run(agent, "?", observers=[SimpleNamespace(on_run_start=fail)])
    assert [one.message for one in result.warnings] == ["SimpleNamespace.on_run_start raised Mute"]


async def test_every_committer_is_called_whatever_the_others_raise() -> None:
    called: list[str] = []
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    committers = [broken, lambda *_: called.append("second"), broken]
    result = await run(agent, "?", committers=committers)
    assert called == ["second"]
    assert not result.committed
    assert [one.code for one in result.warnings] == ["hook_failed"] * 2
