"""What several processes do with one journal: wishes, and runs that somebody has to take up.

What waits for an answer is the inbox: rows beside the logs, written along with the event that parks
a run, and dropped along with the wish that answers or the event by which the run goes on.

A wish is an answer that somebody gives who does not work on the run. It is a row beside the log,
which only the run's holder may append to. The first one for a question stands, whoever comes later
is told of it. Whoever goes on with the run copies the wishes for its open questions into the log;
the answer that is logged there is the mark that a wish was taken.

A run is due when somebody has to take it up: it was submitted, or answered while it was parked.
That it is due stands in its row in the list of runs. A claim takes it away, for the row names the
holder from then on, who is known to be dead if it dies.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from threading import Lock
from typing import Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec.structs import replace

from upshot.contract.base.checks import check_whole
from upshot.contract.base.structs import JsonObject, Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.events import Event
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Audience, Pending, PendingApproval, PendingEffect
from upshot.contract.protocols import Journal, Note, RunCounts, RunFilters
from upshot.errors import JournalError, Misuse
from upshot.journal.watching import Watcher
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.redacted_events import bare_request

T = TypeVar("T")

QUEUED = "queued"
"""The status of a run that was submitted and has no log yet."""

KEY_LIFE = timedelta(days=30)
"""So long after the end of its run the key of a submission is still known."""


class Wish(Value, frozen=True, kw_only=True):
    """An answer to a question of a run.

    Attributes:
        run_id: The run that asks.
        item: The question: the digest of a request for approval; the id of another one, and how
            often it had been answered before.
        answer: The answer; its secrets are masked.
        at: When it was given.
    """

    run_id: str
    item: str
    answer: AnyAnswer
    at: Moment


class Stop(Value, frozen=True, kw_only=True):
    """The wish that a run stop; it holds until the run has ended.

    Attributes:
        run_id: The run.
        kind: "interrupt" stops it at its next safe point, "cancel" at once.
        cause: Why it is interrupted, a word of ``InterruptCause`` or another one.
        detail: More of it, for people.
        at: When it was said.
    """

    run_id: str
    kind: Literal["interrupt", "cancel"]
    cause: str = ""
    detail: str = ""
    at: Moment


class Submission(Value, frozen=True, kw_only=True):
    """A run to be begun by whoever takes it up.

    Attributes:
        run_id: The run.
        agent_id: Its agent.
        request: What is asked; its secrets are masked.
        options: Options of the run, as JSON.
        priority: Runs with a larger one are taken up first.
        at: From when on it is due; None is at once.
        key: What names it for the caller, "" for none.
        digest: Of agent, request and options, so that a key is not used for another request.
        marks: Which marks stand for secrets, as ``run_started`` notes it.
        version: The code that submitted it.
        after: The run that handed the request over to this one, "" where none did.
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
"""Why runs are due of which nothing has been done."""


def redacted_submission(new: Submission) -> Submission:
    """*new* without content."""
    return replace(new, request=bare_request(new.request), options={}, marks={})


class DueRun(Value, frozen=True, kw_only=True):
    """A run that somebody has to take up.

    Attributes:
        run_id: The run.
        agent_id: Its agent.
        conversation: Its conversation, "" for none.
        reason: Why: "submitted", "conversation" (another turn was in the way), "answered",
            "interrupt", "cancel", "released", "died" and others.
        priority: Those with a larger one come first.
        at: Since when; None of one whose holder died.
        has_begun: Whether it has a log.
        epoch: How often it was taken up before.
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
        """Whether nobody has worked on it."""
        return self.reason in NEW


class Assigned(Value, frozen=True, kw_only=True):
    """An item of the inbox was given to somebody.

    Attributes:
        to: Who is to answer it.
        by: Who said so.
        at: When.
    """

    to: str
    by: str
    at: Moment


class InboxItem(Value, frozen=True, kw_only=True):
    """Something that a parked run waits for, and that nobody has answered.

    Attributes:
        run_id: The run to answer and to go on with; a child run of it that asks is named by
            ``pending.run_id``.
        agent_id: The agent of that run.
        conversation: The conversation of which it is a turn, "" for none.
        request: What the run was asked, at most 200 characters.
        owner: Whose the run is: ``user`` of its attributes, "" where they have none.
        tenant: ``tenant`` of the attributes.
        title: The beginning of the first request of the conversation, "" for none.
        pending: What is asked, its secrets masked; it makes the answer. The id of one that a child
            run asks has that run in front.
        assigned: Who is to answer it, None where that was not said; ``App.inbox`` fills it in.
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

    @property
    def due(self) -> Moment | None:
        """Until when it is to be answered, None where that does not matter."""
        return self.pending.expires_at

    @property
    def then(self) -> str:
        """What happens where it is not answered by then: "asked_anew" of an approval, which is no
        longer taken; "goes_on" of a question, for which the run waits no longer; else "".
        """
        if self.due is None:
            return ""
        return "asked_anew" if isinstance(self.pending, PendingApproval) else "goes_on"

    @property
    def audience(self) -> Audience:
        """Who may answer: "user" is the user of the run, too."""
        return self.pending.audience

    @property
    def key(self) -> str:
        """What names the item in its journal; a later question of the same id is another one."""
        asked = self.pending
        which = asked.digest if isinstance(asked, PendingApproval) else str(asked.asked_at)
        return f"{self.run_id} {asked.id} {which}"


class Untold(NamedTuple):
    """An item of the inbox that somebody is to be told of.

    Attributes:
        item: The item.
        asking: The run that asks, which may be a child run.
        question: What names the question in it.
        tries: How often it was taken before this time.
    """

    item: InboxItem
    asking: str
    question: str
    tries: int


class InboxFilters(TypedDict, total=False):
    """Which items of an inbox are wanted; a filter that is not given matches every one.

    Attributes:
        limit: The items of at most so many runs, from 1; None is all.
        before: Only runs that come after this one: that of the last item of the page before.
        agent: Only runs of this agent.
        conversation: Only runs of this conversation.
        tool: Only calls of this tool.
        run_id: Only this run.
        owner: Only runs of this user: ``user`` of their attributes. A user is named by both: with
            a *tenant* it is that of the tenant, without one the user who is of no tenant.
        tenant: Only runs of this tenant.
    """

    limit: int | None
    before: str
    agent: str
    conversation: str
    tool: str
    run_id: str
    owner: str
    tenant: str


class InboxQuery(NamedTuple):
    """``InboxFilters`` with what was not given."""

    limit: int | None = None
    before: str = ""
    agent: str = ""
    conversation: str = ""
    tool: str = ""
    run_id: str = ""
    owner: str = ""
    tenant: str = ""

    def check(self) -> None:
        """Refuse a limit that is none."""
        check_whole("limit", self.limit, least=1, none="all")


def tool_of(pending: Pending) -> str:
    """The tool whose call waits, "" for a question."""
    return pending.tool_name if isinstance(pending, PendingApproval | PendingEffect) else ""


class SharedValues(Protocol):
    """Small texts by name that several processes change, within a transaction.

    Attributes:
        now_us: The moment by the journal's clock, in microseconds since 1970.
    """

    @property
    def now_us(self) -> int: ...

    def read(self, name: str) -> str:
        """The text, "" where there is none; nobody else changes it until the transaction ends."""
        ...

    def write(self, name: str, body: str) -> None:
        """Replace a text that was read."""
        ...

    def forget(self, first: str, end: str) -> None:
        """Drop those whose names come from *first* on and before *end*."""
        ...


class MemoryValues:
    """The values of one process; plays the role SharedValues."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._lock = Lock()

    def change(self, change: Callable[[SharedValues], T]) -> T:
        """Do *change*, by one thread at a time; where it raises, nothing is changed."""
        with self._lock:
            before = self._texts.copy()
            try:
                return change(self)
            except BaseException:
                self._texts = before
                raise

    @property
    def now_us(self) -> int:
        """The moment by this machine's clock."""
        return time.time_ns() // 1_000

    def read(self, name: str) -> str:
        """See ``SharedValues.read``."""
        return self._texts.get(name, "")

    def write(self, name: str, body: str) -> None:
        """See ``SharedValues.write``."""
        self._texts[name] = body

    def forget(self, first: str, end: str) -> None:
        """See ``SharedValues.forget``."""
        for name in [name for name in self._texts if first <= name < end]:
            del self._texts[name]


def withdrawals_of(run_id: str) -> tuple[str, str]:
    """The name of the value with the withdrawn approvals of a run, and what comes after it."""
    name = f"withdrawn {run_id}"
    return name, f"{name} "


class Withdrawal(Value, frozen=True, kw_only=True):
    """A standing approval was taken back.

    Attributes:
        by: Who did it, "" if that was not said.
        at: When.
    """

    by: str = ""
    at: Moment


async def withdrawn_in(journal: Journal, run_id: str) -> Mapping[str, Withdrawal]:
    """The standing approvals of a run that were withdrawn, by their keys."""
    shared = shared_journal(journal)
    return {} if shared is None else _read(await shared.value(withdrawals_of(run_id)[0]))


async def withdraw(journal: Journal, run_id: str, gone: Mapping[str, Withdrawal]) -> None:
    """Have standing approvals of a run, given by their keys, stand no more."""
    name = withdrawals_of(run_id)[0]

    def change(values: SharedValues) -> None:
        # The first to withdraw one is the one who did.
        values.write(name, encode({**gone, **_read(values.read(name))}).decode())

    await needs_shared(journal).change_values(change)


def _read(text: str) -> dict[str, Withdrawal]:
    return decode(text.encode(), decoder_of(dict[str, Withdrawal])) if text else {}


class JournalAway(JournalError):
    """The server of a journal cannot be reached now; another try may reach it."""


class SharedJournal(Protocol):
    """A journal through which processes that do not work on a run reach it."""

    def watch(self, *topics: str) -> Watcher:
        """Begin to wait for changes; to be used as a context manager.

        Args:
            topics: Of what: ``DUE``, or what ``of_run`` and ``wishes_of`` of ``watching`` and
                ``pieces_of`` of ``pieces`` give.
        """
        ...

    def is_shown(self, run_id: str) -> bool:
        """Whether anybody watches the pieces of a run's replies, as of its last commit."""
        ...

    def show(self, event: Event) -> None:
        """Take an event of a run that is worked on here; pieces are handed on to who watches."""
        ...

    def pieces(self, run_id: str, seq: int, part: int) -> Sequence[Event]:
        """The pieces after the event *seq*, and of those the ones after *part*.

        They come only while the topic of the run's pieces is watched.
        """
        ...

    async def place_wish(self, wish: Wish, *, seq: int = 0) -> Wish | None:
        """Keep *wish*, unless there is one for the same question; the root run becomes due.

        Args:
            wish: What is wanted.
            seq: The last event of the run's log as the caller knows it; 0 of the run's holder,
                and then nothing becomes due.

        Returns:
            The wish that stands for the question. None if *seq* is given, and the run is being
            worked on or its log ends with another event; then nothing was kept.
        """
        ...

    async def inbox(self, **filters: Unpack[InboxFilters]) -> tuple[InboxItem, ...]:
        """What parked runs wait for and nobody has answered, the longest wait first: runs by the
        moment of their first question, and the items of a run together.

        An item goes as soon as it is answered, and where the run goes on. One of a child run is
        there while all runs round it wait.

        Raises:
            Misuse: *limit* is not a positive whole number, or there is no run *before*.
        """
        ...

    async def inbox_size(self, **filters: Unpack[InboxFilters]) -> int:
        """How many items ``inbox`` has; *limit* and *before* are not looked at."""
        ...

    async def counts(self, status: str | None = None, **filters: Unpack[RunFilters]) -> RunCounts:
        """How many runs there are by status and by error, and what they cost by day.

        Args:
            status: As ``Journal.runs`` takes it.
            filters: Of which runs, as there; limit, before and sort do not matter.

        Raises:
            Misuse: As of ``Journal.runs``.
        """
        ...

    async def take_untold(
        self, agent_ids: Collection[str], *, limit: int, for_s: float
    ) -> Sequence[Untold]:
        """Take items of the inbox that nobody was told of, which others then leave for *for_s*
        seconds.

        An item that is asked again by a run that went on and parked anew is told again.

        Args:
            agent_ids: Only those of runs of these agents.
            limit: At most so many.
            for_s: How long ``note_told`` is waited for.
        """
        ...

    async def note_told(self, one: Untold, *, again_s: float | None) -> None:
        """Note that an item was told; or, after *again_s* seconds, is to be taken again."""
        ...

    async def keep_note(self, note: Note) -> None:
        """Keep a note on a run in place of that of the same name and person; None as its value
        takes that back. It goes with the run.
        """
        ...

    async def redact(self, *, conversation: str, by: str = "") -> Sequence[str]:
        """Take out of the journal all that was said in a conversation, for good.

        Texts, arguments, results, stored outputs, values of notes and all other content go: of
        its runs, their child runs and their forks, and of the conversations in which those are.
        Ids, names, times, usage, cost, effects, outcomes, digests, and who approved what and when
        stay. A run without content cannot be resumed, replayed, forked or gone on with.

        A call that was cut off has changed nothing or all; call it again to have the free room of
        the place emptied too.

        Args:
            conversation: The conversation.
            by: Who wants it; the first event of each run keeps that, with the time.

        Returns:
            The ids of the runs.

        Raises:
            Misuse: There is no such conversation, or a run has not ended.
            JournalError: A log is damaged; or the content is gone from the tables, and what it
                left in the file cannot be cleared just now.
        """
        ...

    async def notes(self, run_id: str) -> Sequence[Note]:
        """The notes on a run, oldest first."""
        ...

    async def value(self, name: str) -> str:
        """A text that ``change_values`` wrote, "" where there is none."""
        ...

    async def wishes(self, run_id: str) -> Sequence[Wish]:
        """All that were kept for a run."""
        ...

    async def place_stop(self, stop: Stop) -> None:
        """Keep *stop*, unless there is one of its kind, and have a root run that has not ended
        taken up for it.
        """
        ...

    async def stops(self, run_ids: Sequence[str]) -> Sequence[Stop]:
        """Those that were kept for runs, and not dropped since."""
        ...

    async def drop_stops(self, run_id: str) -> None:
        """Forget those of a run that goes on although it was stopped."""
        ...

    async def submit(self, new: Submission) -> Submission:
        """Keep a run that is to be begun.

        Returns:
            *new*; or the one that has its key, and then nothing was kept.

        Raises:
            Misuse: The journal has another run of that id.
            OtherUser: It has a user, and its conversation is another's.
        """
        ...

    async def submission(self, run_id: str) -> Submission | None:
        """How a run was submitted; None for one that was not.

        A run that a request was handed over to is submitted in the transaction of the event that
        hands it over, and held by the process that wrote that.
        """
        ...

    async def withdraw(self, run_id: str) -> None:
        """Forget a run that was submitted, unless it has begun."""
        ...

    async def due_runs(
        self,
        agent_ids: Collection[str] | None = None,
        *,
        run_id: str | None = None,
        limit: int | None = None,
    ) -> Sequence[DueRun]:
        """The root runs that somebody has to take up now and nobody works on.

        Args:
            agent_ids: Only those of these agents; None is all.
            run_id: Only this run, if it is due; None is all.
            limit: The most that are due; those whose holder died come beside them.

        Returns:
            Larger priorities first, then what was worked on before what is new, then those that
            have waited longest; at the end those whose holder died.
        """
        ...

    async def reserve_due(self, run_ids: Sequence[str], *, for_s: float) -> Sequence[str]:
        """Have other workers leave due runs alone for *for_s* seconds, before they are taken.

        Returns:
            Those that no other worker has reserved; those that died are as they were.
        """
        ...

    async def make_due(self, run_id: str, reason: str, *, delay_s: float = 0) -> None:
        """Have a run that nobody works on taken up, or a due one only after *delay_s* seconds."""
        ...

    async def change_values(self, change: Callable[[SharedValues], T]) -> T:
        """Change values in a transaction; returns what *change* gave once that is committed.

        *change* may be called again where a connection is lost, and in any thread.
        """
        ...

    async def settle_claim(self, run_id: str) -> None:
        """Wait until a claim of the run that is under way has ended."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Have what is appended and begun within the block written in one transaction.

        No claim of the run may be under way, and nothing is awaited within.
        """
        ...

    def begin_change(self, change: Callable[[SharedValues], T]) -> Awaitable[T]:
        """Begin what ``change_values`` does, after all that was appended; returns at once."""
        ...


def shared_journal(journal: Journal) -> SharedJournal | None:
    """*journal*, if it is one through which others reach a run."""
    has = all(hasattr(journal, name) for name in _METHODS)
    return cast("SharedJournal", journal) if has else None


def needs_shared(journal: Journal) -> SharedJournal:
    """*journal*, through which others have to reach a run.

    Raises:
        Misuse: They do not.
    """
    shared = shared_journal(journal)
    if shared is None:
        missing = next(name for name in _METHODS if not hasattr(journal, name))
        raise Misuse(
            f"{type(journal).__name__} keeps nothing for other processes, since it has no "
            f"{missing}(): give the path of a journal, or go on with the run itself by resume"
        )
    return shared


_METHODS = [name for name in vars(SharedJournal) if not name.startswith("_")]


def handed_over(
    run_id: str, agent_id: str, request: Request, before: Submission | None
) -> Submission:
    """That of the run which follows another one in a chain of hand-offs.

    Args:
        run_id: The run that hands its request over.
        agent_id: Its agent.
        request: What was asked, as it is listed.
        before: How it was submitted; the next one is given the same.
    """
    known = before or Submission(run_id=run_id, agent_id=agent_id, request=request)
    new = replace(known, run_id=child_id(CHAIN_OPTION, run_id), after=run_id, agent_id=agent_id)
    return replace(new, at=None, key="", digest="")


def is_past_key(ended_at: datetime | None, now: datetime) -> bool:
    """Whether the key of a run that ended then is no longer known."""
    return ended_at is not None and ended_at + KEY_LIFE < now


class OtherUser(Misuse):
    """A conversation belongs to the user of its first run."""

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"the conversation {conversation[:80]!r} is another user's: leave it out to begin one"
        )


def taken_id(run_id: str) -> Misuse:
    """The exception for a submission under the id of another run."""
    return Misuse(
        f"the journal has a run {run_id!r} already: leave the run_id of the request empty, or "
        "give key= so that the same request is submitted once"
    )
