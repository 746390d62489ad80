"""The page of an answer link: one item of the inbox, for a user who is not signed in.

Opening it changes nothing, because programs that scan mail open links; only its form answers. It
has no script, and shows nothing of the run but the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from upshot.contract.base.enums import Effect
from upshot.contract.base.words import moment, visible
from upshot.contract.codec import encode
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Outdated,
    PendingApproval,
    PendingEffect,
    PendingExternal,
    PendingQuestion,
    Taken,
)
from upshot.errors import Misuse
from upshot.fleet.answer_links import LinkClaim, LinkRefused
from upshot.journal.audit import Actor, acting
from upshot.journal.shared import InboxItem
from upshot.serve.permissions import Missing
from upshot.state.run_page import question_html

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from upshot.serve.site import Site

_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    # With "no-referrer" a browser would send the form without its origin. Other sites get none.
    "referrer-policy": "same-origin",
    "x-robots-tag": "noindex",
}
_GONE, _USED = 410, 409


def routes(site: Site) -> list[BaseRoute]:
    """Return the route of the page."""
    page = _AnswerPage(site)
    return [
        Route("/answer/{token}", page.show, methods=["GET"]),
        Route("/answer/{token}", page.answer, methods=["POST"]),
    ]


class _Opened(NamedTuple):
    """What a valid link leads to; the item is None if it does not wait any more."""

    claim: LinkClaim
    item: InboxItem | None


class _AnswerPage:
    """The handlers of one site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show(self, request: Request) -> Response:
        """Return the page of an item; it changes nothing."""
        try:
            claim, item = await self._open(request)
        except LinkRefused as error:
            return _refusal(request, error)
        if item is None:
            return _page(request, "It no longer waits", _over(), status=_GONE)
        if isinstance(item.pending, PendingApproval) and item.pending.approval_of(claim.user):
            text = "<p>You have approved this call; another user must approve it, too.</p>"
            return _page(request, "You have approved it", text + _facts(item, claim), status=_GONE)
        return _page(request, _title(item), _facts(item, claim) + _form(item))

    async def answer(self, request: Request) -> Response:
        """Give the answer that the form sends, once."""
        try:
            claim, item = await self._open(request)
            given = _Fields(await request.body())
            if item is None:
                return _page(request, "It no longer waits", _over(), status=_GONE)
            answer = _answer_of(item, given, claim.user)
            address = request.client.host if request.client else ""
            with acting(Actor(user=claim.user, door="answer_link", address=address)):
                receipt = await self._site.answer_by_link(claim, answer)
        except LinkRefused as error:
            return _refusal(request, error)
        return _receipt(request, receipt)

    async def _open(self, request: Request) -> _Opened:
        links = self._site.app.answer_links
        if links is None:
            raise Missing("there is no such page")
        claim = links.read(request.path_params["token"])
        items = await self._site.app.inbox(run_id=claim.run_id, limit=None)
        return _Opened(claim, next((one for one in items if one.key == claim.key), None))


class _Fields:
    """The fields of a form."""

    def __init__(self, body: bytes) -> None:
        self._given = parse_qs(body.decode(errors="replace"), keep_blank_values=True)

    def __getitem__(self, name: str) -> str:
        return self._given.get(name, [""])[0].strip()


def _answer_of(item: InboxItem, given: _Fields, user: str) -> AnyAnswer:
    """Return the answer that a form gives.

    Raises:
        Misuse: It has no answer, or one that is not offered.
    """
    pending, value = item.pending, given["answer"]
    match pending:
        case PendingApproval():
            if value == "approve":
                return pending.approve(by=user)
            if value == "deny":
                return pending.deny(given["note"], by=user)
        case PendingEffect():
            if value in pending.choices:
                note = given["note"]
                return Answer(pending.id, value, by=user, note=note, digest=pending.digest)
        case PendingQuestion(choices=choices, schema=schema):
            is_text = not schema or schema.get("type") == "string"
            if value and (value in choices or (not choices and is_text)):
                return Answer(pending.id, value, by=user)
        case PendingExternal():
            pass
    raise Misuse(f"{value[:80]!r} is no answer to this: use a button of the page")


# -- HTML: whatever a model, a tool or a user wrote goes through _text


def _text(text: str) -> str:
    return escape(" ".join(visible(text).split()))


def _title(item: InboxItem) -> str:
    match item.pending:
        case PendingApproval(tool_name=name):
            return f"May {name} be called?"
        case PendingEffect(tool_name=name):
            return f"Did {name} happen?"
        case _:
            return "A question for you"


def _facts(item: InboxItem, claim: LinkClaim) -> str:
    return "".join(_lines(item, claim))


def _lines(item: InboxItem, claim: LinkClaim) -> Iterator[str]:
    pending = item.pending
    asked = "" if pending.asked_at is None else f", {moment(pending.asked_at)}"
    yield f"<p>The agent <b>{_text(item.agent_id)}</b> asks <b>{_text(claim.user)}</b>{asked}.</p>"
    yield question_html(pending)
    if isinstance(pending, PendingApproval):
        if pending.doubts:
            shown = "".join(f"<li>{_text(encode(one).decode())}</li>" for one in pending.doubts)
            yield f"<p><b>What a stranger may have chosen:</b></p><ul>{shown}</ul>"
        if pending.edited_by:
            yield f"<p><b>{_text(pending.edited_by)}</b> changed the arguments.</p>"
        if pending.approvals > 1:
            given = ", ".join(_text(one.by) for one in pending.approved_by) or "nobody yet"
            yield f"<p>It needs {pending.approvals} different users; approved by {given}.</p>"
        if pending.effect is Effect.DESTRUCTIVE:
            yield "<p><b>It is destructive: it cannot be undone.</b></p>"
    if isinstance(pending, PendingEffect):
        yield f"<p>The tool said: {_text(pending.error) or 'nothing'}</p>"
        yield f"<p>Its key for the service: <code>{_text(pending.idempotency_key)}</code></p>"
    yield (
        '<p class="quiet">Nothing happens until you press a button. This link is for '
        f"{_text(claim.user)} alone, works once, and ends {moment(claim.expires_at)}.</p>"
    )


def _form(item: InboxItem) -> str:
    match item.pending:
        case PendingApproval():
            fields = _field("Reason, if you deny it; the model is given it")
            buttons = _button("approve", "Approve", "primary") + _button("deny", "Deny")
        case PendingEffect():
            fields = _field("What you saw")
            buttons = _button("yes", "It happened") + _button("no", "It did not happen")
        case PendingQuestion(choices=(), schema=schema) if (
            schema and schema.get("type") != "string"
        ):
            return "<p>It needs an answer of a certain form: answer in the console.</p>"
        case PendingQuestion(choices=()):
            fields = '<label>Your answer<textarea name="answer" rows="3"></textarea></label>'
            buttons = '<button class="primary">Answer</button>'
        case PendingQuestion(choices=choices):
            fields, buttons = "", "".join(_button(one, one) for one in choices)
        case _:
            return ""
    return f'<form method="post">{fields}<div class="actions">{buttons}</div></form>'


def _field(label: str) -> str:
    # In a line of text, the Enter key would press the first button.
    return f'<label>{label}<textarea name="note" rows="2" autocomplete="off"></textarea></label>'


def _button(value: str, label: str, kind: str = "") -> str:
    given = f' class="{kind}"' if kind else ""
    return (
        f'<button{given} name="answer" value="{escape(value, quote=True)}">{_text(label)}</button>'
    )


def _over() -> str:
    return "<p>It was answered, or the run asks something else by now.</p>"


def _receipt(request: Request, receipt: Taken | Outdated) -> Response:
    if isinstance(receipt, Outdated):
        text = f"<p>Your answer was not accepted: {_text(receipt.reason)}.</p>"
        return _page(request, "Not accepted", text, status=_USED)
    more = receipt.missing
    users = "user" if more == 1 else "users"
    text = f"<p>{more} more {users} must approve it.</p>" if more else "<p>You may close this.</p>"
    return _page(request, "Your answer is stored", text)


def _refusal(request: Request, error: LinkRefused) -> Response:
    message = str(error)
    text = f"<p>{_text(message[:1].upper() + message[1:])}.</p>"
    return _page(request, "This link does not work", text, status=_GONE if error.is_over else 404)


def _page(request: Request, title: str, body: str, *, status: int = 200) -> Response:
    base = escape(request.scope.get("root_path", ""), quote=True)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_text(title)} · upshot</title>
<link rel="stylesheet" href="{base}/static/console.css">
</head>
<body class="answerpage">
<main>
<h1>{_text(title)}</h1>
{body}
</main>
</body>
</html>
"""
    return HTMLResponse(page, status, _HEADERS)
