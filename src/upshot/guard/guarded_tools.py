"""``guard``: tools for agents of other frameworks, with calls that are stored in a journal."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Protocol, TypeAlias, TypedDict, Unpack, cast
from weakref import WeakKeyDictionary

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.checks import did_you_mean, format_value
from upshot.contract.base.enums import DeniedReason
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.pending import EARLIER, PendingApproval
from upshot.contract.protocols import ArtifactStore, Clock, Journal
from upshot.contract.result import AgentResult
from upshot.contract.settings import Budget, Policy
from upshot.contract.tool_calls import ToolCall, ToolDenied, ToolRecord, ToolSpec
from upshot.entry.resume import read_past
from upshot.entry.run_lease import sessions_of
from upshot.entry.session_setup import KnownRun, begin, continue_run, has_log
from upshot.errors import JournalError, Misuse
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import open_journal
from upshot.journal.watching import of_run, watch
from upshot.runs.engine_api.exceptions import Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.plan import ResumeOptions, RunOptions, ToolItem, Where, check_options
from upshot.runs.release import release
from upshot.runs.resumption import read_arguments
from upshot.runs.run_context import current_run
from upshot.runs.session import Session
from upshot.state.board import Board
from upshot.tools.catalog import catalog_of, resolve_tools
from upshot.tools.definition.tool import Tool
from upshot.tools.export import (
    Conversation,
    Counter,
    Decision,
    ForeignCall,
    Handed,
    brings_taint,
    mark_if_cut,
    to_langchain,
    to_pydantic_ai,
)
from upshot.tools.gates.approval_gate import Approver, PreToolHook
from upshot.tools.gates.standard_gates import GateChoice
from upshot.tools.toolbox import Toolbox

_Name = str | Callable[[Any], str]


class GuardOptions(TypedDict, total=False):
    """Further options of ``guard``, the same as for ``upshot.run``.

    Attributes:
        approve: Asked before a tool that needs approval; True, False, or None to park.
        artifact_store: Where large outputs are stored; by default next to the journal.
        attributes: Free JSON from the caller, stored with each run.
        budget: Limits of a run, such as ``max_calls_per_tool``.
        clock: Time, for tests.
        dependencies: One object for tools, ``ToolContext.dependencies``.
        gates: Your own gates, asked before a person is.
        observers: Notified of each run.
        on_pre_tool_use: Asked about each call with valid arguments.
        policy: Rules about tools.
        secrets: Texts that are masked in the log and in the output of tools.
    """

    approve: Approver | None
    artifact_store: ArtifactStore | None
    attributes: Mapping[str, Any] | None
    budget: Budget | None
    clock: Clock | None
    dependencies: object
    gates: GateChoice | None
    observers: Iterable[object]
    on_pre_tool_use: PreToolHook | None
    policy: Policy | None
    secrets: Iterable[str]


def guard(
    tools: Iterable[ToolItem],
    *,
    journal: Where,
    run_id: _Name = "",
    agent: str = "guard",
    **options: Unpack[GuardOptions],
) -> Guard:
    """Store the calls of another framework's agent in a journal.

    ::

        tools = guard([refund], journal="desk.db")
        agent = pydantic_ai.Agent(model, tools=tools.for_pydantic_ai())

    Args:
        tools: Tools, functions or tool sets, such as those of a connected MCP server.
        journal: Where the calls are stored: a path, the URL of a database, or an open journal; then
            all calls have to be made in its event loop.
        run_id: The run that the calls belong to: one piece of work, or one conversation, whichever
            process works on it. A function gets the framework's own context, pydantic-ai's
            ``RunContext`` or LangGraph's config. By default it is pydantic-ai's
            ``conversation_id`` or LangGraph's ``thread_id``.
        agent: The agent's name in the journal.
        options: Any of approve, artifact_store, attributes, budget, clock, dependencies, gates,
            observers, on_pre_tool_use, policy, secrets; see ``GuardOptions``.

    Returns:
        A ``Guard``, which provides the tools in the form of each framework.

    Raises:
        Misuse: A tool or an option cannot be used, or the journal does not outlive the process.
    """
    known = GuardOptions.__optional_keys__
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known, f"there are {', '.join(sorted(known))}")
            raise Misuse(f"guard has no option {name!r}: {hint}")
    check_options(options)
    if journal in (None, "memory:"):
        raise Misuse(
            f"guard was given the journal {format_value(journal)}, which does not outlive the "
            "process: give a path, the URL of a database, or an open journal"
        )
    if not isinstance(agent, str) or not agent:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"agent is {format_value(agent)}: give its name in the journal, a string")
    if not (isinstance(run_id, str) or callable(run_id)):
        raise Misuse(
            f"run_id is {format_value(run_id)}: give the id of a run, or a function that returns it"
        )
    resolved = resolve_tools(tools)
    return Guard(Setup(resolved, journal, agent, cast("ResumeOptions", options)), run_id)


class Guard:
    """Tools whose calls are stored in a journal; created by ``guard``.

    It may be used by any number of conversations, threads and event loops at the same time.

    Attributes:
        is_durable: Whether its calls outlive this process; always True.
    """

    is_durable: bool = True

    def __init__(self, setup: Setup, run_id: _Name) -> None:
        self._setup = setup
        self._run_id = run_id
        self._catalog = catalog_of(setup.tools)
        # A session belongs to the event loop of its calls.
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, GuardedRun]] = (
            WeakKeyDictionary()
        )
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Guard({list(self._catalog.names)}, journal={self._setup.journal!r:.60})"

    def for_pydantic_ai(self) -> list[Any]:
        """Return the tools as Pydantic AI's own, for ``Agent(tools=...)``.

        A call that needs approval is a deferred one: include ``DeferredToolRequests`` in the
        agent's output types, and pass its ``DeferredToolResults`` to the next run. The outcome is
        the metadata of the tool's return value, as JSON.

        Raises:
            Misuse: The package is not installed.
        """
        return to_pydantic_ai(self)

    def for_langchain(self) -> list[Any]:
        """Return the tools as LangChain's own, for its agents and for any graph of LangGraph.

        A call that needs approval is an ``interrupt``: resume the graph with
        ``Command(resume=True)``, False, ``{"approved": False, "reason": "..."}``, or with
        ``"inbox"`` if the answer is in the journal; or with a dict of these by call id if several
        calls of one step may wait. The outcome is the artifact of the message, as JSON.

        Raises:
            Misuse: The package is not installed.
        """
        return to_langchain(self)

    def schemas(self) -> Sequence[ToolSpec]:
        """Return the specs of the offered tools."""
        return self._catalog.specs

    def find(self, name: str) -> Tool | None:
        """Return the tool called *name*, None if there is none."""
        return self._catalog.tools.get(name)

    async def make(self, asked: ForeignCall) -> Handed:
        """Make a framework's call, or find its outcome.

        Args:
            asked: The call, as the framework makes it.

        Returns:
            Its outcome, which is on disk; or the question to a person.

        Raises:
            Misuse: Neither the framework nor *run_id* says which run it belongs to.
            JournalError: The journal cannot be read or written.
        """
        conversation = asked.conversation()
        run_id = self._run_id(asked.context) if callable(self._run_id) else self._run_id
        run_id = run_id or conversation.id
        if not run_id or not isinstance(run_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # functions may be untyped
            raise Misuse(
                "the framework does not say which conversation a call belongs to: give "
                "guard(..., run_id=), a conversation_id to pydantic-ai or a thread_id to LangGraph"
            )
        loop = asyncio.get_running_loop()
        with self._lock:
            runs = self._runs.setdefault(loop, {})
        run = runs.setdefault(run_id, GuardedRun(self._setup, run_id))
        try:
            return await run.make(asked, conversation)
        finally:
            if run.is_idle and runs.get(run_id) is run:
                del runs[run_id]


_PREFIX = "call "


Replies: TypeAlias = tuple[tuple[ToolCall, ...], ...] | None


class Entry(msgspec.Struct):
    """A call of the run, stored in a variable of its board before its tool starts.

    Attributes:
        id: Its id in the log, unique in the run.
        tool: The tool.
        asks: Digests of the tool and the requested arguments; a second one if a person has changed
            the arguments.
        ids: The framework's ids of the call.
        turn: How many user messages came before it was first requested.
        reply: The number of the model's reply that first requested it, 0 if unknown.
    """

    id: str
    tool: str
    asks: list[str]
    ids: list[str]
    turn: int = 0
    reply: int = 0


class Variables(Protocol):
    """What is needed of a board."""

    def variables(self) -> JsonObject:
        """Return all variables, by name."""
        ...

    def set(self, name: str, value: Json) -> None:
        """Set a variable."""
        ...


class CallLedger:
    """The calls of a run, in the order in which they were first requested.

    Args:
        board: The board of the run.
    """

    def __init__(self, board: Variables) -> None:
        self._board = board
        found = [
            (int(name.removeprefix(_PREFIX)), msgspec.convert(value, Entry))
            for name, value in board.variables().items()
            if name.startswith(_PREFIX)
        ]
        self._entries: list[Entry] = [entry for _, entry in sorted(found, key=lambda one: one[0])]

    def find(self, call: ToolCall, conversation: Conversation, *, writes: bool) -> Entry | None:
        """Return the entry of a call that was requested before, None for a new one.

        Args:
            call: The call, as the framework makes it now.
            conversation: The framework's part of the conversation.
            writes: Whether its tool may write. A read under another id is run again.
        """
        asked, replies = digest_of(call), conversation.replies
        same = self._entries_of(call)
        if same:
            return _in_last_reply(replies, call, same)
        if not writes or replies is None:
            return None
        known = {one.id for reply in replies for one in reply}
        if call.id not in known:
            return None
        # The framework continued from a point before a call, so its model requested the call again:
        # the messages have a new id instead of the old one.
        lost = (one for one in self._entries if asked in one.asks and known.isdisjoint(one.ids))
        return next(lost, None)

    def find_waiting(self, call: ToolCall, waiting: Iterable[str]) -> Entry | None:
        """Return the entry of a waiting call with this id and tool, whatever its arguments."""
        ids = set(waiting)
        named = (one for one in self._entries if call.id in one.ids and one.tool == call.name)
        return next((one for one in named if one.id in ids), None)

    def enter(self, call: ToolCall, conversation: Conversation) -> Entry:
        """Create the entry of a new call."""
        taken = {one.id for one in self._entries}
        id, number = call.id, 1
        while id in taken:
            number += 1
            id = f"{call.id}~{number}"
        reply = self._reply_number(conversation.replies)
        entry = Entry(id, call.name, [digest_of(call)], [call.id], conversation.turn, reply)
        self._entries.append(entry)
        self._write(entry)
        return entry

    def note(self, entry: Entry, call: ToolCall) -> None:
        """Record the id and the arguments that a call is requested with now."""
        asked = digest_of(call)
        if call.id in entry.ids and asked in entry.asks:
            return
        entry.ids = list(dict.fromkeys((*entry.ids, call.id)))
        entry.asks = list(dict.fromkeys((*entry.asks, asked)))
        self._write(entry)

    def turns(self) -> dict[str, int]:
        """Return the turn of each call, by its id in the log."""
        return {one.id: one.turn for one in self._entries}

    def _entries_of(self, call: ToolCall) -> list[Entry]:
        """Return the entries of calls with this id, tool and arguments."""
        asked = digest_of(call)
        return [one for one in self._entries if call.id in one.ids and asked in one.asks]

    def _reply_number(self, replies: Replies) -> int:
        """Return the number of the last reply, known from its other calls, or a new one."""
        for call in replies[-1] if replies else ():
            known = _in_last_reply(replies, call, self._entries_of(call))
            if known is not None:
                return known.reply
        # Logs of earlier versions number only turns.
        return 1 + max((one.reply or one.turn for one in self._entries), default=0)

    def _write(self, entry: Entry) -> None:
        self._board.set(
            f"{_PREFIX}{self._entries.index(entry) + 1}",
            cast("Json", msgspec.to_builtins(entry)),
        )


def digest_of(call: ToolCall) -> str:
    """Return a digest of a call's tool and arguments, independent of the arguments' order."""
    facts = [call.name, read_arguments(call.arguments)]
    return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()


def _in_last_reply(replies: Replies, call: ToolCall, same: Sequence[Entry]) -> Entry | None:
    """Return the entry of a call of the last reply, among the entries of equal calls."""
    # Some models use one id again and again; calls in earlier replies are not this one.
    asked, earlier = digest_of(call), (replies or ())[:-1]
    before = sum(
        one.id == call.id and digest_of(one) == asked for reply in earlier for one in reply
    )
    return same[before] if before < len(same) else None


# There is no notification when the holder of a run dies, so poll this often.
_LOOK_S = 0.1
_IDLE = "no call is under way: the agent that makes them works outside"


@dataclass(frozen=True, slots=True)
class Setup:
    """What all runs of a guard share.

    Attributes:
        tools: The tools.
        journal: Where the logs are stored.
        name: The agent's name in them.
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
    result: asyncio.Future[Handed]
    handed: Handed | None = None
    error: BaseException | None = None
    work: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call has no outcome yet, and the framework still waits for it."""
        return self.handed is None and self.error is None and not self.result.done()

    def deliver(self) -> None:
        """Give the outcome to the framework."""
        if self.result.done():
            return
        if self.error is not None:
            self.result.set_exception(self.error)
        elif self.handed is not None:
            self.result.set_result(self.handed)


class GuardedRun:
    """Makes the calls of one run that come from one event loop.

    Calls that arrive during a session are made in it. Their outcomes are handed over after it has
    ended: then they are on disk, and another process can claim the run.

    Args:
        setup: The setup of the guard.
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
        """Whether no session is in progress."""
        return self._sessions is None

    async def make(self, asked: ForeignCall, conversation: Conversation) -> Handed:
        """Make a call, or find its outcome; see ``Guard.make``."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(asked, conversation, loop.create_future())
        self._queue.append(waiting)
        self._came.set()
        if self._sessions is None:
            self._sessions = loop.create_task(self._run_sessions())
        try:
            return await waiting.result
        except asyncio.CancelledError:
            if waiting.work is not None:
                waiting.work.cancel()
            raise

    async def _run_sessions(self) -> None:
        """Run sessions until no calls are left."""
        try:
            while self._queue:
                await self._run_session()
        finally:
            self._sessions = None

    async def _run_session(self) -> None:
        engine = _Outside(self._queue, self._came)
        try:
            async with open_journal(self._setup.journal) as journal:
                await self._run_engine(engine, journal)
        except Exception as error:
            engine.taken += self._queue
            self._queue.clear()
            for waiting in engine.taken:
                waiting.handed, waiting.error = None, waiting.error or error
        for waiting in engine.taken:
            if waiting.is_open:
                # It was interrupted: the next session looks for its outcome in the log.
                self._queue.append(waiting)
            waiting.deliver()

    async def _run_engine(self, engine: _Outside, journal: Journal) -> None:
        """Run one session with *engine*, once no other session has the run."""
        agent = Agent[Any](self._setup.name, tools=self._setup.tools, engine=engine)
        with watch(journal, of_run(self._run_id)) as changes:
            while not engine.has_begun:
                try:
                    ended = await self._start_or_continue(agent, engine, journal)
                except KnownRun:
                    continue
                except RunHeld:
                    await changes.changed(_LOOK_S)
                    continue
                if ended is not None:
                    await self._answer_from_log(ended, engine, journal)
                    return

    async def _start_or_continue(
        self, agent: Agent[Any], engine: _Outside, journal: Journal
    ) -> AgentResult[Any] | None:
        """Start or continue the run; returns its result if it had already ended.

        Raises:
            RunHeld: Another session has the run.
            KnownRun: Another session has started it since.
            JournalError: The log cannot be read, or cannot be written to its end.
        """
        options = self._setup.options
        if await has_log(self._run_id, journal):
            going = continue_run(self._run_id, agent, journal, (), {**options})
        else:
            request_text = self._queue[0].conversation.user_text or f"Calls of {self._setup.name}."
            request = Request(request_text, run_id=self._run_id)
            new = cast("RunOptions", {**options, "journal": journal})
            going = begin(agent, request, new)
        async with going as live:
            if isinstance(live, AgentResult):
                return live
            session = engine.session = sessions_of(journal).get(self._run_id)
            # If another session of this loop has the run, this waits for its end.
            result = await live.finish()
        if session is None or session.plan.engine is not engine:
            return None
        if session.context.recorder.is_lost or not engine.has_begun:
            # The outcomes are not on disk, or nothing could run: nothing is handed over.
            why = "" if result.error is None else f": {result.error.message}"
            raise JournalError(f"run {self._run_id} cannot continue{why}")
        return None

    async def _answer_from_log(
        self, ended: AgentResult[Any], engine: _Outside, journal: Journal
    ) -> None:
        """Hand over the outcomes in the log of a run that has ended and makes no further calls."""
        past = await read_past(self._run_id, journal)
        ledger, records = CallLedger(past.board), _by_id(past.records)
        # Only for the text that a model reads; it makes no calls.
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
    """The engine of one session: makes the calls that arrive, until none is in progress.

    Args:
        queue: Calls that are not claimed yet.
        came: Set when a call arrives.

    Attributes:
        has_begun: Whether the engine was called.
        taken: The calls that it claimed.
        session: The session of the engine; None until it is known.
    """

    # It finds its position in the log, so it does not need can_resume.
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
            Parked: No call is in progress any more.
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
                    if waiting.result.done():
                        # It was abandoned before it started.
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
                # The loop is closing: the run is not over, so that another process continues it.
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
        """Return the open questions to people, including those of earlier sessions."""
        settled = {record.call_id for record in self._tools.records}
        asked = {**self._run.asked, **{one.call_id: one for one in self._tools.pending}}
        return tuple(one for id, one in asked.items() if id not in settled)

    async def make(self, waiting: _Waiting) -> None:
        """Make a call, or find its outcome."""
        try:
            waiting.handed = await self._make(waiting.asked, waiting.conversation)
        except Exception as error:
            waiting.error = error

    async def _make(self, asked: ForeignCall, conversation: Conversation) -> Handed:
        link = current_run.get()
        if link is not None and await brings_taint(asked, self._tools):
            link.context.distrust(EARLIER)
        call, tool = asked.call, self._tools.find(asked.call.name)
        writes = tool is None or tool.may_write
        entry = self._ledger.find(call, conversation, writes=writes)
        edited = False
        if entry is None and asked.decision is not None:
            # With an approval come the arguments that the person wants.
            entry = self._ledger.find_waiting(call, (one.call_id for one in self.open()))
            edited = entry is not None
        if entry is None:
            entry = self._ledger.enter(call, conversation)
        self._ledger.note(entry, call)
        while entry.id in self._under_way:
            # However that ends, even by cancellation.
            await asyncio.wait({self._under_way[entry.id]})
        record = _by_id(self._tools.records).get(entry.id)
        if record is not None:
            return Handed(record.outcome, self._tools.content_of(record.outcome))
        call = msgspec.structs.replace(mark_if_cut(call, conversation), id=entry.id)
        return await self._serve(entry, call, asked.decision, edited=edited)

    async def _serve(
        self, entry: Entry, call: ToolCall, decision: Decision | None, *, edited: bool
    ) -> Handed:
        self._enter_turn(entry.turn)
        work = self._counter.serve(call, decision, edited=edited, turn=entry.reply)
        made = self._under_way[entry.id] = asyncio.ensure_future(work)
        try:
            return await made
        finally:
            del self._under_way[entry.id]

    def _enter_turn(self, turn: int) -> None:
        """Count as repetitions only calls since the same user message."""
        if self._turn == turn:
            return
        earlier, turns = tuple(self._tools.records), self._ledger.turns()
        same = [record for record in earlier if turns.get(record.call_id) == turn]
        if self._turn is not None or len(same) < len(earlier):
            self._tools.new_turn()
            self._tools.restore(same)
        self._turn = turn


def _by_id(records: Sequence[ToolRecord]) -> dict[str, ToolRecord]:
    return {record.call_id: record for record in records}
