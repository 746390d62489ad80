"""Links by which users answer items of the inbox without signing in; notifications contain them.

A link is signed. It names one item, as its question was asked, one user, and the moment until which
it is valid. Opening it shows the item; only the form on that page answers. The journal stores which
answer a link is used for before that is given, so a link answers once: another answer is refused,
and the same one again finishes what a dead process began.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import Allowed, check_argument
from upshot.contract.base.enums import Origin
from upshot.contract.base.structs import ArgumentsMeta
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.error import RunWarning
from upshot.contract.pending import AnyAnswer, PendingExternal
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.errors import Misuse
from upshot.journal.shared import (
    AnswerLink,
    InboxItem,
    SharedValues,
    needs_shared,
    used_links_of,
)
from upshot.runs.callbacks import call, raised

_LEAST_KEY_CHARS = 32
_ABOUT = b"upshot answer link 1\n"
_USERS = Allowed("a list of user ids, or a function of the item that returns one", (list, tuple))


class LinkRefused(Misuse):
    """A link that is not valid, or no longer valid.

    Attributes:
        is_over: Whether it was valid once.
    """

    def __init__(self, message: str, *, is_over: bool = False) -> None:
        super().__init__(message)
        self.is_over: bool = is_over


class LinkClaim(NamedTuple):
    """What a valid link is for.

    Attributes:
        run_id: The run.
        key: The key of the item, which names its question.
        user: The user who answers by it.
        expires_at: Until when it is valid.
    """

    run_id: str
    key: str
    user: str
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class AnswerLinks(metaclass=ArgumentsMeta):
    """How the notifications of an App get links by which users answer without signing in.

    Attributes:
        key: Signs the links, at least 32 characters; the same in all processes. It allows to
            answer everything, so keep it secret. With another key, all earlier links are void.
        url: The public address of the console.
        users: The ids of the users who get a link: a list, or a plain function of the
            ``InboxItem``. They may answer the item whatever their roles are.
        life: How long a link is valid; it ends with the item's deadline, too.

    Raises:
        Misuse: The key is too short, the address is no web address, or a field has the wrong type.
    """

    key: str
    url: str
    users: Iterable[str] | Callable[[InboxItem], Iterable[str]]
    life: timedelta = timedelta(days=2)

    def __post_init__(self) -> None:
        if not isinstance(self.key, str) or len(self.key) < _LEAST_KEY_CHARS:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            # The value is not shown, because it is a secret.
            raise Misuse(
                f"the key of AnswerLinks must be a text of at least {_LEAST_KEY_CHARS} characters, "
                "such as secrets.token_urlsafe(32) returns"
            )
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Misuse(f"url is {self.url!r}: give an address that begins with https://")
        if not callable(self.users):
            check_argument("users of AnswerLinks", self.users, _USERS)
        if not isinstance(self.life, timedelta) or self.life <= timedelta():  # pyright: ignore[reportUnnecessaryIsInstance]  # the same
            raise Misuse(f"life is {self.life!r}: give a timedelta above 0")

    def __repr__(self) -> str:
        return f"AnswerLinks({self.url})"

    def links_of(self, item: InboxItem, *, now: datetime | None = None) -> tuple[AnswerLink, ...]:
        """Return the links to an item, one for each user; none for the result of another system.

        Args:
            item: The item.
            now: When they are made; None is now.

        Raises:
            Exception: Whatever ``users`` raises.
        """
        if isinstance(item.pending, PendingExternal):
            return ()
        given = self.users(item) if callable(self.users) else self.users
        users = [given] if isinstance(given, str) else given
        ends = (now or SYSTEM_CLOCK.now()) + self.life
        if item.due is not None:
            ends = min(ends, item.due)
        return tuple(self._link(item, user, ends) for user in dict.fromkeys(users))

    def _link(self, item: InboxItem, user: str, ends: datetime) -> AnswerLink:
        seconds = int(ends.timestamp())
        body = _to_text(msgspec.json.encode([item.run_id, item.key, user, seconds]))
        url = f"{self.url.rstrip('/')}/answer/{body}.{_to_text(self._sign(body))}"
        return AnswerLink(user=user, url=url, expires_at=datetime.fromtimestamp(seconds, UTC))

    def _sign(self, body: str) -> bytes:
        return hmac.new(self.key.encode(), _ABOUT + body.encode(), hashlib.sha256).digest()

    def read(self, token: str, *, now: datetime | None = None) -> LinkClaim:
        """Return what the last part of a link is for.

        Args:
            token: The last part of its path.
            now: The present moment; None is now.

        Raises:
            LinkRefused: It was not signed with this key, or it has expired.
        """
        body, _, signature = token.partition(".")
        if not hmac.compare_digest(_to_bytes(signature), self._sign(body)):
            raise LinkRefused("this link is not valid: open it exactly as it was sent")
        run_id, key, user, seconds = msgspec.json.decode(
            _to_bytes(body), type=tuple[str, str, str, int]
        )
        ends = datetime.fromtimestamp(seconds, UTC)
        if (now or SYSTEM_CLOCK.now()) >= ends:
            raise LinkRefused("this link has expired: answer in the console", is_over=True)
        return LinkClaim(run_id, key, user, ends)


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _to_bytes(text: str) -> bytes:
    """Return the bytes of a text in base64; empty if it has another form."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


async def use_link(claim: LinkClaim, answer: AnyAnswer, journal: Journal) -> None:
    """Store that a link is used for *answer*.

    Raises:
        LinkRefused: It was used for another answer.
    """
    name = used_links_of(claim.run_id)[0]
    asked = hashlib.sha256(f"{claim.user}\n{claim.key}".encode()).hexdigest()
    # Only its digest, because an answer may have content.
    digest = hashlib.sha256(encode(answer)).hexdigest()

    def change(values: SharedValues) -> str:
        text = values.read(name)
        used: dict[str, str] = decode(text.encode(), decoder_of(dict[str, str])) if text else {}
        if asked not in used:
            values.write(name, encode({**used, asked: digest}).decode())
        return used.get(asked, digest)

    if await needs_shared(journal).change_values(change) != digest:
        raise LinkRefused("this link was used for another answer, and works once", is_over=True)


Notify = Callable[[Sequence[InboxItem]], Any]


async def notify_parked(
    result: AgentResult[Any], journal: Journal, notify: Notify, links: AnswerLinks | None
) -> AgentResult[Any]:
    """Call *notify* with what a parked run waits for, each item with its links."""
    items = await needs_shared(journal).inbox(run_id=result.run_id)
    if not items:
        return result
    try:
        await call(notify, [with_links(one, links) for one in items])
    except Exception as error:
        # The caller's function failed; the run is parked all the same.
        message = raised("notify", error)
        warning = RunWarning(code="notify_failed", message=message, origin=Origin.HOST)
        return replace(result, warnings=(*result.warnings, warning))
    return result


def with_links(item: InboxItem, links: AnswerLinks | None) -> InboxItem:
    """Return an item with its links."""
    return item if links is None else replace(item, links=links.links_of(item))
