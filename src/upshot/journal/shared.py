"""What processes share through one journal: placed answers, due runs, and the inbox.

A ``PlacedAnswer`` comes from a process that does not work on the run. It is a row beside the log,
because only the run's holder may append to the log. The first answer to a question wins, and a
later one gets the first one back. The session that resumes the run copies the answers to its open
questions into the log; a logged answer marks the row as used.

A run is due when a worker should claim it: it was submitted, or answered while it was parked. Its
row in the list of runs says so. A claim clears that mark, since from then on the row names the
holder, and a holder that dies can be found dead.

The inbox holds the questions that wait for an answer, as rows beside the logs. They are written
with the event that parks a run, and removed with the request that answers them or the event that
resumes the run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec.structs import replace

from upshot.contract.base.checks import check_moment, check_whole
from upshot.contract.base.structs import JsonObject, Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.events import Event
from upshot.contract.model_calls import Request
from upshot.contract.pending import (
    AnyAnswer,
    Approve,
    Audience,
    Pending,
    PendingApproval,
    PendingEffect,
    user_key,
)
from upshot.contract.protocols import Journal, Note, RunCounts, RunFilters, RunSummary
from upshot.errors import JournalError, Misuse
from upshot.journal.run_counts import FigureQuery, OpenWork, RunFigures
from upshot.journal.watching import Watcher
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.redacted_events import bare_request

T = TypeVar("T")

QUEUED = "queued"
"""The status of a run that was submitted and has no log yet."""

KEY_LIFE = timedelta(days=30)
"""How long the key of a submission is remembered after its run has ended."""


class PlacedAnswer(Value, frozen=True, kw_only=True):
    """An answer to a question of a run, from a process that does not work on the run.

    Attributes:
        run_id: The run that asks.
        item: The question: the digest for an approval request; otherwise the question's id and
            how often it had been answered before, or the number of a signal.
        answer: The answer; its secrets are masked.
        at: When it was given.
        key: For a signal: identifies it, so that it is delivered once.
        part: Its number from 1 if it is one of several approvals that a call needs, and not the
            last; otherwise 0.
    """

    run_id: str
    item: str
    answer: AnyAnswer
    at: Moment
    key: str = ""
    part: int = 0

    @property
    def row(self) -> str:
        """The name that it is stored under: one per question, or per user if several approve."""
        return f"{self.item} {self.part}" if self.part else self.item


class Placement(NamedTuple):
    """The outcome of placing a request.

    Attributes:
        standing: The request that is stored for the question.
        is_new: Whether it is the one that is placed.
        asked: The question, if it is still open afterwards.
    """

    standing: PlacedAnswer
    is_new: bool
    asked: PendingApproval | None = None


def place_beside(
    new: PlacedAnswer, kept: Iterable[PlacedAnswer], asked: PendingApproval | None
) -> Placement:
    """Decide about a request: the first answer stands, or the last of several approvals.

    Args:
        new: The request.
        kept: The requests that are stored for its run.
        asked: The question, with the approvals that the log has; None if one answer is enough.
    """
    same, is_approval = (
        [one for one in kept if one.item == new.item],
        isinstance(new.answer, Approve),
    )
    key = user_key(new.answer.by)
    for one in same:
        if not one.part or (is_approval and user_key(one.answer.by) == key):
            return Placement(one, is_new=False)
    if asked is None or asked.approvals <= 1 or not is_approval:
        return Placement(new, is_new=True)
    for one in (*same, new):
        asked = asked.with_approval(one.answer.by, one.at)
    if not asked.missing:
        return Placement(new, is_new=True)
    return Placement(replace(new, part=len(same) + 1), is_new=True, asked=asked)


class Stop(Value, frozen=True, kw_only=True):
    """A request to stop a run. It stays in force until the run ends.

    Attributes:
        run_id: The run.
        kind: "interrupt" stops it at its next safe point, "cancel" at once.
        cause: Why it is interrupted: a word of ``InterruptCause`` or any other.
        detail: The reason in more words, for people.
        at: When the request was made.
    """

    run_id: str
    kind: Literal["interrupt", "cancel"]
    cause: str = ""
    detail: str = ""
    at: Moment


class Submission(Value, frozen=True, kw_only=True):
    """A run for a worker to start.

    Attributes:
        run_id: The run.
        agent_id: Its agent.
        request: What is asked; its secrets are masked.
        options: Options of the run, as JSON.
        priority: Runs with a larger one are claimed first.
        at: When the run becomes due; None is at once.
        key: The caller's idempotency key, "" for none.
        digest: Of agent, request and options, so that a key is not used for another request.
        marks: Which marks stand for secrets, as in ``run_started``.
        version: The code that submitted it.
        after: The run that handed the request over to this one, "" if there is none.
    """

    run_id: str
    agent_id: str
    request: Request
    options: JsonObject = {}
    priority: int = 0
    at: Moment | None = None
    key: str = ""
    digest: str = ""
    marks: JsonObject = {}
    version: str = ""
    after: str = ""


NEW: tuple[str, ...] = ("submitted", "conversation")
"""The reasons of due runs that no session has worked on yet."""


def redacted_submission(new: Submission) -> Submission:
    """Return *new* without content."""
    return replace(new, request=bare_request(new.request), options={}, marks={})


class DueRun(Value, frozen=True, kw_only=True):
    """A run that a worker should claim.

    Attributes:
        run_id: The run.
        agent_id: Its agent.
        conversation: Its conversation, "" for none.
        reason: Why it is due: "submitted", "conversation" (another turn was in the way),
            "answered", "interrupt", "cancel", "released", "died" and others.
        priority: Runs with a larger one come first.
        at: Since when it is due; None if its holder died.
        has_begun: Whether it has a log.
        epoch: How often it was claimed before.
    """

    run_id: str
    agent_id: str
    conversation: str = ""
    reason: str = ""
    priority: int = 0
    at: Moment | None = None
    has_begun: bool = False
    epoch: int = 0

    @property
    def is_new(self) -> bool:
        """Whether no session has worked on it yet."""
        return self.reason in NEW


class Assigned(Value, frozen=True, kw_only=True):
    """The assignment of an inbox item to a user.

    Attributes:
        to: The user who should answer it.
        by: The user who assigned it.
        at: When.
    """

    to: str
    by: str
    at: Moment


class AnswerLink(Value, frozen=True, kw_only=True):
    """A link by which a user answers an inbox item without signing in.

    Attributes:
        user: The user.
        url: Opens a page that shows the item; the form on it answers, once.
        expires_at: Until when it is valid.
    """

    user: str
    url: str
    expires_at: Moment


class InboxItem(Value, frozen=True, kw_only=True):
    """A question of a parked run that is not yet answered.

    Attributes:
        run_id: The run to answer and resume. If one of its child runs asks, ``pending.run_id``
            names that one.
        agent_id: The agent of that run.
        conversation: The conversation that the run is a turn of, "" for none.
        request: What the run was asked, at most 200 characters.
        owner: The run's user: ``user`` of its attributes, "" if they have none.
        tenant: ``tenant`` of the attributes.
        title: The beginning of the first request of the conversation, "" for none.
        pending: What is asked, its secrets masked; it makes the answer. The id of a child run's
            question starts with the id of that run.
        assigned: The user it is assigned to, None if it is not; ``App.inbox`` fills it in.
        links: Links by which users answer it without signing in; only in a notification, of an App
            with ``answer_links``.
    """

    run_id: str
    agent_id: str
    conversation: str = ""
    request: str = ""
    owner: str = ""
    tenant: str = ""
    title: str = ""
    pending: Pending
    assigned: Assigned | None = None
    links: tuple[AnswerLink, ...] = ()

    @property
    def due(self) -> Moment | None:
        """The deadline for an answer, None if there is none."""
        return self.pending.expires_at

    @property
    def then(self) -> str:
        """What happens at the deadline, "" if there is none.

        "asked_anew" for an approval, which expires and is asked again; "goes_on" for a question,
        as the run continues without an answer.
        """
        if self.due is None:
            return ""
        return "asked_anew" if isinstance(self.pending, PendingApproval) else "goes_on"

    @property
    def audience(self) -> Audience:
        """Who may answer; "user" includes the run's own user."""
        return self.pending.audience

    @property
    def key(self) -> str:
        """The item's key in its journal. A later question with the same id has another key."""
        asked = self.pending
        which = asked.digest if isinstance(asked, PendingApproval) else str(asked.asked_at)
        return f"{self.run_id} {asked.id} {which}"


class Unsent(NamedTuple):
    """An inbox item to notify someone about.

    Attributes:
        item: The item.
        asking: The run that asks, which may be a child run.
        question: The key of the question in that run.
        tries: How many earlier notifications were attempted.
    """

    item: InboxItem
    asking: str
    question: str
    tries: int


class InboxFilters(TypedDict, total=False):
    """Filters of an inbox; a filter that is not given matches every item.

    Attributes:
        limit: The items of at most so many runs, from 1; None means all.
        before: Only runs that come after this one, the run of the previous page's last item.
        agent: Only runs of this agent.
        conversation: Only runs of this conversation.
        tool: Only calls of this tool.
        run_id: Only this run.
        owner: Only runs of this user: ``user`` of their attributes. Owner and tenant together
            identify a user: without a *tenant*, it is the user who belongs to no tenant.
        tenant: Only runs of this tenant.
        since: Only items asked at or after this moment, with a time zone.
        until: Only items asked before it.
    """

    limit: int | None
    before: str
    agent: str
    conversation: str
    tool: str
    run_id: str
    owner: str
    tenant: str
    since: datetime | None
    until: datetime | None


class InboxQuery(NamedTuple):
    """``InboxFilters`` with defaults filled in."""

    limit: int | None = None
    before: str = ""
    agent: str = ""
    conversation: str = ""
    tool: str = ""
    run_id: str = ""
    owner: str = ""
    tenant: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def check(self) -> None:
        """Raise Misuse if the limit or a moment is not valid."""
        check_whole("limit", self.limit, least=1, none="all")
        check_moment("since", self.since)
        check_moment("until", self.until)

    def fits(self, pending: Pending) -> bool:
        """Whether an item is of the wanted tool and age."""
        at = pending.asked_at or datetime.fromtimestamp(0, UTC)
        is_late = self.since is None or at >= self.since
        is_early = self.until is None or at < self.until
        return is_late and is_early and self.tool in ("", tool_of(pending))


def tool_of(pending: Pending) -> str:
    """Return the name of the tool whose call waits, "" for a question."""
    return pending.tool_name if isinstance(pending, PendingApproval | PendingEffect) else ""


class SharedValues(Protocol):
    """Small texts by name, shared by processes and changed within a transaction.

    Attributes:
        now_us: The current time by the journal's clock, in microseconds since 1970.
    """

    @property
    def now_us(self) -> int: ...

    def read(self, name: str) -> str:
        """Return the text, "" if there is none, and lock it until the transaction ends."""
        ...

    def write(self, name: str, body: str) -> None:
        """Replace a text that was read before."""
        ...

    def forget(self, first: str, end: str) -> None:
        """Remove the texts with names from *first* to before *end*."""
        ...


class MemoryValues:
    """The values of one process; implements SharedValues."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lock = Lock()

    def change(self, change: Callable[[SharedValues], T]) -> T:
        """Call *change*, in one thread at a time; if it raises, nothing is changed."""
        with self._lock:
            before = self._texts.copy()
            try:
                return change(self)
            except BaseException:
                self._texts = before
                raise

    @property
    def now_us(self) -> int:
        """The current time by this machine's clock."""
        return time.time_ns() // 1_000

    def read(self, name: str) -> str:
        """See ``SharedValues.read``."""
        return self._texts.get(name, "")

    def between(self, first: str, end: str) -> dict[str, str]:
        """Return the texts with names from *first* to before *end*, without empty ones."""
        return {name: self._texts[name] for name in sorted(self._texts) if first <= name < end}

    def write(self, name: str, body: str) -> None:
        """See ``SharedValues.write``."""
        self._texts[name] = body

    def forget(self, first: str, end: str) -> None:
        """See ``SharedValues.forget``."""
        for name in [name for name in self._texts if first <= name < end]:
            del self._texts[name]


def used_links_of(run_id: str) -> tuple[str, str]:
    """Return the name of the value with a run's used links, and the name that ends its range."""
    name = f"links {run_id}"
    return name, f"{name} "


def withdrawals_of(run_id: str) -> tuple[str, str]:
    """Return the name of the value with a run's withdrawn approvals, and the end of its range."""
    name = f"withdrawn {run_id}"
    return name, f"{name} "


class Withdrawal(Value, frozen=True, kw_only=True):
    """The withdrawal of a standing approval.

    Attributes:
        by: The user who withdrew it, "" if not given.
        at: When.
    """

    by: str = ""
    at: Moment


async def withdrawn_in(journal: Journal, run_id: str) -> Mapping[str, Withdrawal]:
    """Return the withdrawn standing approvals of a run, by their keys."""
    shared = shared_journal(journal)
    return (
        {} if shared is None else _decode_withdrawals(await shared.value(withdrawals_of(run_id)[0]))
    )


async def withdraw(journal: Journal, run_id: str, gone: Mapping[str, Withdrawal]) -> None:
    """Withdraw standing approvals of a run, given by their keys."""
    name = withdrawals_of(run_id)[0]

    def change(values: SharedValues) -> None:
        # Keep earlier withdrawals: the first user to withdraw an approval is recorded.
        values.write(name, encode({**gone, **_decode_withdrawals(values.read(name))}).decode())

    await needs_shared(journal).change_values(change)


def _decode_withdrawals(text: str) -> dict[str, Withdrawal]:
    return decode(text.encode(), decoder_of(dict[str, Withdrawal])) if text else {}


class JournalAway(JournalError):
    """The server of a journal cannot be reached now; a retry may succeed."""


class SharedJournal(Protocol):
    """A journal through which other processes can reach a run they do not work on."""

    def watch(self, *topics: str) -> Watcher:
        """Start to wait for changes; use it as a context manager.

        Args:
            topics: What to wait for: ``DUE``, or topics made by ``of_run`` and
                ``placed_answers_topic`` of ``watching`` and ``pieces_of`` of ``pieces``.
        """
        ...

    def is_watched(self, run_id: str) -> bool:
        """Whether the pieces of a run's replies are being watched, as of its last commit."""
        ...

    def show(self, event: Event) -> None:
        """Accept an event of a run that this process works on; pass pieces on to watchers."""
        ...

    def pieces(self, run_id: str, seq: int, part: int) -> Sequence[Event]:
        """Return the pieces after the event *seq*, starting after piece number *part*.

        They arrive only while the topic of the run's pieces is watched.
        """
        ...

    async def place_answer(
        self,
        answer: PlacedAnswer,
        *,
        seq: int = 0,
        asked: PendingApproval | None = None,
        shown: AnyAnswer | None = None,
    ) -> PlacedAnswer | None:
        """Store *answer*, unless its question already has one; the root run becomes due.

        If several users must approve, each approval is stored. Nothing becomes due, and the
        question stays in the inbox, until the last of them, a denial or an edit.

        Args:
            answer: The answer.
            seq: The last event of the run's log that the caller knows. 0 is for the run's holder:
                nothing becomes due then.
            asked: The question as the log has it; needed only if several users must approve.
            shown: What the audit has instead of the answer; None for the answer itself.

        Returns:
            The request that is stored for the question. None if *seq* is given, and the run is
            being worked on or its log has grown since; then nothing was stored.
        """
        ...

    async def inbox(self, **filters: Unpack[InboxFilters]) -> tuple[InboxItem, ...]:
        """Return the unanswered questions of parked runs, longest wait first.

        Runs are ordered by their first question, and the items of a run stay together. An item is
        removed when it is answered, and when the run resumes. A child run's item is listed while
        all runs above it wait.

        Raises:
            Misuse: *limit* is not a positive whole number, or *before* is not a run of the journal.
        """
        ...

    async def inbox_size(self, **filters: Unpack[InboxFilters]) -> int:
        """Return how many items ``inbox`` has; *limit* and *before* are ignored."""
        ...

    async def counts(self, status: str | None = None, **filters: Unpack[RunFilters]) -> RunCounts:
        """Count the runs by status and by error, and sum their cost by day.

        Args:
            status: As in ``Journal.runs``.
            filters: As in ``Journal.runs``; limit, before and sort are ignored.

        Raises:
            Misuse: As in ``Journal.runs``.
        """
        ...

    async def candidates(
        self, find: str, status: str | None = None, **filters: Unpack[RunFilters]
    ) -> Sequence[RunSummary]:
        """List the runs whose logs may contain a text, as ``Journal.runs`` does.

        Only the search index knows a log that does not; without one, these are all runs.

        Args:
            find: The text, in any case and any form of accents.
            status: As in ``Journal.runs``.
            filters: As in ``Journal.runs``.

        Raises:
            Misuse: As in ``Journal.runs``.
        """
        ...

    async def figures(self, wanted: FigureQuery) -> RunFigures:
        """Return how the runs of a period ended, and those of the period before.

        A run counts by its start, under what the list of runs says of it, once its last session has
        ended. Where the period has whole hours and no owner, this reads counts and no runs.

        Raises:
            Misuse: The period is empty, or has no time zone.
        """
        ...

    async def open_work(self, *, owner: str = "", tenant: str = "") -> OpenWork:
        """Return how much has not ended yet: runs, items of the inbox, effects.

        Args:
            owner: Only in runs of this user (of *tenant*, or of none); "" for all.
            tenant: Only in runs of this tenant; "" for all.
        """
        ...

    async def pop_unsent(
        self, agent_ids: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[Unsent]:
        """Claim inbox items that need a notification, for *for_s* seconds.

        Other processes skip them for that time. If a run resumes, parks again and asks the same
        question, that is a new notification.

        Args:
            agent_ids: Only items of runs of these agents.
            limit: At most so many.
            for_s: How long to wait for ``mark_sent``.
        """
        ...

    async def mark_sent(self, one: Unsent, *, again_s: float | None) -> None:
        """Record that an item's notification was sent, or retry it after *again_s* seconds."""
        ...

    async def keep_note(self, note: Note) -> None:
        """Store a note on a run, replacing the author's earlier note with that name.

        A value of None removes it. Notes are removed with their run.

        Raises:
            Misuse: There is no such run.
        """
        ...

    async def redact(self, *, conversation: str, by: str = "") -> Sequence[str]:
        """Remove everything said in a conversation from the journal, permanently.

        Texts, arguments, results, stored outputs, values of notes and all other content are
        removed from its runs, their child runs and their forks, and from the conversations of
        those. Ids, names, times, usage, cost, effects, outcomes, digests, and who approved what
        and when stay. A run without content cannot be resumed, replayed or forked, and its
        conversation cannot be continued.

        A call that was interrupted has changed either nothing or everything. Call it again to
        clear the freed space in the file as well.

        Args:
            conversation: The conversation.
            by: Who asks for it; stored with the time in the first event of each run.

        Returns:
            The ids of the runs.

        Raises:
            Misuse: There is no such conversation, or a run has not ended.
            JournalError: A log is damaged; or the content is gone from the tables, but its
                remains in the file cannot be cleared at the moment.
        """
        ...

    async def notes(self, run_id: str) -> Sequence[Note]:
        """Return the notes on a run, oldest first."""
        ...

    async def value(self, name: str) -> str:
        """Return a text that ``change_values`` wrote, "" if there is none."""
        ...

    async def values(self, first: str, end: str) -> Mapping[str, str]:
        """Return the texts with names from *first* to before *end*, without empty ones."""
        ...

    async def placed_answers(self, run_id: str) -> Sequence[PlacedAnswer]:
        """Return all requests stored for a run, oldest first."""
        ...

    async def place_stop(self, stop: Stop) -> None:
        """Store *stop*, unless the run has one of that kind.

        A root run that has not ended becomes due.
        """
        ...

    async def stops(self, run_ids: Sequence[str]) -> Sequence[Stop]:
        """Return the runs' stop requests, except removed ones."""
        ...

    async def drop_stops(self, run_id: str) -> None:
        """Remove the stop requests of a run that resumes after a stop."""
        ...

    async def submit(self, new: Submission) -> Submission:
        """Store a run for a worker to start.

        Returns:
            *new*; or the earlier submission with the same key, and then nothing was stored.

        Raises:
            Misuse: The journal has another run with that id.
            OtherUser: *new* has a user, and its conversation belongs to another one.
        """
        ...

    async def submission(self, run_id: str) -> Submission | None:
        """Return how a run was submitted; None if it was not.

        The run that continues after a handoff is submitted in the transaction of the handoff's
        event, and held by the process that wrote that event.
        """
        ...

    async def withdraw(self, run_id: str) -> None:
        """Remove a submitted run, unless it has started."""
        ...

    async def due_runs(
        self,
        agent_ids: Collection[str] | None = None,
        *,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[DueRun]:
        """Return the root runs that are due now and have no session.

        Args:
            agent_ids: Only runs of these agents; None means all.
            run_id: Only this run, if it is due; None means all.
            limit: The maximum number of due runs. Runs whose holder died are added to them.

        Returns:
            Runs with a larger priority first, then runs already started before new ones, then
            longest wait first; runs whose holder died come last.
        """
        ...

    async def reserve_due(self, run_ids: Sequence[str], *, for_s: float) -> Sequence[str]:
        """Reserve due runs for *for_s* seconds, so that other workers leave them alone.

        Returns:
            The runs that no other worker has reserved. Runs whose holder died cannot be reserved
            and are returned unchanged.
        """
        ...

    async def make_due(self, run_id: str, reason: str, *, delay_s: float = 0) -> None:
        """Make a run without a session due, or delay a due one by *delay_s* seconds."""
        ...

    async def change_values(self, change: Callable[[SharedValues], T]) -> T:
        """Change values in a transaction; returns what *change* returned once that is committed.

        *change* may be called again if a connection is lost, and in any thread.
        """
        ...

    async def settle_claim(self, run_id: str) -> None:
        """Wait until a claim of the run that is under way has finished."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Write what is appended and started within the block in one transaction.

        No claim of the run may be under way, and the block must not await.
        """
        ...

    def begin_change(self, change: Callable[[SharedValues], T]) -> Awaitable[T]:
        """Queue a ``change_values`` after everything appended so far; returns at once."""
        ...


def shared_journal(journal: Journal) -> SharedJournal | None:
    """Return *journal* if other processes can reach its runs, else None."""
    has = all(hasattr(journal, name) for name in _METHODS)
    return cast("SharedJournal", journal) if has else None


def needs_shared(journal: Journal) -> SharedJournal:
    """Return *journal*, which must allow other processes to reach its runs.

    Raises:
        Misuse: It does not.
    """
    shared = shared_journal(journal)
    if shared is None:
        missing = next(name for name in _METHODS if not hasattr(journal, name))
        raise Misuse(
            f"{type(journal).__name__} cannot be shared by processes, since it has no "
            f"{missing}(): give the path of a journal, or call resume"
        )
    return shared


_METHODS = [name for name in vars(SharedJournal) if not name.startswith("_")]


def handed_over(
    run_id: str, agent_id: str, request: Request, before: Submission | None
) -> Submission:
    """Return the submission of the next run in a chain of handoffs.

    Args:
        run_id: The run that hands its request over.
        agent_id: The agent of the next run.
        request: What was asked, as it is listed.
        before: How the run was submitted; the next one gets the same options.
    """
    known = before or Submission(run_id=run_id, agent_id=agent_id, request=request)
    new = replace(known, run_id=child_id(CHAIN_OPTION, run_id), after=run_id, agent_id=agent_id)
    return replace(new, at=None, key="", digest="")


def is_past_key(ended_at: datetime | None, now: datetime) -> bool:
    """Whether the key of a run that ended at *ended_at* is forgotten by *now*."""
    return ended_at is not None and ended_at + KEY_LIFE < now


class OtherUser(Misuse):
    """A conversation belongs to the user of its first run, and this is another user."""

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"the conversation {conversation[:80]!r} belongs to another user: leave it out to "
            "start a new one"
        )


def duplicate_id_error(run_id: str) -> Misuse:
    """Return the exception for a submission with the id of another run."""
    return Misuse(
        f"the journal has a run {run_id!r} already: leave the run_id of the request empty, or "
        "give key= so that the same request is submitted once"
    )
