"""Makes the calls of a run whose engine is outside: an agent of another framework."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import DeniedReason
from upshot.contract.model_calls import Request
from upshot.contract.pending import PendingApproval
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolDenied, ToolRecord
from upshot.entry.resume import read_past
from upshot.entry.run_lease import sessions_of
from upshot.entry.session_setup import KnownRun, begin, go_on, has_log, run_child
from upshot.errors import JournalError
from upshot.guard.call_ledger import CallLedger, Entry
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import open_journal
from upshot.journal.watching import of_run, watch
from upshot.runs.engine_api.exceptions import Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.plan import ResumeOptions, RunOptions, Where
from upshot.runs.release import release
from upshot.runs.session import Session
from upshot.state.board import Board
from upshot.tools.definition.tool import Tool
from upshot.tools.export import Conversation, Counter, ForeignCall, Handed
from upshot.tools.toolbox import Toolbox

# That a holder has died is told by nobody, so it is looked at this often.
_LOOK_S = 0.1
_IDLE = "no call is under way: the agent that makes them works outside"


@dataclass(frozen=True, slots=True)
class Setup:
    """What all runs of a guard have.

    Attributes:
        tools: The tools.
        journal: Where the logs are.
        name: What the agent is called in them.
        options: Further options of its runs.
    """

    tools: tuple[Tool, ...]
    journal: Where
    name: str
    options: ResumeOptions


@dataclass(eq=False, slots=True)
class _Waiting:
    """A call that a framework waits for."""

    asked: ForeignCall
    conversation: Conversation
    told: asyncio.Future[Handed]
    handed: Handed | None = None
    error: BaseException | None = None
    work: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing came of it, and somebody waits for that."""
        return self.handed is None and self.error is None and not self.told.done()

    def tell(self) -> None:
        """Hand over what came of it."""
        if self.told.done():
            return
        if self.error is not None:
            self.told.set_exception(self.error)
        elif self.handed is not None:
            self.told.set_result(self.handed)


class GuardedRun:
    """Makes calls of one run that come from one event loop.

    Calls that come while a session is under way are made in it. Their outcomes are handed over
    when it has ended: then they are on disk, and another process may have the run.

    Args:
        setup: Of the guard.
        run_id: The run.
    """

    def __init__(self, setup: Setup, run_id: str) -> None:
        self._setup = setup
        self._run_id = run_id
        self._queue: deque[_Waiting] = deque()
        self._came = asyncio.Event()
        self._sessions: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no session is under way."""
        return self._sessions is None

    async def make(self, asked: ForeignCall, conversation: Conversation) -> Handed:
        """Make a call, or find what came of it; see ``Desk.make``."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(asked, conversation, loop.create_future())
        self._queue.append(waiting)
        self._came.set()
        if self._sessions is None:
            self._sessions = loop.create_task(self._work_off())
        try:
            return await waiting.told
        except asyncio.CancelledError:
            if waiting.work is not None:
                waiting.work.cancel()
            raise

    async def _work_off(self) -> None:
        """Have sessions until no call is left."""
        try:
            while self._queue:
                await self._have_session()
        finally:
            self._sessions = None

    async def _have_session(self) -> None:
        engine = _Outside(self._queue, self._came)
        try:
            async with open_journal(self._setup.journal) as journal:
                await self._live(engine, journal)
        except Exception as error:
            engine.taken += self._queue
            self._queue.clear()
            for waiting in engine.taken:
                waiting.handed, waiting.error = None, waiting.error or error
        for waiting in engine.taken:
            if waiting.is_open:
                # It was cut off: the next session looks in the log what came of it.
                self._queue.append(waiting)
            waiting.tell()

    async def _live(self, engine: _Outside, journal: Journal) -> None:
        """Live one session with *engine*, once no other has the run."""
        agent = Agent[Any](self._setup.name, tools=self._setup.tools, engine=engine)
        with watch(journal, of_run(self._run_id)) as changes:
            while not engine.has_begun:
                try:
                    ended = await self._try(agent, engine, journal)
                except KnownRun:
                    continue
                except RunHeld:
                    await changes.changed(_LOOK_S)
                    continue
                if ended is not None:
                    await self._recall(ended, engine, journal)
                    return

    async def _try(
        self, agent: Agent[Any], engine: _Outside, journal: Journal
    ) -> AgentResult[Any] | None:
        """Begin the run or go on with it; gives its result where it had ended before.

        Raises:
            RunHeld: Another session has it.
            KnownRun: Another one has begun it meanwhile.
            JournalError: The log cannot be read, or not be written to its end.
        """
        options = self._setup.options
        if await has_log(self._run_id, journal):
            going = go_on(
                self._run_id, agent, journal, (), {**options}, watch=False, child=run_child
            )
        else:
            said = self._queue[0].conversation.said or f"Calls of {self._setup.name}."
            request = Request(said, run_id=self._run_id)
            new = cast("RunOptions", {**options, "journal": journal})
            going = begin(agent, request, new, watch=False, child=run_child)
        async with going as live:
            if isinstance(live, AgentResult):
                return live
            session = engine.session = sessions_of(journal).get(self._run_id)
            # Where another session of this loop has the run, this waits for the end of that.
            result = await live.finish()
        if session is None or session.plan.engine is not engine:
            return None
        if session.context.recorder.is_lost or not engine.has_begun:
            # What was done is not on disk, or nothing could be: nothing is handed over.
            why = "" if result.error is None else f": {result.error.message}"
            raise JournalError(f"run {self._run_id} cannot go on{why}")
        return None

    async def _recall(self, ended: AgentResult[Any], engine: _Outside, journal: Journal) -> None:
        """Hand back what the log of a run has that makes no calls any more."""
        past = await read_past(self._run_id, journal)
        ledger, records = CallLedger(past.board), _by_id(past.records)
        # For what a model reads of them; it makes no call.
        tools = Toolbox(self._setup.tools, identity=RunInfo(run_id=self._run_id))
        tools.restore(past.records)
        while self._queue:
            waiting = self._queue.popleft()
            engine.taken.append(waiting)
            call = waiting.asked.call
            entry = ledger.find(call, waiting.conversation, writes=True)
            if entry is not None and entry.id in records:
                outcome = records[entry.id].outcome
            else:
                outcome = ToolDenied(
                    call_id=call.id,
                    tool_name=call.name,
                    reason=DeniedReason.CANCELLED,
                    details=f"run {self._run_id} has ended: it is {ended.status}",
                )
            waiting.handed = Handed(outcome, tools.content_of(outcome))


class _Outside:
    """The engine of one session: makes the calls that come, until none is under way.

    Args:
        queue: Calls that nobody has taken.
        came: Is set when one comes.

    Attributes:
        has_begun: Whether it was called.
        taken: The calls that it took.
        session: What it is the engine of; None before it is known.
    """

    # It finds its place by the log, so that it is not asked whether it can go on.
    goes_on_by_log: ClassVar[bool] = True

    def __init__(self, queue: deque[_Waiting], came: asyncio.Event) -> None:
        self._queue = queue
        self._came = came
        self.has_begun: bool = False
        self.taken: list[_Waiting] = []
        self.session: Session | None = None

    async def execute(self, run: Run, host: RunHost, board: Board) -> None:
        """Make calls, then park the run.

        Raises:
            Parked: No call is under way any more.
        """
        self.has_begun = True
        run.hand_back(board)
        calls = _Calls(run, board)
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._came.clear()
                while self._queue:
                    waiting = self._queue.popleft()
                    if waiting.told.done():
                        # It was given up before it began.
                        continue
                    self.taken.append(waiting)
                    work = waiting.work = asyncio.create_task(calls.make(waiting))
                    under_way.add(work)
                    work.add_done_callback(lambda _: self._came.set())
                under_way = {work for work in under_way if not work.done()}
                if not under_way:
                    break
                await self._came.wait()
        except asyncio.CancelledError:
            if self.session is not None and self.session.context.supervisor.stop in ("", "caller"):
                # The loop closes: the run is not over, so that another process goes on with it.
                release(self.session, "drain")
            for work in under_way:
                work.cancel()
            if under_way:
                await asyncio.wait(under_way)
            raise
        raise Parked(*calls.open(), *(() if calls.open() else (_IDLE,)))


class _Calls:
    """The calls of one session."""

    def __init__(self, run: Run, board: Board) -> None:
        self._run = run
        self._tools: Toolbox = run.tools
        self._ledger = CallLedger(board)
        self._counter = Counter(self._tools)
        self._under_way: dict[str, asyncio.Future[Handed]] = {}
        self._turn: int | None = None

    def open(self) -> tuple[PendingApproval, ...]:
        """What people are asked, in earlier sessions too."""
        settled = {record.call_id for record in self._tools.records}
        asked = {**self._run.asked, **{one.call_id: one for one in self._tools.pending}}
        return tuple(one for id, one in asked.items() if id not in settled)

    async def make(self, waiting: _Waiting) -> None:
        """Make a call, or find what came of it."""
        try:
            waiting.handed = await self._make(waiting.asked, waiting.conversation)
        except Exception as error:
            waiting.error = error

    async def _make(self, asked: ForeignCall, conversation: Conversation) -> Handed:
        call, tool = asked.call, self._tools.find(asked.call.name)
        writes = tool is None or tool.may_write
        entry = self._ledger.find(call, conversation, writes=writes)
        edited = False
        if entry is None and asked.decision is not None:
            # With a yes come the arguments that the person wants.
            entry = self._ledger.find_waiting(call, (one.call_id for one in self.open()))
            edited = entry is not None
        if entry is None:
            entry = self._ledger.enter(call, conversation.turn)
        self._ledger.note(entry, call)
        while entry.id in self._under_way:
            # However that ends, by a cancel too.
            await asyncio.wait({self._under_way[entry.id]})
        record = _by_id(self._tools.records).get(entry.id)
        if record is not None:
            return Handed(record.outcome, self._tools.content_of(record.outcome))
        return await self._serve(entry, asked, edited=edited)

    async def _serve(self, entry: Entry, asked: ForeignCall, *, edited: bool) -> Handed:
        self._enter_turn(entry.turn)
        call = msgspec.structs.replace(asked.call, id=entry.id)
        work = self._counter.serve(call, asked.decision, edited=edited, turn=entry.turn)
        made = self._under_way[entry.id] = asyncio.ensure_future(work)
        try:
            return await made
        finally:
            del self._under_way[entry.id]

    def _enter_turn(self, turn: int) -> None:
        """Have only calls since the same words of the user count as repetitions."""
        if self._turn == turn:
            return
        earlier = tuple(self._tools.records)
        if self._turn is not None or any(record.turn != turn for record in earlier):
            self._tools.new_turn()
            self._tools.restore([record for record in earlier if record.turn == turn])
        self._turn = turn


def _by_id(records: Sequence[ToolRecord]) -> dict[str, ToolRecord]:
    return {record.call_id: record for record in records}
