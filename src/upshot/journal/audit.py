"""The audit: who saw, answered, settled and operated what; and the web sessions of users.

A row of the audit is only ever added. What the journal itself decides, an answer or a settlement,
gets its row in the same transaction, so neither exists without the other. All other acts get theirs
before they begin: a row without its act is possible after a crash, an act without its row is not.

``acting`` says who acts in the code inside it, and through which door. Where nothing says so, the
door is "api" and the user is the ``by`` that was given.

Erasing a conversation, or removing its runs, blanks ``arguments`` and ``detail`` in the rows of
those runs, which have content. Who did what and when, the tool and the digest stay. Archiving runs
blanks nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, Unpack, cast, get_args

from msgspec.structs import replace

from upshot.contract.base.checks import check_moment, check_whole
from upshot.contract.base.secrets import hide_all_marks
from upshot.contract.base.structs import Json, JsonObject, Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.effects import EffectEntry
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    Pending,
    PendingApproval,
)
from upshot.contract.tool_calls import ApprovalRecord, Settlement
from upshot.errors import JournalError, Misuse
from upshot.journal.shared import PlacedAnswer, tool_of

AuditKind = Literal["saw", "answered", "settled", "operated", "signed"]
"""What kind of act a row is of."""

KINDS: tuple[AuditKind, ...] = get_args(AuditKind)
_KIND_OF: dict[str, AuditKind] = {
    "see": "saw",
    **dict.fromkeys(("approve", "deny", "edit", "answer"), "answered"),
    "settle": "settled",
    **dict.fromkeys(("sign_in", "sign_out", "refused", "end_session"), "signed"),
}
MOST_ROWS = 1_000
"""The most rows that one read returns."""
MOST_LOOKED_AT = 10_000
"""The most rows that one read compares with a condition on arguments."""
_DETAIL_CHARS = 1_000


class Actor(NamedTuple):
    """Who acts, and how.

    Attributes:
        user: The user; "" if only the act itself says it.
        tenant: The user's tenant.
        door: "console", "cli", "api", "worker", "link", "answer_link", or the protocol of a door,
            such as "a2a".
        session: The id of the web session, "" for none.
        address: The client's address, "" if unknown.
    """

    user: str = ""
    tenant: str = ""
    door: str = "api"
    session: str = ""
    address: str = ""


_UNNAMED = Actor()
_actor: ContextVar[Actor] = ContextVar("upshot_actor", default=_UNNAMED)


def current_actor() -> Actor:
    """Return who acts here."""
    return _actor.get()


def set_actor(actor: Actor) -> None:
    """Say who acts in the rest of this task."""
    _actor.set(actor)


@contextmanager
def acting(actor: Actor) -> Generator[None]:
    """Say who acts inside the block."""
    before = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(before)


class AuditRow(Value, frozen=True, kw_only=True):
    """One act of a user.

    Attributes:
        no: The number of the row; it grows, with gaps.
        at: When, by the journal's clock.
        user: Who.
        tenant: The user's tenant.
        kind: What kind of act it is.
        action: What was done: "see", "approve", "deny", "edit", "answer", "settle", "cancel",
            "interrupt", "resume", "fork", "redact", "prune", "archive", "export", "sign_in",
            "sign_out", "refused", "end_session" and others.
        run_id: The run, "" for none.
        run_tenant: The tenant of the run.
        subject: What in the run, or instead of one: a call, an effect, an artifact, a conversation,
            a session.
        tool: The tool of the call or of the effect.
        digest: The digest of the question that was answered, as in the log.
        arguments: The arguments that the user approved, denied or wrote; secrets are masked.
        detail: More about it, such as the reason of a denial.
        door: Through which door: "console", "cli", "api" for other code, "worker", "link" for the
            link that ``upshot serve`` prints, "answer_link" for a link of ``AnswerLinks``, or a
            protocol, such as "a2a".
        session: The web session, "" for none.
        address: The client's address, "" if unknown.
    """

    no: int = 0
    at: Moment | None = None
    user: str = ""
    tenant: str = ""
    kind: AuditKind = "operated"
    action: str = ""
    run_id: str = ""
    run_tenant: str = ""
    subject: str = ""
    tool: str = ""
    digest: str = ""
    arguments: JsonObject | None = None
    detail: str = ""
    door: str = ""
    session: str = ""
    address: str = ""


class AuditFilters(TypedDict, total=False):
    """Which rows to read; a filter that is not given matches every row.

    Attributes:
        user: Only acts of this user.
        tenant: Only acts of users of this tenant, or on its runs.
        kind: Only acts of this kind.
        action: Only this action.
        run_id: Only acts on this run.
        subject: Only acts on this call, effect, artifact, conversation or session.
        tool: Only acts on calls of this tool.
        argument: Only acts whose arguments meet a condition, such as "amount>100" or
            "customer.id=7". The operators are =, !=, <, <=, > and >=. Two numbers are compared as
            numbers, also where they are texts; all else only for equality.
        since: Only acts at this moment or later, timezone-aware.
        until: Only acts before this moment.
        before: Only rows before this number: the ``next`` of the previous page.
        limit: The maximum number of rows, from 1 to 1,000.
    """

    user: str
    tenant: str
    kind: AuditKind | None
    action: str
    run_id: str
    subject: str
    tool: str
    argument: str
    since: datetime | None
    until: datetime | None
    before: int
    limit: int


class AuditQuery(NamedTuple):
    """``AuditFilters`` with defaults filled in."""

    user: str = ""
    tenant: str = ""
    kind: AuditKind | None = None
    action: str = ""
    run_id: str = ""
    subject: str = ""
    tool: str = ""
    argument: str = ""
    since: datetime | None = None
    until: datetime | None = None
    before: int = 0
    limit: int = 100

    def check(self) -> None:
        """Raise Misuse if a filter is not valid."""
        check_whole("limit", self.limit, least=1)
        if self.limit > MOST_ROWS:
            raise Misuse(f"limit is {self.limit}: give at most {MOST_ROWS}, and read on by before")
        if self.kind not in (None, *KINDS):
            raise Misuse(f"kind is {self.kind!r}: give one of {', '.join(KINDS)}")
        check_moment("since", self.since)
        check_moment("until", self.until)
        if self.argument:
            condition_of(self.argument)

    def holds(self, row: AuditRow) -> bool:
        """Whether a row matches the filters, apart from the place and the limit."""
        named = ("user", "kind", "action", "run_id", "subject", "tool")
        at = row.at
        return bool(
            all(getattr(self, name) in ("", None, getattr(row, name)) for name in named)
            and self.tenant in ("", row.tenant, row.run_tenant)
            and (self.since is None or (at is not None and at >= self.since))
            and (self.until is None or (at is not None and at < self.until))
        )


class AuditPage(Value, frozen=True, kw_only=True):
    """A page of the audit.

    Attributes:
        rows: The rows, newest first.
        next: Read on with this as ``before``; None if there are no more rows. A page may be short,
            even empty, and have a next one: a condition on arguments looks at 10,000 rows a page.
    """

    rows: tuple[AuditRow, ...]
    next: int | None = None


class WebSession(Value, frozen=True, kw_only=True):
    """A user who is signed in with a browser.

    Attributes:
        id: Names the session; not what the browser holds.
        user: The user.
        tenant: The user's tenant.
        name: The user's name for people, "" if the provider gave none.
        groups: The user's groups at the provider; what they may do follows from these.
        subject: The issuer of the account and its id there, with a space between.
        provider_session: The id of the provider's session, "" if it gave none.
        id_token: The last identity token, for signing out at the provider.
        address: The address that signed in.
        browser: The browser that signed in, as it names itself.
        started_at: When the user signed in.
        seen_at: When the last request came, to the minute.
        until: When the session ends at the latest.
    """

    id: str
    user: str
    tenant: str = ""
    name: str = ""
    groups: tuple[str, ...] = ()
    subject: str = ""
    provider_session: str = ""
    id_token: str = ""
    address: str = ""
    browser: str = ""
    started_at: Moment
    seen_at: Moment
    until: Moment


class SessionFilters(TypedDict, total=False):
    """Which sessions; a filter that is not given matches every session.

    Attributes:
        id: Only this session.
        user: Only sessions of this user, of *tenant* or of none.
        tenant: Only sessions of this tenant.
        subject: Only sessions of this account at its provider.
        provider_session: Only those that belong to this session of the provider.
    """

    id: str
    user: str
    tenant: str
    subject: str
    provider_session: str


SESSIONS = "sessions"
"""Topic: sessions ended, or the groups of their users changed."""


class AuditLog(Protocol):
    """The audit and the web sessions of a journal."""

    async def add_audit(self, row: AuditRow, *, once: str = "") -> None:
        """Add a row.

        Args:
            row: The row; number and time are the journal's.
            once: If not "", the row is added only if no earlier one has this mark.
        """
        ...

    async def audit(self, **filters: Unpack[AuditFilters]) -> AuditPage:
        """Return rows of the audit, newest first.

        Raises:
            Misuse: A filter is not valid.
        """
        ...

    async def remove_audit(self, before: datetime) -> int:
        """Remove the rows before a moment; returns their number. A row says that it was done."""
        ...

    async def open_session(self, key: str, session: WebSession) -> None:
        """Store a session; the other sessions of the account get its groups.

        Args:
            key: A digest of what the browser holds; only with it ``session`` finds the session.
            session: The session.
        """
        ...

    async def session(self, key: str) -> WebSession | None:
        """Return the session of a key, even an expired one; None if there is none."""
        ...

    async def touch_session(self, key: str, at: datetime) -> None:
        """Record when the last request of a session came."""
        ...

    async def sessions(self, **filters: Unpack[SessionFilters]) -> Sequence[WebSession]:
        """Return sessions, last seen first."""
        ...

    async def end_sessions(
        self, row: AuditRow, **filters: Unpack[SessionFilters]
    ) -> Sequence[WebSession]:
        """End sessions; each adds *row* to the audit, with its id as the subject.

        Returns:
            The sessions that were ended.
        """
        ...

    async def drop_sessions(self, *, unseen_since: datetime, now: datetime) -> None:
        """Remove sessions that are over, or were not seen since a moment."""
        ...


_METHODS = [name for name in vars(AuditLog) if not name.startswith("_")]


def needs_audit(journal: object) -> AuditLog:
    """Return *journal* as an audit.

    Raises:
        Misuse: It keeps none.
    """
    if not _keeps_audit(type(journal)):
        kind = type(journal).__name__
        raise Misuse(f"{kind} keeps no audit: give a file's path, a URL or a journal of upshot")
    return cast("AuditLog", journal)


@cache
def _keeps_audit(kind: type) -> bool:
    return all(callable(getattr(kind, name, None)) for name in _METHODS)


async def add_act(
    journal: object, action: str, *, run_id: str = "", subject: str = "", detail: str = ""
) -> None:
    """Add the row of an act of the current actor, if the journal keeps an audit.

    That a user saw something is added once an hour. That, and an export, is lost where the journal
    cannot be written, such as on a standby: a run can be read there.

    Args:
        journal: The journal.
        action: What is about to be done.
        run_id: The run, "" for none.
        subject: What in it, or instead of one.
        detail: More about it.

    Raises:
        JournalError: The journal cannot be written, and the act does more than read.
    """
    if not _keeps_audit(type(journal)):
        return
    row = row_of(action, run_id=run_id, subject=subject, detail=detail)
    hour = f"{datetime.now(UTC):%Y-%m-%dT%H}"
    mark = encode([row.user, row.tenant, run_id, subject, hour]).decode()
    with suppress(JournalError) if action in ("see", "export") else nullcontext():
        await needs_audit(journal).add_audit(row, once=mark if action == "see" else "")


async def add_approval(
    journal: object,
    approval: ApprovalRecord,
    *,
    run_id: str,
    call_id: str,
    tool: str,
    arguments: JsonObject,
) -> None:
    """Add the row of an approval that was not an answer to this call's question.

    Args:
        journal: The journal; nothing is added if it keeps no audit.
        approval: A standing one, or one that code gave.
        run_id: The run of the call.
        call_id: The call.
        tool: Its tool.
        arguments: Its arguments, with secrets masked.

    Raises:
        JournalError: The journal cannot be written.
    """
    if not _keeps_audit(type(journal)):
        return
    is_standing = approval.decision == "always"
    row = row_of(
        "edit" if approval.decision == "edited" else "approve",
        user=approval.by,
        run_id=run_id,
        subject=call_id,
        tool=tool,
        arguments=arguments,
        digest=approval.digest,
        detail=f"standing approval: {approval.scope}" if is_standing else "by code",
    )
    # A call that is repeated after a crash was approved once.
    mark = encode(["approval", run_id, call_id, approval.digest]).decode()
    await needs_audit(journal).add_audit(row, once=mark)


def row_of(action: str, **facts: Any) -> AuditRow:
    """Return the row of an act of the current actor.

    Args:
        action: What is done.
        facts: Further fields of the row; the *user* is the actor if none is given.
    """
    actor = current_actor()
    facts["user"] = facts.get("user") or actor.user
    facts["detail"] = str(facts.get("detail", ""))[:_DETAIL_CHARS]
    return AuditRow(
        action=action,
        kind=_KIND_OF.get(action, "operated"),
        tenant=actor.tenant,
        door=actor.door,
        session=actor.session,
        address=actor.address,
        **facts,
    )


def row_of_answer(placed: PlacedAnswer, shown: AnyAnswer | None = None) -> AuditRow | None:
    """Return the row of an answer; None for a signal, which answers nothing that was asked.

    ``with_question`` adds what the journal knows of the question. *shown* is what the row has
    instead of the answer.
    """
    if placed.key:
        return None
    answer = shown or placed.answer
    detail, arguments = "", None
    if isinstance(answer, Approve):
        detail = f"always: {answer.always}" if answer.always else ""
    elif isinstance(answer, Deny):
        detail = answer.reason
    elif isinstance(answer, Edit):
        arguments = decode(
            hide_all_marks(encode(answer.arguments).decode()), decoder_of(dict[str, Json])
        )
    else:
        detail = encode(answer.value).decode()
    action = type(answer).__name__.lower()
    subject = answer.id if isinstance(answer, Answer) else answer.call_id
    return row_of(
        action,
        user=answer.by,
        run_id=placed.run_id,
        subject=subject,
        digest="" if isinstance(answer, Answer) else answer.digest,
        arguments=arguments,
        detail=hide_all_marks(detail),
    )


def with_question(row: AuditRow, asked: Pending | None, tenant: str) -> AuditRow:
    """Return the row of an answer with its tool, its arguments and the tenant of its run."""
    tool = "" if asked is None else tool_of(asked)
    arguments = row.arguments
    if arguments is None and isinstance(asked, PendingApproval):
        arguments = asked.arguments
    return replace(row, tool=tool, arguments=arguments, run_tenant=tenant)


def row_of_settlement(settlement: Settlement) -> AuditRow:
    """Return the row of a settlement; ``with_effect`` adds the effect."""
    note = f": {settlement.note}" if settlement.note else ""
    return row_of("settle", user=settlement.by, detail=f"{settlement.effect.value}{note}")


def with_effect(row: AuditRow, entry: EffectEntry) -> AuditRow:
    """Return the row of a settlement with its effect."""
    return replace(
        row,
        run_id=entry.run_id,
        run_tenant=entry.tenant,
        subject=entry.id,
        tool=entry.tool_name,
    )


def row_of_removal(
    run_ids: Sequence[str], ended_before: datetime | None, conversation: str, *, archived: bool
) -> AuditRow:
    """Return the row of a removal of runs; ``with_count`` adds their number."""
    age = "" if ended_before is None else f", which ended before {ended_before.isoformat()}"
    named = f": {', '.join(run_ids)}" if run_ids else age
    return row_of("archive" if archived else "prune", subject=conversation, detail=named)


def with_count(row: AuditRow, count: int) -> AuditRow:
    """Return the row of an act on several runs with their number."""
    return replace(row, detail=f"{count} runs{row.detail}"[:_DETAIL_CHARS])


def detail_of_ending(session: WebSession, row: AuditRow) -> str:
    """Return the detail for the *row* of an ended session: its user, if another user ended it."""
    return row.detail if session.user == row.user else f"of {session.user}"


# -- conditions on arguments

_CONDITION = re.compile(r"\s*([^=!<>\s]+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NOWHERE = object()


def condition_of(text: str) -> Callable[[JsonObject | None], bool]:
    """Return whether arguments meet a condition, such as "amount>100"; None meets none.

    Raises:
        Misuse: It is not a condition.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise Misuse(
            f"argument is {text[:80]!r}: give a condition, such as amount>100 or customer.id=7; "
            "the operators are =, !=, <, <=, > and >="
        )
    path, sign, wanted = found.groups()
    if sign in _ORDERS and _to_number(wanted) is None:
        raise Misuse(f"argument is {text[:80]!r}: {sign} compares numbers; give one after it")
    return lambda arguments: _meets(_find(arguments, path.split(".")), sign, wanted)


def _find(value: object, path: Sequence[str]) -> object:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return _NOWHERE
        value = cast("dict[str, object]", value)[name]
    return value


def _meets(value: object, sign: str, wanted: str) -> bool:
    if value is _NOWHERE:
        return False
    number, other = _to_number(value), _to_number(wanted)
    if sign in _ORDERS:
        return number is not None and other is not None and _ORDERS[sign](number, other)
    if number is not None and other is not None:
        is_same = number == other
    else:
        is_same = (value if isinstance(value, str) else encode(value).decode()) == wanted
    return is_same == (sign == "=")


def _to_number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
