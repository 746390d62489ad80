"""The protocols between the layers: model, tool, board, run, host, engine, journal and the rest.

Any layer may depend on a protocol, but none on the layer that implements it. ``Observer`` and
``Decider`` are base classes, because all their methods are optional.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Never, Protocol, TypeAlias, TypedDict, Unpack, cast

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.structs import Json, JsonObject, Moment, Value
from upshot.contract.events import Event
from upshot.contract.message import MAIN_CHANNEL, File, Message
from upshot.contract.model_calls import (
    ModelInput,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    PartDelta,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.result import AgentResult
from upshot.contract.run_control import BoardSnapshot, Checkpoint, FinalizeDecision, Interrupt
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import ToolCall, ToolOutcome, ToolSpec
from upshot.contract.usage import Cost, Usage

StreamItem: TypeAlias = (
    TextDelta | ReasoningDelta | ToolCallDelta | PartDelta | Usage | ModelRetried | ModelResponse
)
"""An item of a model's stream.

A ``Usage`` is the provider's count of what the call has used so far. A ``ModelRetried`` means that
a model failed and the next one is called: the deltas before it are void, and its reply is counted
separately.
"""
AnyResult: TypeAlias = AgentResult[Json]


class Clock(Protocol):
    """A source of time, so that tests can pass their own."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        ...

    def sleep(self, delay_s: float) -> Awaitable[None]:
        """Wait *delay_s* seconds."""
        ...


class Model(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """ "provider:name", for logs and prices."""
        ...

    async def call(self, request: ModelInput) -> ModelResponse:
        """Call the model once.

        Returns:
            The reply. Never raises for a provider's failure; cancellation from the caller's own
            scope passes through.
        """
        ...

    def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Call the model once and yield deltas; the last item is the whole ModelResponse.

        Each time the provider reports what the call has used so far, a ``Usage`` is yielded, so
        that a run that stops reading early can still count it.
        """
        ...


class Tool(Protocol):
    """A tool that a model can call."""

    @property
    def name(self) -> str:
        """The name that the model calls it by."""
        ...

    @property
    def description(self) -> str:
        """What the tool does, for the model."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of the arguments."""
        ...


class Board(Protocol):
    """Named message channels and variables that an engine works on."""

    def append(self, message: Message, channel: str = MAIN_CHANNEL) -> None:
        """Append a message to a channel."""
        ...

    def messages(self, channel: str = MAIN_CHANNEL) -> Sequence[Message]:
        """Return the current messages of a channel, in order."""
        ...

    def get(self, name: str, default: Json = None) -> Json:
        """Return the value of the variable *name*, or *default*."""
        ...

    def set(self, name: str, value: Json) -> None:
        """Set the variable *name*."""
        ...

    def snapshot(self) -> BoardSnapshot:
        """Return a snapshot of the current board."""
        ...


class ToolRunner(Protocol):
    """The tools of a run; runs the tool calls of a reply."""

    def schemas(self) -> Sequence[ToolSpec]:
        """Return the tools to offer to the model, in order."""
        ...

    async def dispatch(self, calls: Sequence[ToolCall], *, turn: int = 0) -> list[ToolOutcome]:
        """Run *calls* and return the outcome of each settled call, in call order."""
        ...


class Run(Protocol):
    """An engine's read-only view of its run."""

    @property
    def id(self) -> str:
        """The run's id."""
        ...

    @property
    def identity(self) -> RunInfo:
        """Agent, run, task and context; attributes cannot override it."""
        ...

    @property
    def parent_run_id(self) -> str:
        """The run that started this one, "" for a root run."""
        ...

    @property
    def depth(self) -> int:
        """0 for a root run."""
        ...

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        ...

    @property
    def feedback(self) -> str:
        """What the decider wants changed in this attempt, "" for the first."""
        ...

    @property
    def attributes(self) -> Mapping[str, Json]:
        """Free JSON from the caller."""
        ...

    @property
    def dependencies(self) -> object:
        """The caller's object for tools and engines."""
        ...

    @property
    def budget(self) -> Budget:
        """The run's limits."""
        ...

    @property
    def resume_from(self) -> Checkpoint | None:
        """The checkpoint to continue from, None for a fresh start."""
        ...

    @property
    def tools(self) -> ToolRunner:
        """The tools, and the means to call them."""
        ...

    async def call_model(
        self, request: ModelRequest, *, model: Model | None = None
    ) -> ModelResponse:
        """Call a model, with deciders, log, retries and budget applied."""
        ...


class Host(Protocol):
    """What an engine may use around it. A host that the user provides may leave out any method."""

    def publish(self, event: Event) -> Awaitable[None] | None:
        """Publish an event to subscribers; never fails a run."""
        ...

    def interrupts(self) -> Awaitable[Interrupt | None] | Interrupt | None:
        """Return the pending request to stop, falsy if there is none."""
        ...

    def ask_user(self, question: str) -> Awaitable[Json] | Json:
        """Ask the user; returns the answer, or raises ``Parked``."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> Awaitable[None] | None:
        """Save a checkpoint."""
        ...

    def report_usage(self, delta: ModelResponse | Usage) -> Awaitable[None] | None:
        """Report the usage of model calls that an engine made itself.

        A host that the user provides gets the Usage, with its ``cost``, of every model call of the
        run and its child runs.
        """
        ...


class Engine(Protocol):
    """Decides the next step of a run, until there is an answer.

    An engine may also have ``can_resume(checkpoint) -> bool``, sync or async. One without it
    cannot resume from a checkpoint, unless it sets ``reads_checkpoints = True`` and reads
    ``run.resume_from`` itself.
    """

    async def execute(self, run: Never, host: Never, board: Never) -> object:
        """Work until there is an answer.

        Args:
            run: The ``Run``. The parameters are declared Never so that an engine may annotate them
                with the protocols or with upshot's own classes; the objects satisfy both.
            host: The ``Host``.
            board: The ``Board``.

        Returns:
            The board with the answer; None means the given board; any other value becomes the
            output.

        Raises:
            Interrupted: The engine followed a request to stop.
            Aborted: To end the run as aborted.
            Failed: To end the run as failed.
            Parked: To park the run until it is answered.
        """
        ...


class RunSummary(Value, frozen=True, kw_only=True):
    """A summary of one run in a journal.

    Attributes:
        run_id: The run.
        agent_id: The agent of the run.
        status: The status of its last session; "running" until a session has settled; "queued" for
            a run that was submitted and has not started.
        started_at: When it started.
        updated_at: The time of the last event.
        events: How many durable events it has.
        request: The text of the request, 200 characters or fewer.
        parent_run_id: The run that started it, "" for a root run.
        context_id: The conversation that it belongs to, "" if none.
        turn: The first run of its turn of the conversation: the run itself, unless it was handed
            over; "" if it is not a turn.
        is_chained: Whether its request may be handed over to a further run of the turn.
        revision: How many turns of the conversation were committed with it; 0 if it was not.
        usage: The usage of its sessions, child runs included; a session counts once it has ended.
        cost: The cost of that usage; None if nothing had a price.
        effect: The worst effect of its sessions and its child runs: "none", "applied" or "unknown";
            a session counts once it has ended.
        error_code: Why its last session did not complete, "" if it did.
        owner: Its user: ``user`` of the run's attributes, "" if they have none.
        tenant: ``tenant`` of the attributes.
        answer: The start of its answer, 200 characters or fewer; "" while it waits.
        took_s: Seconds in which its sessions worked, without the time between them; a session
            counts once it has ended.
        tools: The tools that it called or waits to call, 20 or fewer; a session counts once it has
            ended.
    """

    run_id: str = ""
    agent_id: str = ""
    status: str = "running"
    started_at: Moment | None = None
    updated_at: Moment | None = None
    events: int = 0
    request: str = ""
    parent_run_id: str = ""
    context_id: str = ""
    turn: str = ""
    is_chained: bool = False
    revision: int = 0
    usage: Usage = Usage()
    cost: Cost | None = None
    effect: Effect = Effect.NONE
    error_code: str = ""
    owner: str = ""
    tenant: str = ""
    answer: str = ""
    took_s: float = 0.0
    tools: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the run has ended, so that there is nothing to resume."""
        return self.status not in ("running", "queued", Status.INPUT_REQUIRED)


class DayCost(Value, frozen=True, kw_only=True):
    """The cost of the runs of one day.

    Attributes:
        day: The day in UTC on which they started, such as "2027-01-31".
        costs: The cost, one sum for each currency; empty if no run of the day had a price.
        runs: The number of runs, without child runs: their cost is included in their parent's.
    """

    day: str = ""
    costs: dict[str, Decimal] = {}
    runs: int = 0


class RunCounts(Value, frozen=True, kw_only=True):
    """How many runs a journal has.

    Attributes:
        statuses: The number of runs by status, without zeros.
        errors: The number of failed runs by error code.
        cost_by_day: The cost by the day on which the runs started, newest first.
    """

    statuses: dict[str, int] = {}
    errors: dict[str, int] = {}
    cost_by_day: tuple[DayCost, ...] = ()


class Note(Value, frozen=True, kw_only=True):
    """A note that a user attached to a run, such as a thumb or a label.

    Attributes:
        run_id: The run.
        name: The name of the note.
        value: The content of the note, as JSON.
        by: Who wrote it.
        at: When it was written.
    """

    run_id: str = ""
    name: str = ""
    value: Json = None
    by: str = ""
    at: Moment | None = None


class RunFilters(TypedDict, total=False):
    """Which runs of a journal to list; a filter that is not given matches every run.

    Attributes:
        limit: The maximum number of runs, from 1; None returns all.
        before: Only runs that come after this one in the list: the last run of the previous page.
        context_id: Only runs of this conversation.
        parent_run_id: Only child runs of this run; "" gives root runs.
        run_id: Only this run.
        prefix: Only runs whose id starts with this.
        agent_id: Only runs of this agent.
        effect: Only runs with this worst effect: "none", "applied" or "unknown".
        error_code: Only runs that failed with this code.
        owner: Only runs of this user: ``user`` of their attributes. With *tenant*, it is a user of
            that tenant, otherwise a user without a tenant.
        tenant: Only runs of this ``tenant`` of their attributes.
        tool: Only runs that called this tool, or wait to.
        model: Only runs whose last session has ended and that called this model, "provider:name".
        text: Only runs whose listed request or answer contains this text, in any case.
        since: Only runs that started, or were submitted, at this moment or later; timezone-aware.
        until: Only runs that started, or were submitted, before this moment.
        currency: Only runs that cost money in this currency, such as "EUR".
        sort: Sort by the largest first instead of the newest first, and omit runs without a value:
            "cost" (one currency after the other), "tokens", "took" (from a tenth of a second), or
            "effect", where unknown is the largest.
    """

    limit: int | None
    before: str
    context_id: str
    parent_run_id: str | None
    run_id: str
    prefix: str
    agent_id: str
    effect: str
    error_code: str
    owner: str
    tenant: str
    tool: str
    model: str
    text: str
    since: datetime | None
    until: datetime | None
    currency: str
    sort: str


class Journal(Protocol):
    """The log: the durable events of runs.

    A journal whose events are safe as soon as ``append`` returns may set
    ``is_safe_at_append = True``; then upshot does not wait in ``durable``. The default is False.
    """

    async def claim(self, run_id: str) -> int:
        """Claim a run; returns the new epoch. From now on, appends with an older one fail."""
        ...

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Append a durable event; returns at once.

        Args:
            event: Its seq is the next of its run, from 1.
            epoch: The epoch that ``claim`` returned; None means the latest.

        Raises:
            JournalError: The epoch is old, or the journal is closed.
            Misuse: The event has a value that could not be decoded again; it is not stored.
        """
        ...

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Wait until every event of the run up to *seq* is safe.

        Args:
            run_id: The run.
            seq: The number of the last event.
            epoch: The epoch that the caller appended it under; None means any.

        Raises:
            JournalError: They could not be written, or another process appended the event *seq*.
        """
        ...

    def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Return the run's durable events with a seq above *after*, in order; 0 gives all.

        Raises:
            JournalError: An event is corrupt, or cannot be read.
        """
        ...

    async def runs(
        self, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """Return the runs, newest first by the time they started.

        Args:
            status: Only runs with this status. A journal that processes share also accepts a phase:
                "queued" (submitted), "running" (worked on, as far as is known), "due" (should be
                resumed), "parked" (waits for answers, or until a moment), "died" (its process did),
                "ended".
            filters: Which of them; see :class:`RunFilters`.

        Raises:
            Misuse: *limit* is not a positive whole number, there is no run *before*, no such effect
                or order, or a moment has no time zone.
        """
        ...

    async def export(self, run_id: str, path: str) -> int:
        """Write a run as JSON lines; returns the number of events."""
        ...

    async def import_(self, path: str) -> str:
        """Read a run from JSON lines; returns its id."""
        ...

    async def aclose(self) -> None:
        """Write what is queued and release all resources."""
        ...


class ArtifactStore(Protocol):
    """Stores outputs that are too large for a message."""

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        """Store *data*.

        Args:
            run_id: The run.
            call_id: The tool call that produced it.
            data: The bytes; text is in UTF-8.
            media_type: Their type, such as "text/plain".

        Returns:
            The reference: id, media_type, size_bytes, sha256, lines.

        Raises:
            OSError: It could not be stored.
        """
        ...

    async def read(
        self,
        id: str,
        *,
        run_id: str,
        offset: int = 0,
        limit: int | None = None,
        pattern: str | None = None,
    ) -> JsonObject:
        """Read a page, or the lines that contain *pattern*.

        Args:
            id: The id in the reference.
            run_id: The run that reads it.
            offset: The first character, from 0.
            limit: The maximum number of characters; None leaves it to the store.
            pattern: Text to search for, as in ``read_page``; None reads the page as it is.

        Returns:
            ``{"text": ..., "next_offset": int | None}``; offsets in characters.

        Raises:
            KeyError: This run has no such artifact.
        """
        ...


class Observer:
    """Notified of what happens in a run; the methods do nothing until you override them.

    Any object with some of these methods is accepted too; each may be sync or async. If one raises,
    the error is logged and listed in the result's warnings, and the next observer still runs.
    *info* is the identity of the run.
    """

    def on_run_start(self, info: RunInfo, request: Request) -> Awaitable[None] | None:
        """A session of the run starts; ``info.resumed`` is True for all but the first."""

    def on_attempt_start(self, info: RunInfo, attempt: int) -> Awaitable[None] | None:
        """An attempt starts; *attempt* is its number, from 1."""

    def on_interrupt(self, info: RunInfo, interrupt: Interrupt) -> Awaitable[None] | None:
        """The run was asked to stop; *interrupt* says why."""

    def on_run_revise(
        self, info: RunInfo, previous: AnyResult, next_attempt: int
    ) -> Awaitable[None] | None:
        """A decider asked for another attempt.

        Args:
            info: The run.
            previous: The result of the attempt that will be revised.
            next_attempt: The number of the attempt that starts now, from 2.
        """

    def on_attempt_end(self, info: RunInfo, result: AnyResult) -> Awaitable[None] | None:
        """An attempt ended; *result* is its result, with the deciders' verdict applied."""

    def on_run_end(self, info: RunInfo, result: AnyResult) -> Awaitable[None] | None:
        """The session ends, or parks the run, with *result*."""


class Decider:
    """Checks requests, rewrites model requests and judges attempts; the methods do nothing until
    overridden.

    Any object with some of these methods is accepted too; each may be sync or async. If one
    raises, the run fails with hook_failed: it is not committed, and the answer is kept.
    """

    def check_request(
        self, info: RunInfo, request: Request
    ) -> Awaitable[FinalizeDecision | None] | FinalizeDecision | None:
        """May refuse the request of a run, beside the first model call.

        Called once a run, and not for its child runs. See ``upshot.input_guardrail``.

        Args:
            info: The run.
            request: Its request.

        Returns:
            ``FinalizeDecision.refuse(reason)``, which fails the run; None accepts the request.
        """

    def before_model(
        self, info: RunInfo, request: ModelRequest
    ) -> Awaitable[ModelRequest | None] | ModelRequest | None:
        """May rewrite a model request.

        Also called for the model calls of child runs, after their own deciders.

        Args:
            info: The run that calls the model.
            request: The request, as earlier deciders changed it.

        Returns:
            The request to send instead, created with ``msgspec.structs.replace``; None keeps it.
        """

    def before_finalize(
        self, info: RunInfo, request: Request, result: AnyResult
    ) -> Awaitable[FinalizeDecision | None] | FinalizeDecision | None:
        """Judge a finished attempt.

        Args:
            info: The run.
            request: The request.
            result: The result of the attempt.

        Returns:
            The decision; None accepts the attempt.
        """


class InstantJournal(Journal, Protocol):
    """A journal that is safe at append and can claim a new run without waiting."""

    def begin(self, run_id: str) -> int:
        """Claim a new run without waiting, in the running event loop; returns the epoch."""
        ...

    def release(self, run_id: str, epoch: int) -> None:
        """Release the run, unless it has been claimed again since."""
        ...


class Lapsing(Protocol):
    """A lease that ends unless it is renewed."""

    @property
    def safe_until(self) -> float:
        """The time until which work may start under it, in seconds since the machine's boot."""
        ...


class LeasingJournal(Journal, Protocol):
    """A journal where a process owns a run as long as it renews its lease.

    Attributes:
        on_lost: Callbacks by run, called when another process has claimed the run.
    """

    on_lost: dict[str, Callable[[], None]]

    @property
    def lease(self) -> Lapsing:
        """The lease of this process on all runs that it has claimed."""
        ...

    async def renew_lease(self, run_id: str) -> None:
        """Renew the lease before something starts in a run that this process has claimed."""
        ...


def as_leasing(journal: Journal) -> LeasingJournal | None:
    """Return *journal* if it has leases, otherwise None."""
    return cast("LeasingJournal", journal) if hasattr(journal, "renew_lease") else None


def as_instant(where: object) -> InstantJournal | None:
    """Return *where* if it is an open InstantJournal, otherwise None."""
    is_open = not isinstance(where, type) and hasattr(where, "begin")
    if is_open and getattr(where, "is_safe_at_append", False) is True:
        return cast("InstantJournal", where)
    return None


def is_safe_at_append(journal: Journal) -> bool:
    """Return whether an event is safe as soon as *journal* has appended it, without a wait."""
    return getattr(journal, "is_safe_at_append", False) is True


def until_safe(journal: Journal, run_id: str, seq: int, *, epoch: int | None) -> Awaitable[None]:
    """Call ``journal.durable``, with the epoch if that method takes one."""
    if epoch is None or not takes_epoch(type(journal)):
        return journal.durable(run_id, seq)
    return journal.durable(run_id, seq, epoch=epoch)


@cache
def takes_epoch(kind: type) -> bool:
    """Return whether ``durable`` of this journal class takes an epoch; a user's journal may not."""
    try:
        parameters = inspect.signature(cast("Any", kind).durable).parameters.values()
    except (AttributeError, TypeError, ValueError):
        # The signature cannot be inspected, for example of a proxy.
        return False
    return any(one.name == "epoch" or one.kind is one.VAR_KEYWORD for one in parameters)
