"""Sends a signed POST to an address for each inbox item that waits for people.

The item is in the inbox until it is answered, and the journal stores beside it when to send next:
a killed process loses none, and no run waits for a receiver. The format is Standard Webhooks,
https://github.com/standard-webhooks/standard-webhooks (read 2026-11).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote, urlsplit

from upshot.contract.codec import encode
from upshot.errors import JournalError, Misuse
from upshot.fleet.answer_links import with_links
from upshot.fleet.app import App
from upshot.journal.shared import InboxItem, SharedJournal, Unsent, needs_shared
from upshot.journal.work_listeners import work_listeners
from upshot.models.aiohttp_transport import AiohttpTransport
from upshot.models.transport import Timeouts, Transport, TransportError
from upshot.runs.callbacks import raised

KEY_VARIABLE = "UPSHOT_NOTIFY_KEY"
"""The environment variable that has the key."""
_KEY_MARK = "whsec_"
_LOOK_S = 1.0
_AT_ONCE = 10
_LONGEST_WAIT_S = 600.0
_OK = range(200, 300)

logger: logging.Logger = logging.getLogger("upshot.notifier")


class Notifier:
    """Sends the items of an App's inbox to *url*, each at least once, until it is stopped.

    A reply of 2xx settles an item. After any other reply, or none, it is sent again after 1, 2, 4
    and so on up to 600 seconds, until it is answered.

    Args:
        app: The App with the inbox.
        url: The receiver's address; http or https.
        key: Signs what is sent; ``whsec_`` and base64, or any text.
        console_url: The console's address for people; the body's ``url`` leads to the item there.
        timeout_s: How long the receiver may take.
        transport: Sends the requests; None uses aiohttp.

    Raises:
        Misuse: *url* or *console_url* is not a web address, or *key* is empty or not base64.
    """

    def __init__(
        self,
        app: App,
        url: str,
        *,
        key: str,
        console_url: str = "",
        timeout_s: float = 10.0,
        transport: Transport | None = None,
    ) -> None:
        for name, given in (("url", url), ("console_url", console_url)):
            parts = urlsplit(given)
            if given and not (parts.scheme in ("http", "https") and parts.hostname):
                raise Misuse(f"{name} is {given!r}: give an address that begins with https://")
        self._app = app
        self._url = url
        self._key = _key_of(key)
        self._console_url = console_url.rstrip("/")
        self._timeout_s = timeout_s
        self._transport: Transport = transport or AiohttpTransport()

    async def work(self) -> None:
        """Send due items until it is cancelled; wait while the journal cannot be reached."""
        while True:
            try:
                sent = await self.send_due()
            except JournalError as error:
                logger.warning("%s", error)
                sent = 0
            if not sent:
                await asyncio.sleep(_LOOK_S)

    async def send_due(self) -> int:
        """Send the items that are due now; return how many there were."""
        journal = needs_shared(await self._app.open())
        # Reserve them this long; if this process is killed, others send them then.
        kept_s = self._timeout_s + 1
        found = await journal.pop_unsent(self._app.agents, limit=_AT_ONCE, for_s=kept_s)
        async with asyncio.TaskGroup() as tasks:
            for one in found:
                tasks.create_task(self._notify(one, journal))
        return len(found)

    async def _notify(self, one: Unsent, journal: SharedJournal) -> None:
        why_not = await self._send(one.item)
        for listener in work_listeners():
            listener.notified(is_delivered=not why_not)
        if not why_not:
            await journal.mark_sent(one, again_s=None)
            return
        again_s = min(_LONGEST_WAIT_S, 2.0 ** min(one.tries, 10))
        about = {"run_id": one.item.run_id, "agent": one.item.agent_id}
        text = "%s was not notified of run %s: %s"
        logger.warning(text, self._url, one.item.run_id, why_not, extra=about)
        await journal.mark_sent(one, again_s=again_s)

    async def _send(self, item: InboxItem) -> str:
        """Send an item; return why it failed, or "" if it was accepted."""
        id = hashlib.sha256(item.key.encode(errors="surrogatepass")).hexdigest()[:32]
        page = f"{self._console_url}/runs/{quote(item.run_id, safe='')}"
        link = f"{page}#{quote(item.pending.id, safe='')}" if self._console_url else ""
        try:
            item = with_links(item, self._app.answer_links)
        except Exception as error:  # the caller's function; the item is sent again later
            return raised("users of AnswerLinks", error)
        payload = {"type": "inbox.item", "id": id, "url": link, "item": item}
        body = encode(payload)
        headers = _sign(self._key, id, body)
        timeouts = Timeouts(read_s=self._timeout_s, total_s=self._timeout_s)
        try:
            async with self._transport.send(
                "POST", self._url, headers, body, timeouts=timeouts
            ) as (status, _, _pieces):
                return "" if status in _OK else f"it replied {status}"
        except TransportError as error:
            return str(error)


def _key_of(key: str) -> bytes:
    if not key:
        raise Misuse(f"there is no key to sign with: set {KEY_VARIABLE}")
    if not key.startswith(_KEY_MARK):
        return key.encode()
    try:
        return base64.b64decode(key.removeprefix(_KEY_MARK), validate=True)
    except binascii.Error as error:
        raise Misuse(f"{KEY_VARIABLE} starts with {_KEY_MARK}, and base64 must follow") from error


def _sign(key: bytes, id: str, body: bytes) -> Mapping[str, str]:
    at = str(int(time.time()))
    digest = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


@asynccontextmanager
async def notifying(app: App, url: str, console_url: str) -> AsyncGenerator[None]:
    """Run a ``Notifier`` inside the block, with the key from the environment; no-op without *url*.

    Raises:
        Misuse: As for ``Notifier``.
    """
    if not url:
        yield
        return
    key = os.environ.get(KEY_VARIABLE, "")
    notifier = Notifier(app, url, key=key, console_url=console_url)
    task = asyncio.create_task(notifier.work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
