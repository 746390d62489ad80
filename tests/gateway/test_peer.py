"""A peer and its channel: requests of both sides, progress, cancels, and what breaks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

from upshot.gateway.channels import OwnChannel, open_own_channel
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


async def test_a_request_under_way_at_the_end_of_the_input_is_answered():
    other, begun, go = Other(), asyncio.Event(), asyncio.Event()

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        begun.set()
        await go.wait()
        return {"made": True}

    peer = Peer(other, linger_s=30)
    task = asyncio.ensure_future(peer.run(answer, answer))  # pyright: ignore[reportArgumentType]
    other.say(id=7, method="call")
    other.end()
    await begun.wait()
    go.set()
    await task
    assert other.got.get_nowait().result == {"made": True}


async def test_a_request_that_waits_for_who_has_gone_does_not_linger():
    other = Other()

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        return await context.request("elicitation/create", None)

    peer = Peer(other, linger_s=30)
    task = asyncio.ensure_future(peer.run(answer, answer))  # pyright: ignore[reportArgumentType]
    other.say(id=7, method="call")
    asked = await other.got.get()
    other.end()
    await task
    answered = other.got.get_nowait()
    assert asked.method == "elicitation/create"
    assert (answered.id, answered.error and answered.error.code) == (7, CONNECTION_CLOSED)


async def test_a_flood_is_refused_and_may_be_cancelled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("upshot.gateway.peer._MOST_AT_ONCE", 2)
    other, unanswered = Other(), asyncio.Event()

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        return {} if method == "last" else await asyncio.get_running_loop().create_future()

    async def ended() -> None:
        unanswered.set()

    async with peer_of(other, answer):
        for id in range(3):
            other.say(About(on_unanswered=ended), id=id, method="call")
        refused = await other.got.get()
        assert refused.id == 2
        assert refused.error is not None and "too many requests" in refused.error.message
        other.say(method="notifications/cancelled", params={"requestId": 0})
        await asyncio.wait_for(unanswered.wait(), 30)
        await asyncio.sleep(0)
        other.say(id=3, method="last")
        assert (await other.got.get()).id == 3


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


async def test_a_ping_is_answered_during_the_handshake():
    other = Other()

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        return await context.request("ping", None) if method == "initialize" else {}

    async with peer_of(other, answer):
        other.say(id="first", method="initialize")
        asked = await other.got.get()
        other.say(id="ping", method="ping")
        assert (await asyncio.wait_for(other.got.get(), 30)).id == "ping"
        other.say(id=asked.id, result={"server": 1})
        assert (await asyncio.wait_for(other.got.get(), 30)).result == {"server": 1}


async def test_the_end_during_the_handshake_ends_what_waits_for_it():
    other, begun = Other(), list[str]()

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        begun.append(method)
        return await asyncio.get_running_loop().create_future()

    peer = Peer(other)
    for id, method in enumerate(["initialize", "tools/list"]):
        other.say(id=id, method=method)
    other.end()
    await asyncio.wait_for(peer.run(answer, answer), 30)  # pyright: ignore[reportArgumentType]
    ended = [other.got.get_nowait() for _ in range(2)]
    assert [one.error and one.error.code for one in ended] == [CONNECTION_CLOSED] * 2
    assert begun == ["initialize"]


async def test_a_cancel_that_comes_too_late_cancels_nothing():
    go, unanswered = asyncio.Event(), asyncio.Event()

    class Late(Other):
        async def receive(self) -> Any:
            item = await super().receive()
            if item is not None and item[0].method == "notifications/cancelled":
                # The answer is made before the cancel arrives.
                go.set()
            return item

    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        await go.wait()
        return {}

    async def ended() -> None:
        await asyncio.sleep(0)
        unanswered.set()

    other = Late()
    async with peer_of(other, answer):
        other.say(About(on_unanswered=ended), id="a", method="call")
        other.say(method="notifications/cancelled", params={"requestId": "a"})
        await asyncio.wait_for(unanswered.wait(), 30)


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


async def test_own_output_is_written_before_the_end():
    (reader, output), own = os.pipe(), os.dup(1)
    os.dup2(output, 1)
    os.close(output)
    lines: list[bytes] = []

    def read() -> None:
        with open(reader, "rb") as file:
            lines.append(file.readline())

    reading = threading.Thread(target=read, daemon=True)
    try:
        async with open_own_channel() as channel:
            sending = asyncio.ensure_future(channel.send(Message("2.0", method=LONG), NOTHING))
            await asyncio.sleep(0)
            sending.cancel()
            reading.start()
        # The loop writes nothing meanwhile.
        reading.join(10)
        assert lines and LONG.encode() in lines[0]
    finally:
        os.dup2(own, 1)
        os.close(own)


async def test_own_output_that_is_closed_is_told():
    async with own_pipes() as (channel, _, reader):
        waiting = asyncio.ensure_future(channel.send(Message("2.0", method=LONG), NOTHING))
        await asyncio.sleep(0)
        os.close(reader)
        with pytest.raises(OSError):
            await waiting


async def test_own_input_is_read_no_faster_than_it_is_taken():
    async with own_pipes() as (channel, feeder, _):
        line = b'{"jsonrpc":"2.0","method":"%s"}\n' % (b"x" * 60_000)
        total, sent = 200, list[int]()

        def feed() -> None:
            with open(feeder, "wb", closefd=False) as file:
                for number in range(total):
                    file.write(line)
                    file.flush()
                    sent.append(number)

        feeding = asyncio.ensure_future(asyncio.to_thread(feed))
        for _ in range(20_000):
            await asyncio.sleep(0)
        assert len(sent) < total
        for _ in range(total):
            assert await channel.receive() is not None
        await feeding


async def test_own_input_passes_over_lines_that_are_no_messages():
    async with own_pipes() as (channel, feeder, _):
        os.write(feeder, b'nonsense\n[]\n{"jsonrpc":"2.0","method":"a"}\n{"jsonrpc":"2.0","id":1}')
        os.close(feeder)
        found = [await channel.receive() for _ in range(3)]
    assert [one and (one[0].method, one[0].id) for one in found] == [("a", None), ("", 1), None]


@pytest.mark.parametrize(
    ("rest", "result", "code"),
    [
        (b'"result":{"x":NaN}', {"x": None}, 0),
        (b'"result":{"x":"a\\ud83d"}', {"x": "a?"}, 0),
        (b'"result":{"x":"\xff"}', {"x": "\ufffd"}, 0),
        (b'"result":[1]', None, INTERNAL_ERROR),
        (b'"error":{"code":-3}', None, -3),
        (b'"error":{"code":"E1","message":"no"}', None, INTERNAL_ERROR),
        (b'"error":"no"', None, INTERNAL_ERROR),
    ],
)
async def test_an_invalid_response_settles_its_request(rest: bytes, result: Any, code: int):
    async with own_pipes() as (channel, feeder, _):
        os.write(feeder, b'{"jsonrpc":"2.0","id":7,%s}\n{"jsonrpc":"2.0","id":8}\n' % rest)
        found, then = await channel.receive(), await channel.receive()
    assert found and then and (found[0].id, then[0].id) == (7, 8)
    assert found[0].result == result
    assert (0 if found[0].error is None else found[0].error.code) == code


@pytest.mark.parametrize("rest", [b'"params":[]', b'"params":{"x":NaN}', b'"params":{"x":"\xff"}'])
async def test_an_invalid_request_is_refused(rest: bytes):
    async def answer(context: Context, method: str, params: Any) -> dict[str, Any]:
        return {}

    other = Other()
    async with own_pipes() as (channel, feeder, _), peer_of(other, answer):
        os.write(feeder, b'{"jsonrpc":"2.0","id":7,"method":"ping",%s}\n' % rest)
        other.to_peer.put_nowait(await channel.receive())
        got = await other.got.get()
    assert (got.id, got.error and got.error.code) == (7, INVALID_REQUEST)


async def test_own_input_can_be_a_file_whose_last_line_has_no_end(tmp_path: Path):
    file = tmp_path / "input"
    file.write_bytes(b'{"jsonrpc":"2.0","method":"a"}\n\nnothing\n{"jsonrpc":"2.0","method":"b"}')
    with file.open("rb") as input:
        channel = OwnChannel(input.fileno(), 1)
        assert await _methods(channel) == ["a", "b"]
        assert await channel.receive() is None


async def test_own_input_comes_in_any_pieces():
    async with own_pipes() as (channel, feeder, _):
        reading = asyncio.ensure_future(_methods(channel))
        for piece in (
            b'{"jsonrpc":"2.0",',
            b'"method":"a"}',
            b'\n{"jsonrpc":"2.0","method":"b"}\n{',
        ):
            os.write(feeder, piece)
            for _ in range(5):
                await asyncio.sleep(0)
        os.close(feeder)
        assert await reading == ["a", "b"]


async def _methods(channel: OwnChannel) -> list[str]:
    """The methods of all messages until the end."""
    found = list[str]()
    while (item := await channel.receive()) is not None:
        found.append(item[0].method)
    return found
