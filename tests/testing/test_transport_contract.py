"""The suite for transports, on the default one, on one of httpx, and on some that are wrong."""

import asyncio
from contextlib import asynccontextmanager
from importlib.util import find_spec

import pytest

from upshot.models import AiohttpTransport, TransportError, decode_body
from upshot.testing import TransportContract, check_transport


class TestAiohttp(TransportContract):
    def make(self):
        return AiohttpTransport()


class HttpxTransport:
    """The example of docs/models.md, with a client for each event loop."""

    def __init__(self, httpx):
        self._httpx = httpx
        self._clients = {}

    def _client(self):
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._httpx.AsyncClient(trust_env=False)
        return self._clients[loop]

    @asynccontextmanager
    async def send(self, method, url, headers, body, *, timeouts):
        limits = (timeouts.connect_s, timeouts.read_s, timeouts.read_s, None)
        client = self._client()
        async with asyncio.timeout(timeouts.total_s):
            asked = client.stream(method, url, headers=headers, content=body, timeout=limits)
            async with asked as reply:
                body = decode_body(reply.aiter_raw(), reply.headers.get("content-encoding", ""))
                yield reply.status_code, reply.headers.multi_items(), body

    async def aclose(self):
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


HTTPX = next((name for name in ("httpx", "httpx2") if find_spec(name)), None)


@pytest.mark.slow
@pytest.mark.skipif(HTTPX is None, reason="httpx is not installed")
class TestHttpx(TransportContract):
    def make(self):
        return HttpxTransport(__import__(HTTPX))


class Wrapped:
    """The default transport, with one mistake that a subclass makes."""

    def __init__(self):
        self.inner = AiohttpTransport()

    async def aclose(self):
        await self.inner.aclose()


class SendsAgain(Wrapped):
    @asynccontextmanager
    async def send(self, *asked, timeouts):
        try:
            async with self.inner.send(*asked, timeouts=timeouts) as answered:
                yield answered
                return
        except TransportError:
            pass
        async with self.inner.send(*asked, timeouts=timeouts) as answered:
            yield answered


class HidesCuts(Wrapped):
    @asynccontextmanager
    async def send(self, *asked, timeouts):
        async def pieces(chunks):
            try:
                async for chunk in chunks:
                    yield chunk
            except TransportError:
                pass

        async with self.inner.send(*asked, timeouts=timeouts) as (status, fields, chunks):
            yield status, fields, pieces(chunks)


class Lies(Wrapped):
    @asynccontextmanager
    async def send(self, *asked, timeouts):
        try:
            async with self.inner.send(*asked, timeouts=timeouts) as answered:
                yield answered
        except TransportError as error:
            error.phase = "unsent"
            raise


class KeepsGoing(Wrapped):
    def __init__(self):
        super().__init__()
        self.going = []

    async def aclose(self):
        for task in self.going:
            task.cancel()
        await asyncio.gather(*self.going, return_exceptions=True)
        await super().aclose()

    @asynccontextmanager
    async def send(self, *asked, timeouts):
        entered = self.inner.send(*asked, timeouts=timeouts)
        task = asyncio.ensure_future(entered.__aenter__())
        self.going.append(task)
        yield await asyncio.shield(task)
        await entered.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("kind", "check", "said"),
    [
        (SendsAgain, "test_nothing_is_sent_twice", "sent 2 times"),
        (HidesCuts, "test_a_reply_that_is_cut_is_an_error", "as a whole reply"),
        (Lies, "test_nothing_is_sent_twice", "denies it"),
        (KeepsGoing, "test_a_cancel_while_it_waits_closes_the_connection", "patience_s"),
    ],
    ids=["sends again", "hides cuts", "lies about the phase", "goes on after a cancel"],
)
async def test_a_transport_that_is_wrong_is_found(kind, check, said):
    class Checked(TransportContract):
        make = kind
        patience_s = 3 if kind is KeepsGoing else 30

    with pytest.raises(AssertionError, match=said):
        await getattr(Checked(), check)()


class Broken:
    def send(self, *asked, timeouts):
        raise ValueError("not today")


def test_check_transport_names_the_check_that_failed():
    with pytest.raises(AssertionError, match=r"[a-z]{3,}: not today"):
        check_transport(Broken)
