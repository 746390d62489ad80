"""The roles that parts play, as protocols.

The roles of upshot's parts, as declarations only.

Any layer may name a role; nobody imports who plays it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Never, Protocol, TypeAlias, cast

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Json, JsonObject, Moment, Value
from upshot.contract.events import Event
from upshot.contract.message import MAIN_CHANNEL, File, Message
from upshot.contract.model_calls import (
    ModelInput,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.result import AgentResult
from upshot.contract.run_control import BoardSnapshot, Checkpoint, FinalizeDecision, Interrupt
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import ToolCall, ToolOutcome, ToolSpec
from upshot.contract.usage import Usage

__all__ = [
    "AnyResult",
    "ArtifactStore",
    "Board",
    "Clock",
    "Decider",
    "Engine",
    "Host",
    "Journal",
    "Model",
    "Observer",
    "Run",
    "RunSummary",
    "StreamItem",
    "Tool",
    "ToolRunner",
    "InstantJournal",
    "as_instant",
    "is_safe_at_append",
    "takes_epoch",
    "until_safe",
]

StreamItem: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | ModelResponse
AnyResult: TypeAlias = AgentResult[Json]


class Clock(Protocol):
    """Time, so that tests can pass their own."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def sleep(self, delay_s: float) -> Awaitable[None]:
        """Wait *delay_s* seconds."""
        ...


class Model(Protocol):
    """Something that answers messages."""

    @property
    def name(self) -> str:
        """ "provider:name", for logs and prices."""
        ...

    async def call(self, request: ModelInput) -> ModelResponse:
        """Ask once.

        Returns:
            What came of it. Never raises for what a provider does; cancellation by the
            caller's own scope passes through.
        """
        ...

    def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """Ask once and yield deltas; the last item is the whole ModelResponse."""
        ...


class Tool(Protocol):
    """Something that a model can have done."""

    @property
    def name(self) -> str:
        """What the model calls it by."""
        ...

    @property
    def description(self) -> str:
        """What it does, for the model."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of its arguments."""
        ...


class Board(Protocol):
    """Named message channels and variables that an engine works on."""

    def append(self, message: Message, channel: str = MAIN_CHANNEL) -> None:
        """Add a message at the end of a channel."""
        ...

    def messages(self, channel: str = MAIN_CHANNEL) -> Sequence[Message]:
        """The messages of a channel as they are now, in order."""
        ...

    def get(self, name: str, default: Json = None) -> Json:
        """The variable *name*."""
        ...

    def set(self, name: str, value: Json) -> None:
        """Set the variable *name*."""
        ...

    def snapshot(self) -> BoardSnapshot:
        """The board as it is now."""
        ...


class ToolRunner(Protocol):
    """Runs the calls of a reply: a run's tools."""

    def schemas(self) -> Sequence[ToolSpec]:
        """The tools on offer, in order."""
        ...

    async def dispatch(self, calls: Sequence[ToolCall], *, turn: int = 0) -> list[ToolOutcome]:
        """Run *calls* and return one outcome for each that settled, in call order."""
        ...


class Run(Protocol):
    """What an engine sees of the run that it drives; read-only."""

    @property
    def id(self) -> str:
        """The run's id."""
        ...

    @property
    def identity(self) -> RunInfo:
        """Agent, run, task and context; it cannot be forged by attributes."""
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
        """Which pass of the engine this is, from 1."""
        ...

    @property
    def feedback(self) -> str:
        """What the decider that asked for this attempt wants changed, "" for the first."""
        ...

    @property
    def attributes(self) -> Mapping[str, Json]:
        """Free JSON of the caller."""
        ...

    @property
    def dependencies(self) -> object:
        """The caller's one object for tools and engines."""
        ...

    @property
    def budget(self) -> Budget:
        """The run's limits."""
        ...

    @property
    def resume_from(self) -> Checkpoint | None:
        """Where to go on from, None for a fresh start."""
        ...

    @property
    def tools(self) -> ToolRunner:
        """The tools on offer, and the way to call them."""
        ...

    async def call_model(
        self, request: ModelRequest, *, model: Model | None = None
    ) -> ModelResponse:
        """Ask a model through deciders, log, retry, budget and accounting."""
        ...


class Host(Protocol):
    """What surrounds an engine. Every method is optional for a user's host."""

    def publish(self, event: Event) -> Awaitable[None] | None:
        """Tell watchers; never fails a run."""
        ...

    def interrupts(self) -> Awaitable[Interrupt | None] | Interrupt | None:
        """The wish that the run stop, falsy for none."""
        ...

    def ask_user(self, question: str) -> Awaitable[Json] | Json:
        """Ask a person: returns the answer, or raises ``Parked``."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> Awaitable[None] | None:
        """Keep a point to go on from."""
        ...

    def report_usage(self, delta: ModelResponse | Usage) -> Awaitable[None] | None:
        """Add what a foreign engine used.

        A user's host gets the Usage of every model call of the run, runs inside included, whose
        ``cost`` is what it cost.
        """
        ...


class Engine(Protocol):
    """Drives the steps of a run.

    An engine may also have ``can_resume(checkpoint) -> bool``, sync or async; without it, it
    cannot resume from a checkpoint, unless it has ``reads_checkpoints = True`` and looks at
    ``run.resume_from`` itself.
    """

    async def execute(self, run: Never, host: Never, board: Never) -> object:
        """Work until there is an answer.

        Args:
            run: The ``Run``. The three are declared Never here, since an engine may ask for
                the role or for upshot's own class of it; both are what it gets.
            host: The ``Host``.
            board: The ``Board``.

        Returns:
            The board that holds the answer; None means the one given; any other value
            becomes the output.

        Raises:
            Interrupted: A wish to stop was followed.
            Aborted: The run shall end as aborted.
            Failed: The run shall end as failed.
            Parked: People are waited for.
        """
        ...


class RunSummary(Value, frozen=True, kw_only=True):
    """One run of a journal in short.

    Attributes:
        run_id: The run.
        agent_id: Who worked on it.
        status: Of its last session; "running" while none has settled.
        started_at: When it began.
        updated_at: Time of the last event.
        events: How many durable events it has.
        request: The text that was asked, at most 200 characters.
        parent_run_id: The run that started it, "" for a root run.
        context_id: The conversation that it belongs to, "" if none.
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

    @property
    def ended(self) -> bool:
        """Whether nothing is left to resume."""
        return self.status not in ("running", Status.INPUT_REQUIRED)


class Journal(Protocol):
    """The log: durable facts of runs.

    A journal whose events are as safe as they will ever be when ``append`` returns may say so by
    ``is_safe_at_append = True``: then nobody waits in ``durable``. Without it, it is False.
    """

    async def claim(self, run_id: str) -> int:
        """Take the run: returns the new epoch; appends with an older one fail from now on."""
        ...

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        """Take a durable event; returns at once.

        Args:
            event: Its seq is the next of its run, from 1.
            epoch: What ``claim`` gave; None takes the latest.

        Raises:
            JournalError: The epoch is old, or the journal is closed.
            Misuse: The event holds what could not be read back; nothing of it is stored.
        """
        ...

    async def durable(self, run_id: str, seq: int, *, epoch: int | None = None) -> None:
        """Wait until every event of the run up to *seq* is safe.

        Args:
            run_id: The run.
            seq: Of the last one.
            epoch: Under which whoever waits has appended it; None is whoever did.

        Raises:
            JournalError: They could not be written, or *seq* is that of another holder's event.
        """
        ...

    def events(self, run_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The run's durable events with a seq above *after*, in order; 0 gives all.

        Raises:
            JournalError: An event is damaged, or cannot be read.
        """
        ...

    async def runs(
        self,
        status: str | None = None,
        *,
        limit: int | None = None,
        before: str = "",
        context_id: str = "",
        parent_run_id: str | None = None,
        run_id: str = "",
        prefix: str = "",
    ) -> Sequence[RunSummary]:
        """The runs, newest first by the time they started.

        Args:
            status: Only those of this status.
            limit: At most so many, from 1; None gives all.
            before: Only those further down than this run: the last one of the page before.
            context_id: Only those of this conversation.
            parent_run_id: Only those that this run started; "" gives root runs.
            run_id: Only this run.
            prefix: Only those whose id begins so.

        Raises:
            Misuse: *limit* is no number of runs, or there is no run *before*.
        """
        ...

    async def export(self, run_id: str, path: str) -> int:
        """Write a run as JSON lines; returns how many events."""
        ...

    async def import_(self, path: str) -> str:
        """Read a run from JSON lines; returns its id."""
        ...

    async def aclose(self) -> None:
        """Write what is queued and let go of everything."""
        ...


class ArtifactStore(Protocol):
    """Keeps outputs that are too large for a message."""

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        """Store *data*.

        Args:
            run_id: The run that it is of.
            call_id: The call that it came of.
            data: The bytes; of a text in UTF-8.
            media_type: What they are, such as "text/plain".

        Returns:
            The reference to it: id, media_type, size_bytes, sha256, lines.

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
        """Read a page, or the lines that hold *pattern*.

        Args:
            id: Of the reference.
            run_id: The run that asks.
            offset: The first character, from 0.
            limit: How many characters at most; None leaves it to the store.
            pattern: Text to look for, as ``read_page`` does; None reads the page as it is.

        Returns:
            ``{"text": ..., "next_offset": int | None}``; offsets in characters.

        Raises:
            KeyError: This run has no such artifact.
        """
        ...


class Observer:
    """Told what happens in a run; its methods do nothing until you override them.

    Any object with some of these methods is accepted too; each may be sync or async. One
    that raises is logged and listed in the result's warnings, and the next still runs.
    *info* is the identity of the run that it happens in.
    """

    def on_run_start(self, info: RunInfo, request: Request) -> Awaitable[None] | None:
        """The run begins; once a run."""

    def on_attempt_start(self, info: RunInfo, attempt: int) -> Awaitable[None] | None:
        """A pass of the engine begins; *attempt* is its number, from 1."""

    def on_interrupt(self, info: RunInfo, interrupt: Interrupt) -> Awaitable[None] | None:
        """Somebody wants the run to stop; *interrupt* says who, and why."""

    def on_run_revise(
        self, info: RunInfo, previous: AnyResult, next_attempt: int
    ) -> Awaitable[None] | None:
        """An attempt is done again.

        Args:
            info: The run.
            previous: What came of the attempt that a decider sent back.
            next_attempt: The number of the one that begins now, from 2.
        """

    def on_attempt_end(self, info: RunInfo, result: AnyResult) -> Awaitable[None] | None:
        """A pass of the engine ended; *result* is what came of it and of what deciders said."""

    def on_run_end(self, info: RunInfo, result: AnyResult) -> Awaitable[None] | None:
        """The run ends with *result*; once a run."""


class Decider:
    """Has a say in a run; its methods do nothing until you override them.

    Any object with some of these methods is accepted too; each may be sync or async. One
    that raises fails the run with hook_failed, uncommitted, the answer kept.
    """

    def before_model(
        self, info: RunInfo, request: ModelRequest
    ) -> Awaitable[ModelRequest | None] | ModelRequest | None:
        """May rewrite what is sent; None leaves it as it is.

        Asked for the model calls of runs inside too, after their own deciders.

        Args:
            info: The run that asks the model.
            request: What it would send, which may have been rewritten by deciders before.

        Returns:
            What is sent in its place, made with ``msgspec.structs.replace``; None leaves it.
        """

    def before_finalize(
        self, info: RunInfo, request: Request, result: AnyResult
    ) -> Awaitable[FinalizeDecision | None] | FinalizeDecision | None:
        """Says what shall be done with an attempt.

        Args:
            info: The run.
            request: What was asked.
            result: What came of the attempt.

        Returns:
            The decision; None accepts it.
        """


class InstantJournal(Journal, Protocol):
    """A journal that is safe at append and takes a new run without waiting for anything."""

    def begin(self, run_id: str) -> int:
        """Take a run that is new and is worked on in the event loop that runs; gives the epoch."""
        ...

    def is_begun(self, run_id: str) -> bool:
        """Whether a run that ``begin`` took is still worked on."""
        ...

    def release(self, run_id: str, epoch: int) -> None:
        """Note that the run is not worked on any more, unless it was taken since."""
        ...


def as_instant(where: object) -> InstantJournal | None:
    """*where* itself if it is an open InstantJournal, else None."""
    is_open = not isinstance(where, type) and hasattr(where, "begin")
    if is_open and getattr(where, "is_safe_at_append", False) is True:
        return cast("InstantJournal", where)
    return None


def is_safe_at_append(journal: Journal) -> bool:
    """Whether what *journal* took is safe at once, so that no barrier has to be waited for."""
    return getattr(journal, "is_safe_at_append", False) is True


def until_safe(journal: Journal, run_id: str, seq: int, *, epoch: int | None) -> Awaitable[None]:
    """Wait as ``journal.durable`` does; one that knows no epochs there is not told any.

    Args:
        journal: Where the run's log is.
        run_id: The run.
        seq: Of the last event that has to be safe.
        epoch: Under which it was appended, None where nobody knows.

    Raises:
        JournalError: It could not be written, or another holder's event stands in its place.
    """
    if epoch is None or not takes_epoch(type(journal)):
        return journal.durable(run_id, seq)
    return journal.durable(run_id, seq, epoch=epoch)


@cache
def takes_epoch(kind: type) -> bool:
    """Whether ``durable`` of a journal of that class takes an epoch, as older ones do not."""
    try:
        parameters = inspect.signature(cast("Any", kind).durable).parameters.values()
    except (AttributeError, TypeError, ValueError):
        # It hands its calls on, to nobody knows what.
        return False
    return any(one.name == "epoch" or one.kind is one.VAR_KEYWORD for one in parameters)
