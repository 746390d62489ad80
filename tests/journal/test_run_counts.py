"""Runs are counted by the hour of their start, each once, whatever becomes of them."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.postgres import PostgresServer
from upshot import Agent, App, Request, Retry, ScriptedModel, ToolCall, resume, run, tool
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.call_counts import CallCount, bucket_of, quantile_s
from upshot.contract.error import AgentError
from upshot.contract.events import Event, RunReleased, RunResumed, RunSettled, RunStarted
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import PendingApproval
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.contract.usage import Cost, RateLimitWindow, Usage
from upshot.errors import JournalError, Misuse
from upshot.journal import MemoryJournal, PostgresJournal, SqliteJournal
from upshot.journal.event_codec import FORMAT
from upshot.journal.postgres.tables import STEPS
from upshot.journal.run_counts import (
    AGES,
    FINEST,
    HOUR,
    FigureQuery,
    RunFigure,
    RunFigures,
    count_ages,
    counted_run,
    figures_of,
)
from upshot.journal.shared import SharedJournal, needs_shared
from upshot.journal.sql.count_rows import count_again
from upshot.journal.sql.sql_journal import SqlJournal
from upshot.journal.sqlite.tables import USER_VERSION
from upshot.testing.ledger_contract import Run

START = datetime(2026, 3, 4, 5, 0, tzinfo=UTC)
KINDS = ["memory", "sqlite", "postgres"]


@asynccontextmanager
async def opened(
    kind: str, folder: Path, request: pytest.FixtureRequest
) -> AsyncGenerator[SharedJournal]:
    """A new journal of a kind."""
    if kind == "memory":
        journal: Any = MemoryJournal()
    elif kind == "sqlite":
        journal = await SqliteJournal.open(folder / "runs.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        journal = await PostgresJournal.open(server.url(server.new_journal()))
    async with aclosing(journal):
        yield needs_shared(journal)


class Ended(NamedTuple):
    """How a session ends."""

    status: Status = Status.COMPLETED
    cost: str | None = None
    currency: str = "USD"
    effect: Effect = Effect.NONE
    took_s: float = 0.0
    calls: tuple[CallCount, ...] = ()


ENDED = Ended()


class Written:
    """A run whose events are written by hand."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self.run_id, self._journal, self.events = run_id, journal, list[Event]()

    def write(self, event: type[Event], **fields: Any) -> "Written":
        """Append the next event."""
        fields = {"time": START, **fields}
        one: Any = event
        made = one(run_id=self.run_id, seq=len(self.events) + 1, **fields)
        self.events.append(made)
        self._journal.append(made)
        return self

    def start(self, at: datetime = START, **fields: Any) -> "Written":
        """Write the first event."""
        agent = AgentSpec(id=fields.pop("agent", "desk"))
        return self.write(RunStarted, time=at, agent=agent, request=Request("x"), **fields)

    def end(self, ended: Ended = ENDED) -> "Written":
        """Write the end of a session."""
        waits = ended.status is Status.INPUT_REQUIRED
        code = ErrorCode.INPUT_REQUIRED if waits else ErrorCode.TIMEOUT
        cost = None
        if ended.cost is not None:
            cost = Cost(total=Decimal(ended.cost), currency=ended.currency)
        result = AgentResult[Any](
            run_id=self.run_id,
            status=ended.status,
            usage=Usage(api_calls=1, input_tokens=5, total_tokens=5),
            cost=cost,
            error=None if ended.status is Status.COMPLETED else AgentError(code),
        )
        more = {"effect": ended.effect, "took_s": ended.took_s, "calls": ended.calls}
        return self.write(RunSettled, result=result, **more)


def told(figures: RunFigures) -> dict[tuple[int, str, str, str, str], Any]:
    """The totals by what they count: how many, and the cost of runs or the failures of calls."""
    return {
        (one.part, one.kind, one.agent_id, one.name, one.mark or one.currency): (
            one.count,
            round(one.amount, 9) if one.kind == "run" else one.failed,
        )
        for one in figures.totals
    }


def a_day(**whose: str) -> FigureQuery:
    return FigureQuery(START, HOUR, 24, **whose)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_counts_by_how_its_last_session_ended(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with opened(kind, tmp_path, request) as journal:
        paid = Ended(cost="0.25", effect=Effect.APPLIED, took_s=1.5)
        Written(journal, "done").start().end(paid)
        parked = Written(journal, "parked").start(START + HOUR).end(Ended(Status.INPUT_REQUIRED))
        before = Written(journal, "before").start(START - HOUR, agent="sales")
        before.end(Ended(Status.FAILED, cost="2", currency="EUR"))
        Written(journal, "working").start()
        figures = await journal.figures(a_day())
        assert told(figures) == {
            (-1, "run", "sales", "failed", "timeout"): (1, 2.0),
            (0, "run", "desk", "completed", "USD"): (1, 0.25),
            (0, "run", "desk", "input_required", ""): (1, 0),
        }
        assert [(one.part, one.name, one.currency, one.applied) for one in figures.parts] == [
            (0, "completed", "USD", 1),
            (1, "input_required", "", 0),
        ]
        [done] = [one for one in figures.totals if one.name == "completed"]
        assert done.took[bucket_of(1.5)] == sum(done.took) == 1
        parked.write(RunResumed)
        assert "input_required" not in {one.name for one in (await journal.figures(a_day())).totals}
        parked.write(RunReleased, reason="drain").write(RunResumed).end(Ended(Status.CANCELED))
        names = [one.name for one in (await journal.figures(a_day())).totals if one.kind == "run"]
        assert sorted(names) == ["canceled", "completed", "failed"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_removed_run_is_not_counted_and_a_redacted_one_is(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with opened(kind, tmp_path, request) as journal:
        calls = (CallCount(type="tool", name="look", calls=3, failed=1, took=(0, 2, 1)),)
        for n in range(3):
            one = Written(journal, f"run-{n}")
            one.write(
                RunStarted,
                agent=AgentSpec(id="desk"),
                request=Request("x", context_id=f"talk-{n}"),
            )
            one.end(Ended(cost="0.1", calls=calls))
        before = told(await journal.figures(a_day()))
        assert before[0, "tool", "", "look", ""] == (9, 3)
        await journal.redact(conversation="talk-0")
        assert told(await journal.figures(a_day())) == before
        path = tmp_path / "run-1.jsonl"
        await journal.export("run-1", path)
        remove: Any = journal
        await remove.remove_runs(["run-1"])
        gone = told(await journal.figures(a_day()))
        assert gone[0, "run", "desk", "completed", "USD"] == (2, 0.2)
        assert gone[0, "tool", "", "look", ""] == (6, 2)
        await journal.import_(path)
        assert told(await journal.figures(a_day())) == before
        await remove.remove_runs(["run-0", "run-1", "run-2"])
        assert await journal.figures(a_day()) == RunFigures()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_cost_of_a_child_run_counts_with_its_parent_alone(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with opened(kind, tmp_path, request) as journal:
        parent, paid = Written(journal, "parent").start(), Ended(cost="1")
        Written(journal, "child").start(parent_run_id="parent", depth=1).end(paid)
        parent.end(paid)
        figures = told(await journal.figures(a_day()))
        assert figures[0, "run", "desk", "completed", "USD"] == (1, 1.0)
        assert figures[0, "run", "desk", "completed", ""] == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_has_not_ended_is_counted_now(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    from upshot.contract.pending import PendingQuestion

    async with opened(kind, tmp_path, request) as journal:
        Written(journal, "working").start(attributes={"user": "ann", "tenant": "acme"})
        now = datetime.now(UTC)
        parked = Written(journal, "parked").start()
        asked = [timedelta(seconds=5), timedelta(minutes=30), timedelta(days=3)]
        asks = {
            f"q-{n}": PendingQuestion(id=f"q-{n}", question="which?", asked_at=now - age)
            for n, age in enumerate(asked)
        }
        result = AgentResult[Any](
            run_id="parked",
            status=Status.INPUT_REQUIRED,
            error=AgentError(ErrorCode.INPUT_REQUIRED),
            pending=tuple(asks.values()),
        )
        parked.write(RunSettled, result=result, asks=asks)
        found = await journal.open_work()
        assert (found.queued, found.running, found.waiting) == (0, 1, (3, 2, 1, 1, 0))
        assert (found.begun, found.unknown) == (0, 0)
        theirs = await journal.open_work(tenant="acme")
        assert (theirs.running, theirs.waiting) == (1, (0,) * len(AGES))
        assert (await journal.open_work(owner="ann", tenant="acme")).running == 1
        assert (await journal.open_work(owner="ann")).running == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_an_effect_is_under_way_until_its_run_is_released_and_unknown_then(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with opened(kind, tmp_path, request) as journal:
        desk = await Run(journal, "run-1").begin(user="ann", tenant="acme")
        assert await desk.start("a", "7")

        async def found(**whose: str) -> tuple[int, int]:
            work = await journal.open_work(**whose)
            assert work.unknown_ages == (work.unknown,) * len(AGES)
            return work.begun, work.unknown

        assert await found() == await found(tenant="acme") == (1, 0)
        assert await found(owner="ann") == (0, 0)
        held: Any = journal
        held.release("run-1", 1)
        assert await found() == await found(owner="ann", tenant="acme") == (0, 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_empty_period_or_one_without_a_zone_is_misuse(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with opened(kind, tmp_path, request) as journal:
        assert await journal.figures(a_day()) == RunFigures()
        wrong = [(START, HOUR, 0), (START, timedelta(0), 24), (START.replace(tzinfo=None), HOUR, 2)]
        for since, step, parts in wrong:
            with pytest.raises(Misuse):
                await journal.figures(FigureQuery(since, step, parts))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_real_run_counts_the_calls_of_its_models_and_tools(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    @tool(effect="read")
    def look(at: int) -> str:
        if at > 1:
            raise ValueError("there is nothing")
        return "a book"

    calls = [[ToolCall(f"c{n}", "look", {"at": n})] for n in range(3)]
    timed = ModelResponse(content="Done.", duration_ms=40)
    async with opened(kind, tmp_path, request) as journal:
        agent = Agent("desk", model=ScriptedModel([*calls, timed]), tools=[look])
        await run(agent, Request("look", run_id="real"), journal=journal)
        since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        figures = await journal.figures(FigureQuery(since - HOUR, HOUR, 2))
        found = {(one.kind, one.name): one for one in figures.totals}
        model, looked = found["model", "scripted:script"], found["tool", "look"]
        assert (model.count, model.failed, sum(model.took)) == (4, 0, 1)
        assert (looked.count, looked.failed, sum(looked.took)) == (3, 1, 3)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_slowest_call_and_the_last_limits_are_known_with_their_runs(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    def ended(ms: int, remaining: int, limited: int = 0) -> Ended:
        window = RateLimitWindow(name="requests", limit=500, remaining=remaining)
        at = START + timedelta(seconds=ms)
        looked = CallCount(type="tool", name="look", calls=1, slowest_ms=ms, slowest=f"c_{ms}")
        more: dict[str, Any] = {"limited": limited, "windows": (window,), "at": at}
        return Ended(calls=(looked, CallCount(type="model", name="a:m", calls=2, **more)))

    async with opened(kind, tmp_path, request) as journal:
        Written(journal, "slow").start().end(ended(900, 3))
        # In two transactions, so that a row is changed.
        await journal.figures(a_day())
        Written(journal, "quick").start().end(ended(40, 7, limited=2))
        later = Written(journal, "later").start(START + HOUR).end(ended(70, 5, limited=1))
        figures = await journal.figures(a_day())
        slow = [(one.took_ms, one.run_id, one.call_id) for one in figures.slowest]
        # One for each part.
        assert slow == [(900, "slow", "c_900"), (70, "later", "c_70")]
        limited = [(one.model, one.run_id, one.at) for one in figures.limited]
        times = [START + timedelta(seconds=seconds) for seconds in (70, 40)]
        assert limited == [("a:m", "later", times[0]), ("a:m", "quick", times[1])]
        [limits] = figures.limits
        assert [(one.name, one.limit, one.remaining) for one in limits.windows] == [
            ("requests", 500, 3)
        ]
        counts = {one.kind: one.count for one in figures.totals}
        assert (counts["limit"], counts["tool"], counts["model"]) == (3, 3, 6)
        # Its calls happened, whatever becomes of it.
        later.write(RunResumed).end(ended(70, 5, limited=1))
        assert (await journal.figures(a_day())).slowest == figures.slowest
        remove: Any = journal
        await remove.remove_runs(["slow", "later"])
        left = await journal.figures(a_day())
        # A removed run is no example; the next slowest call of its part may be missing.
        assert {one.run_id for one in (*left.slowest, *left.limited)} <= {"quick"}
        assert [one.run_id for one in left.limited] == ["quick"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_real_run_counts_denials_time_outs_and_approvals_of_its_tools(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    @tool(effect="read", timeout_s=0.01)
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    @tool(effect="write", approval=True)
    def send(to: str) -> str:
        return "sent"

    def answer(asked: Any) -> Any:
        return asked.arguments["to"] == "ann"

    calls = [
        [ToolCall("c1", "wait", {}), ToolCall("c2", "gone", {})],
        [ToolCall("c3", "send", {"to": "ann"}), ToolCall("c4", "send", {"to": "ben"})],
        ModelResponse(error=AgentError(ErrorCode.RATE_LIMIT, "slow down", retryable=True)),
        "Done.",
    ]
    async with opened(kind, tmp_path, request) as journal:
        agent = Agent("desk", model=ScriptedModel(calls), tools=[wait, send])
        retry = Retry(base_s=0)
        result = await run(
            agent, Request("?", run_id="real"), journal=journal, approve=answer, retry=retry
        )
        assert result.success, result.error
        since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        figures = await journal.figures(FigureQuery(since - HOUR, HOUR, 2))
        found = {
            (one.kind, one.name): (one.count, one.failed, one.timed_out, one.denied)
            for one in figures.totals
        }
        assert found["tool", "wait"] == (1, 1, 1, 0)
        assert found["tool", "gone"] == (0, 0, 0, 1)
        assert found["tool", "send"] == (1, 0, 0, 1)
        assert found["limit", "scripted:script"] == (1, 0, 0, 0)
        [slowest] = [one for one in figures.slowest if one.tool == "wait"]
        assert (slowest.run_id, slowest.call_id) == ("real", "c1")


@pytest.mark.parametrize("status", [Status.CANCELED, Status.INTERRUPTED])
async def test_a_call_that_waited_when_its_run_was_stopped_is_not_denied(status: Status):
    @tool(effect="write", approval=True)
    def send(to: str) -> str:
        return "sent"

    model = ScriptedModel([ToolCall("c1", "send", {"to": "ann"})])
    async with App([Agent("desk", model=model, tools=[send])], journal="memory:") as app:
        parked = await app.submit("desk", "?")
        await app.activate(parked.id)
        await (parked.cancel() if status is Status.CANCELED else parked.interrupt())
        await app.activate(parked.id)
        result = await parked.result()
        assert result is not None and result.status is status
        assert result.tool_outcomes[0].reason == "cancelled"
        since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        journal: Any = await app.open()
        figures = await journal.figures(FigureQuery(since - HOUR, HOUR, 2))
    assert [one.denied for one in figures.totals if one.kind == "tool"] == [0]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_approval_counts_with_how_long_its_answer_took(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    @tool(effect="write", approval=True)
    def send(to: str) -> str:
        return "sent"

    calls: list[Any] = [[ToolCall("c1", "send", {"to": "ann"})], "Done."]
    async with opened(kind, tmp_path, request) as journal:
        agent = Agent("desk", model=ScriptedModel(calls), tools=[send])
        parked = await run(agent, Request("?", run_id="real"), journal=journal)
        [asked] = parked.pending
        assert isinstance(asked, PendingApproval)
        since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        wanted = FigureQuery(since - HOUR, HOUR, 2)
        assert "approval" not in {one.kind for one in (await journal.figures(wanted)).totals}
        await resume("real", agent, journal=journal, answers=[asked.approve()])
        [approval] = [
            one for one in (await journal.figures(wanted)).totals if one.kind == "approval"
        ]
        assert (approval.name, approval.count, sum(approval.took)) == ("send", 1, 1)


async def test_counts_of_five_minutes_are_removed_after_two_days(tmp_path: Path):
    now = datetime.now(UTC)
    async with aclosing(await SqliteJournal.open(tmp_path / "runs.db")) as journal:
        Written(journal, "new").start(now).end()
        Written(journal, "old").start(now - timedelta(days=3)).end()
        rows = "SELECT span, count(*) FROM run_counts GROUP BY span"

        def counted() -> Any:
            return journal.read(lambda connection: dict(connection.execute(rows).fetchall()))

        await journal.durable("old", 2)
        assert await counted() == {1: 1, 12: 2, 288: 2}
        later = "UPDATE run_counts SET start = start - 999 WHERE span = 1"
        await journal.write(lambda connection: connection.execute(later))
        numbered = "UPDATE runs SET run_no = 500 WHERE run_id = 'next'"
        Written(journal, "next").start(now - timedelta(days=3))
        await journal.durable("next", 1)
        await journal.write(lambda connection: connection.execute(numbered))
        await journal.remove_runs(["old"])
        assert (await counted())[1] == 1


# -- against counting from the logs

STEPS_OF_A_RUN = st.lists(
    st.one_of(
        st.just("resume"),
        st.just("release"),
        st.builds(
            Ended,
            status=st.sampled_from([Status.COMPLETED, Status.FAILED, Status.INPUT_REQUIRED]),
            cost=st.sampled_from([None, "0", "0.5", "3"]),
            currency=st.sampled_from(["USD", "EUR"]),
            effect=st.sampled_from([Effect.NONE, Effect.APPLIED, Effect.UNKNOWN]),
            took_s=st.floats(0, 1e5),
            calls=st.sampled_from(
                [
                    (),
                    (CallCount(type="model", name="m", calls=2, failed=1, took=(1, 1)),),
                    (CallCount(type="tool", name="t", calls=1, took=(0,) * 18 + (1,)),),
                    (
                        CallCount(type="tool", name="t", denied=2, repeated=1, waits=(0, 3)),
                        CallCount(type="tool", name="u", calls=3, timed_out=1, unknown=2),
                        CallCount(type="model", name="m", calls=3, failed=2, limited=2),
                    ),
                ]
            ),
        ),
    ),
    max_size=5,
)
RUNS = st.lists(
    st.tuples(
        st.integers(-50, 50),
        st.sampled_from(["a", "b"]),
        st.booleans(),
        STEPS_OF_A_RUN,
        st.booleans(),
    ),
    max_size=6,
)


def from_log(events: list[Any], tenant: str) -> Any:
    """The columns of a run, folded from its log by hand."""
    from upshot.contract.protocols import RunSummary

    started, *rest = events
    state: dict[str, Any] = {"status": "running"}
    calls: tuple[CallCount, ...] = ()
    for event in rest:
        if isinstance(event, RunSettled):
            result, calls = event.result, event.calls
            failed = result.status is Status.FAILED
            code = str(result.error.code) if failed and result.error is not None else ""
            state = {
                "status": str(result.status.value),
                "cost": result.cost,
                "effect": event.effect,
                "took_s": event.took_s,
                "error_code": code,
            }
        else:
            state |= {"status": "running"}
    summary = RunSummary(started_at=started.time, agent_id=started.agent.id, tenant=tenant, **state)
    return counted_run(summary, calls, is_inside=started.depth > 0)


def play(
    journal: SharedJournal, tenant: str, runs: list[Any], start: datetime = START
) -> list[str]:
    """Write runs in an order in which they mix; returns those to remove."""
    removed: list[str] = []
    written: list[tuple[Written, list[Any]]] = []
    for n, (minutes, agent, is_inside, steps, goes) in enumerate(runs):
        one = Written(journal, f"{tenant}-{n}")
        at = start + timedelta(minutes=30 * minutes)
        depth = {"depth": 1} if is_inside else {}
        one.start(at, agent=agent, attributes={"tenant": tenant}, **depth)
        written.append((one, [*steps]))
        if goes:
            removed.append(one.run_id)
    while any(steps for _, steps in written):
        for one, steps in written:
            match steps.pop(0) if steps else None:
                case Ended() as ended:
                    one.end(ended)
                case "resume":
                    one.write(RunResumed)
                case "release":
                    one.write(RunReleased, reason="drain")
                case _:
                    pass
    return removed


def rounded(figures: RunFigures) -> list[list[RunFigure]]:
    """Figures without what the order of sums changes."""
    return [
        [replace(one, amount=round(one.amount, 6)) for one in some]
        for some in (figures.parts, figures.totals)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_are_those_of_the_logs(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    numbers = iter(range(1_000_000))

    async def check(journal: SharedJournal, runs: list[Any], start: datetime) -> None:
        tenant = f"t-{next(numbers)}"
        removed = play(journal, tenant, runs, start)
        remove: Any = journal
        if removed:
            await remove.remove_runs(removed)
        kept = [run.run_id for run in await journal.runs(tenant=tenant)]
        logs = [[event async for event in journal.events(run_id)] for run_id in kept]
        is_new = start != START
        for since, step, parts, span in (
            (start, HOUR, 10, 12),
            (start.replace(hour=0), 24 * HOUR, 1, 288),
            (start, timedelta(minutes=30), 9, 1 if is_new else 0),
            (start - timedelta(minutes=25), FINEST, 12, 1 if is_new else 0),
            (start, timedelta(minutes=7), 9, 0),
        ):
            wanted = FigureQuery(since, step, parts, tenant=tenant)
            assert wanted.span == span
            figures = await journal.figures(wanted)
            among = [
                one
                for log in logs
                if wanted.before <= log[0].time < wanted.until
                for one in [from_log(log, tenant)]
            ]
            assert rounded(figures) == rounded(figures_of(among, wanted))

    with asyncio.Runner() as runner:
        context = opened(kind, tmp_path, request)
        journal = runner.run(context.__aenter__())

        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

        @given(RUNS, st.sampled_from([START, now]))
        @settings(
            max_examples=25,
            deadline=None,
            suppress_health_check=[HealthCheck.function_scoped_fixture],
        )
        def examples(runs: list[Any], start: datetime) -> None:
            runner.run(check(journal, runs, start))

        examples()
        runner.run(context.__aexit__(None, None, None))


# -- journals that were made before


def make_older(path: Path, version: int) -> None:
    """Give a file the tables of an earlier draft, which did not say their version."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("run_counts", "audit", "web_sessions"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP TRIGGER answers_are_audited")
        connection.execute("DROP TRIGGER ends_are_counted")
        connection.execute("DROP TRIGGER removals_are_counted")
        if version == 1:
            connection.execute("ALTER TABLE runs DROP COLUMN calls")
        else:
            connection.execute("CREATE TABLE run_counts (span INTEGER, start INTEGER)")
        connection.execute(f"PRAGMA user_version = {FORMAT}")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_file_with_older_tables_gets_counts_when_it_is_opened(tmp_path: Path, version: int):
    path = tmp_path / "runs.db"
    async with aclosing(await SqliteJournal.open(path)) as journal:
        for n in range(3):
            Written(journal, f"run-{n}").start().end(Ended(cost="0.5"))
        before = await journal.figures(a_day())
    make_older(path, version)
    with pytest.raises(JournalError, match=f"are of version {version}, .* open it once where"):
        await SqliteJournal.open(path, read_only=True)
    async with aclosing(await SqliteJournal.open(path)) as journal:
        assert await journal.figures(a_day()) == before
        Written(journal, "run-3").start().end(Ended(cost="0.5"))
        found = told(await journal.figures(a_day()))
        assert found[0, "run", "desk", "completed", "USD"] == (4, 2.0)
        assert (await journal.health()).schema == 4


@pytest.mark.parametrize(
    "statement", ["UPDATE runs SET status = 'completed', took = 1", "DELETE FROM runs"]
)
async def test_code_that_has_older_tables_open_can_end_no_run_in_a_renewed_file(
    tmp_path: Path, statement: str
):
    path = tmp_path / "runs.db"
    async with aclosing(await SqliteJournal.open(path)) as journal:
        Written(journal, "run").start()
        await journal.durable("run", 1)
    make_older(path, 2)
    # Another process, which opened the file before.
    with closing(sqlite3.connect(path)) as old:
        old.execute("SELECT count(*) FROM runs").fetchone()
        await (await SqliteJournal.open(path)).aclose()
        needed = "no such function: this_journal_needs_an_upshot_that_knows_tables_of_version_4"
        with pytest.raises(sqlite3.OperationalError, match=needed):
            old.execute(statement)


async def test_a_file_with_newer_tables_is_refused(tmp_path: Path):
    path = tmp_path / "runs.db"
    await (await SqliteJournal.open(path)).aclose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {USER_VERSION + 1}")
    with pytest.raises(JournalError, match="of version 5, and this upshot knows version 4: use a"):
        await SqliteJournal.open(path)


async def test_tables_of_version_1_are_counted_when_they_are_upgraded(postgres: PostgresServer):
    database = postgres.new_journal()
    async with aclosing(await PostgresJournal.open(postgres.url(database))) as journal:
        for n in range(3):
            Written(journal, f"run-{n}").start().end(Ended(cost="0.5"))
        before = await journal.figures(a_day())
    postgres.do("DROP TABLE run_counts, audit, web_sessions", database)
    postgres.do("ALTER TABLE runs DROP COLUMN calls", database)
    postgres.do("UPDATE journal SET version = 1", database)
    async with aclosing(
        await PostgresJournal.open(postgres.url(database), upgrade=True)
    ) as journal:
        assert len(STEPS) == 4
        assert await journal.figures(a_day()) == before


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_counting_again_changes_nothing(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
):
    async with opened(kind, tmp_path, request) as journal:
        assert isinstance(journal, SqlJournal)
        for n in range(20):
            status = Status.COMPLETED if n % 3 else Status.FAILED
            Written(journal, f"run-{n}").start(START + n * HOUR).end(Ended(status, cost="0.5"))
        before = rounded(await journal.figures(a_day()))
        await journal.write(count_again)
        assert rounded(await journal.figures(a_day())) == before


async def test_a_failed_job_leaves_no_count(tmp_path: Path):
    async with aclosing(await SqliteJournal.open(tmp_path / "runs.db")) as journal:
        Written(journal, "run-0").start().end()
        path = tmp_path / "run.jsonl"
        await journal.export("run-0", path)
        await journal.remove_runs(["run-0"])
        path.write_text(path.read_text() + "damage\n")
        with pytest.raises(Exception, match="line"):
            await journal.import_(path)
        assert await journal.figures(a_day()) == RunFigures()


# -- quantiles


def test_a_quantile_lies_in_the_bucket_of_its_rank():
    assert quantile_s((), 0.5) is None
    assert quantile_s((0, 0, 4), 0.5) == pytest.approx(0.035)
    assert quantile_s((1,) * 19, 1) == 5000
    took = [0] * 19
    took[bucket_of(0.3)] = 99
    took[bucket_of(30)] = 1
    assert quantile_s(took, 0.5) == pytest.approx(0.2 + 0.3 * 50 / 99)
    assert 0.2 < (quantile_s(took, 0.95) or 0) < 0.5


def test_ages_count_all_items_that_are_older():
    assert count_ages([timedelta(minutes=6), timedelta(days=9)]) == (2, 2, 1, 1, 1)
