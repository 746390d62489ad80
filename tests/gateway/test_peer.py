"""A peer and its channel: requests of both sides, progress, cancels, and what breaks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from upshot.gateway.channels import OwnChannel
from upshot.gateway.peer import NOTHING, About, Context, Message, Peer

LONG = "x" * 1_000_000


class Other:
    """The other side of a peer: what it sends and what it gets, as messages."""

    def __init__(self) -> None:
        self.to_peer: asyncio.Queue[Any] = asyncio.Queue()
        self.got: asyncio.Queue[Message] = asyncio.Queue()
        self.unanswered: list[str] = []

    async def receive(self) -> Any:
        return await self.to_peer.get()

    async def send(self, message: Message, about: About) -> None:
        self.got.put_nowait(message)

    def say(self, about: About = NOTHING, **fields: Any) -> None:
        self.to_peer.put_nowait((Message("2.0", **fields), about))

    def end(self) -> None:
        self.to_peer.put_nowait(None)


@asynccontextmanager
async def peer_of(other: Other, on_request: Any = None) -> AsyncGenerator[Peer]:
    async def ignore(method: str, params: Any) -> None:
        raise RuntimeError(method)

    peer = Peer(other)
    task = asyncio.ensure_future(peer.run(on_request, ignore))
    try:
        yield peer
    finally:
        other.end()
        await task


async def test_requests_are_answered_by_result_error_or_silence_about_faults():
    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        if method == "refuse":
            raise MCPError(-5, "no", {"why": 1})
        if method == "break":
            raise RuntimeError("a secret")
        return {"given": params}

    other = Other()
    async with peer_of(other, answer):
        for id, method in enumerate(["say", "refuse", "break"]):
            other.say(id=id, method=method, params={"a": 1})
        other.say(method="notifications/that/fail")
        got = [await other.got.get() for _ in range(3)]
    assert [one.id for one in got] == [0, 1, 2]
    assert got[0].result == {"given": {"a": 1}}
    assert got[1].error is not None and got[1].error.data == {"why": 1}
    assert got[2].error is not None and "secret" not in got[2].error.message


async def test_progress_finds_its_request_by_the_id_that_was_given_to_it():
    other, seen = Other(), list[Any]()

    async def note(said: Any) -> None:
        seen.append(said)

    async with peer_of(other) as peer:
        params = {"_meta": {"progressToken": "theirs", "more": 1}}
        task = asyncio.ensure_future(peer.request("call", params, note))
        sent = await other.got.get()
        assert sent.params == {"_meta": {"progressToken": sent.id, "more": 1}}
        said = {"progress": 1, "future": "word"}
        other.say(method="notifications/progress", params={"progressToken": sent.id, **said})
        # Some peers give a number back as a text.
        other.say(id=str(sent.id), result={"done": True})
        assert await task == {"done": True}
    assert seen == [said]


@pytest.mark.parametrize("is_at_once", [True, False])
async def test_a_cancel_ends_the_request_its_own_request_and_no_other(is_at_once: bool):
    begun, other, beyond = asyncio.Event(), Other(), Other()
    unanswered = asyncio.Event()

    async def ended() -> None:
        unanswered.set()

    async with peer_of(beyond) as far:

        async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
            begun.set()
            return await far.request("call", params)

        async with peer_of(other, answer):
            other.say(About(on_unanswered=ended), id="a", method="call")
            if not is_at_once:
                await begun.wait()
            other.say(method="notifications/cancelled", params={"requestId": "a"})
            await asyncio.wait_for(unanswered.wait(), 30)
            assert other.got.empty()
            sent, cancel = await beyond.got.get(), await beyond.got.get()
    assert (cancel.method, cancel.params) == (
        "notifications/cancelled",
        {"requestId": sent.id, "reason": "cancelled"},
    )


async def test_the_end_fails_what_waits_and_cancels_what_is_answered():
    other = Other()

    async def wait(context: Context, method: str, params: Any) -> dict[str, Any]:
        return await asyncio.get_running_loop().create_future()

    async with peer_of(other, wait) as peer:
        task = asyncio.ensure_future(peer.request("call", None))
        await other.got.get()
        other.say(id=7, method="call")
        other.say(method="notifications/that/fail")
    with pytest.raises(MCPError) as caught:
        await task
    assert caught.value.code == CONNECTION_CLOSED
    last = other.got.get_nowait()
    assert (last.id, last.error and last.error.code) == (7, CONNECTION_CLOSED)
    with pytest.raises(MCPError, match="closed"):
        await peer.request("call", None)


async def test_a_handshake_is_overtaken_by_nothing():
    other, order = Other(), list[str]()

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        for _ in range(9 if method == "initialize" else 0):
            await asyncio.sleep(0)
        order.append(method)
        return {}

    async with peer_of(other, answer):
        other.say(id=1, method="initialize")
        other.say(id=2, method="tools/list")
        assert [(await other.got.get()).id for _ in range(2)] == [1, 2]
    assert order == ["initialize", "tools/list"]


@asynccontextmanager
async def own_pipes() -> AsyncGenerator[tuple[OwnChannel, int, int]]:
    """A channel over pipes, the end that feeds it, and the end that it writes to."""
    (input, feeder), (reader, output) = os.pipe(), os.pipe()
    try:
        yield OwnChannel(input, output), feeder, reader
    finally:
        for one in (feeder, input, reader, output):
            with suppress(OSError):
                os.close(one)


async def test_own_output_waits_for_a_slow_reader_and_keeps_the_order():
    async with own_pipes() as (channel, _, reader):
        first = asyncio.ensure_future(channel.send(Message("2.0", method=LONG), NOTHING))
        second = asyncio.ensure_future(channel.send(Message("2.0", method="b"), NOTHING))
        await asyncio.sleep(0)
        assert not first.done() and not second.done()

        def read() -> bytes:
            with open(reader, "rb", closefd=False) as file:
                return file.readline() + file.readline()

        read_all = await asyncio.to_thread(read)
        await asyncio.gather(first, second)
    assert read_all == b'{"jsonrpc":"2.0","method":"%s"}\n{"jsonrpc":"2.0","method":"b"}\n' % (
        LONG.encode()
    )


async def test_own_output_that_is_closed_is_told():
    async with own_pipes() as (channel, _, reader):
        waiting = asyncio.ensure_future(channel.send(Message("2.0", method=LONG), NOTHING))
        await asyncio.sleep(0)
        os.close(reader)
        with pytest.raises(OSError):
            await waiting


async def test_own_input_passes_over_lines_that_are_no_messages():
    async with own_pipes() as (channel, feeder, _):
        os.write(feeder, b'nonsense\n[]\n{"jsonrpc":"2.0","method":"a"}\n{"jsonrpc":"2.0","id":1}')
        os.close(feeder)
        found = [await channel.receive() for _ in range(3)]
    assert [one and (one[0].method, one[0].id) for one in found] == [("a", None), ("", 1), None]
