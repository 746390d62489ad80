"""AiohttpTransport against a server that answers with exact bytes."""

import asyncio
import gzip
import socket
import ssl
import struct
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import contextmanager

import pytest

from tests.leaping import leap, run_leaping
from upshot.errors import Misuse
from upshot.models import (
    AiohttpTransport,
    ReplyLimits,
    Timeouts,
    TransportError,
    aclose_transports,
    default_transport,
)
from upshot.models.transport import to_transport_error

# No test runs into them: those that are about a limit set their own.
WIDE = Timeouts(60, 60, 60)


@pytest.fixture
async def transport() -> AsyncIterator[AiohttpTransport]:
    transport = AiohttpTransport()
    yield transport
    await transport.aclose()


@contextmanager
def failing(kind, phase, *, limit=None, reused=False):
    """The block must raise a TransportError that says just this."""
    with pytest.raises(TransportError) as raised:
        yield raised
    error = raised.value
    assert (error.kind, error.phase, error.limit, error.reused) == (kind, phase, limit, reused)


async def fetch(transport, url, body=b"{}", headers=None, timeouts=WIDE):
    async with transport.send("POST", url, headers or {}, body, timeouts=timeouts) as answered:
        status, fields, chunks = answered
        return status, list(fields), b"".join([chunk async for chunk in chunks])


async def test_hands_out_status_headers_and_body_as_they_came(serve, http_reply, transport):
    answer = http_reply(b"\x00\xff", status=429, headers={"X-Odd": "a", "x-odd": "b"})
    async with serve(answer) as server:
        status, headers, body = await fetch(transport, server.url)
    assert (status, body) == (429, b"\x00\xff")
    assert ("x-odd", "b") in headers


async def test_keeps_repeated_headers_apart(serve, transport):
    raw = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\ncontent-length: 0\r\n\r\n"
    async with serve(raw) as server:
        _, headers, _ = await fetch(transport, server.url)
    assert [value for name, value in headers if name.lower() == "x-a"] == ["1", "2"]


async def test_sends_method_headers_and_body(serve, http_reply, transport):
    async with serve(http_reply("")) as server:
        await fetch(transport, f"{server.url}/v1/x?y=1", b'{"a":1}', {"Authorization": "Bearer k"})
    asked = server.asked[0]
    assert asked.line == "POST /v1/x?y=1 HTTP/1.1"
    assert (asked.headers["authorization"], asked.body) == ("Bearer k", b'{"a":1}')


async def test_uses_one_connection_again(serve, http_reply, transport):
    async with serve(http_reply("ok")) as server:
        for _ in range(3):
            await fetch(transport, server.url)
    assert (server.connections, len(server.asked)) == (1, 3)


async def test_has_no_limit_on_requests_in_flight(serve, http_reply, transport):
    # One more than aiohttp allows by itself; where a process may open 256 files, few more fit.
    number = 101
    all_here = asyncio.Event()

    async def answer(asked, writer):
        if len(server.asked) == number:
            all_here.set()
        await all_here.wait()
        writer.write(http_reply("ok"))

    async with serve(answer) as server:
        async with asyncio.timeout(60):
            await asyncio.gather(*(fetch(transport, server.url) for _ in range(number)))
    assert server.connections == number


async def test_leaving_in_the_middle_of_a_body_gives_the_connection_up(serve, transport):
    async def answer(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst")
        await writer.drain()

    async with serve(answer) as server:
        for _ in range(2):
            send = transport.send("POST", server.url, {}, b"", timeouts=WIDE)
            async with send as (_, _, chunks):
                assert await anext(chunks) == b"first"
    assert server.connections == 2


async def test_a_cut_body_raises(serve, http_reply, transport):
    async def answer(asked, writer):
        writer.write(http_reply("half", length=100))
        await writer.drain()
        writer.close()

    async with serve(answer) as server:
        with failing("cut", "answered"):
            await fetch(transport, server.url)


async def test_a_reset_connection_raises(serve, transport):
    async def answer(asked, writer):
        linger_not = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
        writer.transport.abort()

    async with serve(answer) as server:
        with failing("reset", "sent"):
            await fetch(transport, server.url)


async def test_a_silent_server_runs_into_the_read_timeout(serve, transport):
    async def answer(asked, writer):
        await asyncio.Event().wait()

    async with serve(answer) as server:
        with failing("timeout", "sent", limit="read_s"):
            await fetch(transport, server.url, timeouts=Timeouts(None, 0.03, None))


def test_a_drip_of_bytes_runs_into_the_total_timeout(serve):
    async def answer(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n.")
        await asyncio.Event().wait()

    async def main():
        transport = AiohttpTransport()
        async with serve(answer) as server:
            asked = ("POST", server.url, {}, b"")
            with failing("timeout", "answered", limit="total_s"):
                async with transport.send(*asked, timeouts=Timeouts(None, None, 30)) as answered:
                    async for _ in answered[2]:
                        leap(60)
        await transport.aclose()

    run_leaping(main())


async def test_a_host_that_does_not_accept_runs_into_the_connect_timeout(transport):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        # Fill the queue of a listener that nobody serves: the next connection hangs.
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        with failing("timeout", "unsent", limit="connect_s"):
            await fetch(transport, f"http://127.0.0.1:{port}", timeouts=Timeouts(0.04, 5, 5))
        for one in waiting:
            one.close()


async def test_a_closed_port_is_a_refused_connection(transport, refusing_url):
    with failing("refused", "unsent"):
        await fetch(transport, refusing_url)


async def test_does_not_follow_redirects(serve, http_reply, transport):
    moved = http_reply("", status=307, headers={"location": "http://127.0.0.1:9/"})
    async with serve(moved) as server:
        status, _, _ = await fetch(transport, server.url)
    assert status == 307


async def test_unpacks_a_body_that_was_packed_unasked(serve, http_reply, transport):
    packed = http_reply(gzip.compress(b"clear text"), headers={"content-encoding": "gzip"})
    async with serve(packed) as server:
        _, _, body = await fetch(transport, server.url)
    assert body == b"clear text"
    assert server.asked[0].headers["accept-encoding"] == "identity"


async def test_a_large_body_is_sent_whole_and_with_its_length(serve, http_reply, transport):
    body = bytes(range(256)) * 5000
    async with serve(http_reply("ok")) as server:
        await fetch(transport, server.url, body)
    assert server.asked[0].body == body
    assert "transfer-encoding" not in server.asked[0].headers


async def test_sends_through_the_proxy(serve, http_reply):
    async with serve(http_reply("by proxy")) as proxy:
        transport = AiohttpTransport(proxy=proxy.url)
        _, _, body = await fetch(transport, "http://nowhere.invalid/v1")
        await transport.aclose()
    assert body == b"by proxy"
    assert proxy.asked[0].line == "POST http://nowhere.invalid/v1 HTTP/1.1"


@pytest.mark.parametrize("bypass", ["", "127.0.0.1"], ids=["used", "bypassed"])
async def test_the_environment_names_the_proxy_if_it_may(
    serve, http_reply, monkeypatch, refusing_url, bypass
):
    async with serve(http_reply("by proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", bypass)
        transport = AiohttpTransport(trust_env=True)
        try:
            await fetch(transport, f"{refusing_url}/v1")
        except TransportError:
            assert bypass
        await transport.aclose()
    assert len(proxy.asked) == (0 if bypass else 1)


async def test_the_environment_is_left_alone_otherwise(serve, http_reply, monkeypatch, transport):
    async with serve(http_reply("direct")) as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        assert (await fetch(transport, server.url))[2] == b"direct"


@pytest.mark.parametrize(
    "options",
    [
        {"ssl_context": ssl.create_default_context(), "verify": False},
        {"ssl_context": ssl.create_default_context(), "ca_file": "x.pem"},
        {"verify": False, "ca_file": "x.pem"},
        {"ca_file": "/no/such/file.pem"},
    ],
    ids=["context and verify", "context and file", "no verify and file", "no such file"],
)
def test_tls_options_that_cannot_be_are_misuse(options):
    with pytest.raises(Misuse):
        AiohttpTransport(**options)


async def test_a_certificate_is_checked(serve, http_reply, transport):
    async with serve(http_reply("ok"), tls=True) as server:
        with failing("certificate", "unsent"):
            await fetch(transport, server.url)


@pytest.mark.parametrize("how", ["ca_file", "verify", "ssl_context"])
async def test_a_certificate_of_ones_own_can_be_trusted(serve, http_reply, certificate, how):
    options = {
        "ca_file": {"ca_file": str(certificate)},
        "verify": {"verify": False},
        "ssl_context": {"ssl_context": ssl.create_default_context(cafile=certificate)},
    }
    transport = AiohttpTransport(**options[how])
    async with serve(http_reply("ok"), tls=True) as server:
        assert (await fetch(transport, server.url))[2] == b"ok"
        await transport.aclose()


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(limit):
    with pytest.raises(Misuse, match="connect_s"):
        Timeouts(limit)


def test_serves_one_loop_after_another(serve, http_reply):
    transport = AiohttpTransport()

    async def once() -> bytes:
        async with serve(http_reply("ok")) as server:
            return (await fetch(transport, server.url))[2]

    assert [asyncio.run(once()), asyncio.run(once())] == [b"ok", b"ok"]


async def test_opens_new_connections_after_aclose(serve, http_reply, transport):
    async with serve(http_reply("ok")) as server:
        await fetch(transport, server.url)
        await transport.aclose()
        assert (await fetch(transport, server.url))[2] == b"ok"
    assert server.connections == 2


async def test_the_default_transport_is_shared_and_can_be_closed(serve, http_reply):
    async with serve(http_reply("ok")) as server:
        await fetch(default_transport(), server.url)
        await aclose_transports()
        await fetch(default_transport(), server.url)
        await aclose_transports()
    assert server.connections == 2
    assert default_transport() is default_transport()


def test_the_package_loads_no_aiohttp_until_it_sends():
    code = "import sys, upshot.models; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.slow("a loop left open", "a loop closed*")
@pytest.mark.parametrize(
    "end",
    [
        "asyncio.run(main())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close()",
    ],
    ids=["asyncio.run", "a loop left open", "a loop closed without its shutdown"],
)
def test_a_process_ends_without_a_word(end):
    code = f"""
import asyncio
from upshot.models import Timeouts, default_transport

async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
    await writer.drain()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    async with default_transport().send("GET", url, {{}}, b"", timeouts=Timeouts()) as answered:
        print(b"".join([chunk async for chunk in answered[2]]))
    server.close()

{end}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("b'ok'\n", "")


async def test_a_connection_of_tls_has_small_buffers(serve, http_reply, certificate):
    transport = AiohttpTransport(ca_file=str(certificate))
    async with serve(http_reply("ok"), tls=True) as server:
        async with transport.send("POST", server.url, {}, b"", timeouts=WIDE) as answered:
            _, _, chunks = answered
            (pool,) = transport._pools.values()
            (protocol,) = pool.connector._acquired
            assert protocol.transport._ssl_protocol.max_size == 2**14
            assert [chunk async for chunk in chunks] == [b"ok"]
        await transport.aclose()


async def test_a_connection_of_tls_through_a_proxy_has_them_too(serve, http_reply, certificate):
    tunnels = []

    async def tunnel(reader, writer):
        line = await reader.readuntil(b"\r\n\r\n")
        host, port = line.split()[1].split(b":")
        inner, out = await asyncio.open_connection(host.decode(), int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        tunnels.append(asyncio.create_task(copy(inner, writer)))
        await copy(reader, out)

    async def copy(source, target):
        while data := await source.read(2**16):
            target.write(data)
        target.close()

    said = "ok" * 100_000
    async with (
        serve(http_reply(said), tls=True) as server,
        await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy,
    ):
        address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        transport = AiohttpTransport(ca_file=str(certificate), proxy=address)
        async with transport.send("POST", server.url, {}, b"", timeouts=WIDE) as answered:
            _, _, chunks = answered
            (pool,) = transport._pools.values()
            (protocol,) = pool.connector._acquired
            assert len(protocol.transport._ssl_protocol._ssl_buffer) == 2**14
            assert b"".join([chunk async for chunk in chunks]) == said.encode()
        await transport.aclose()
        await asyncio.gather(*tunnels)


async def test_a_tls_server_that_hangs_up_is_an_error_before_anything_was_sent(transport):
    async def answer(reader, writer):
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(TransportError) as raised:
            await fetch(transport, url)
    assert (raised.value.kind, raised.value.phase) == ("reset", "unsent")


async def test_a_name_that_does_not_exist_is_said(transport):
    with failing("dns", "unsent"):
        await fetch(transport, "http://nowhere.invalid/")


async def test_a_proxy_that_is_not_there_is_said(refusing_url):
    transport = AiohttpTransport(proxy=refusing_url)
    with failing("proxy", "unsent"):
        await fetch(transport, "http://nowhere.invalid/")


async def test_a_proxy_that_refuses_the_tunnel_is_said(serve, http_reply):
    async with serve(http_reply("no", status=403)) as proxy:
        transport = AiohttpTransport(proxy=proxy.url)
        with failing("proxy", "unsent"):
            await fetch(transport, "https://nowhere.invalid/")
        await transport.aclose()


async def test_a_proxy_with_a_password_gets_it(serve, http_reply):
    async with serve(http_reply("ok")) as proxy:
        transport = AiohttpTransport(proxy=proxy.url.replace("//", "//me:word@"))
        for _ in range(2):
            await fetch(transport, "http://nowhere.invalid/")
        await transport.aclose()
    assert [asked.headers["proxy-authorization"] for asked in proxy.asked] == [
        "Basic bWU6d29yZA=="
    ] * 2


async def test_a_failure_on_a_kept_connection_says_so(serve, http_reply, transport):
    async def answer(asked, writer):
        if len(server.asked) == 1:
            writer.write(http_reply("ok"))
        else:
            writer.close()

    async with serve(answer) as server:
        await fetch(transport, server.url)
        with failing("reset", "sent", reused=True):
            await fetch(transport, server.url)


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0b"], ids=["crlf", "lf", "nul"])
async def test_a_header_cannot_smuggle_another(serve, http_reply, transport, value):
    async with serve(http_reply("ok")) as server:
        with failing("protocol", "unsent"):
            await fetch(transport, server.url, headers={"x-a": value})
    assert not server.asked


async def test_a_body_that_stops_being_http_is_told_at_once(serve, transport):
    async def answer(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n")
        await writer.drain()
        await begun.wait()
        writer.write(b"zz\r\n")
        await asyncio.Event().wait()

    begun = asyncio.Event()
    async with serve(answer) as server:
        with failing("protocol", "answered"):
            async with transport.send("POST", server.url, {}, b"", timeouts=WIDE) as answered:
                async for _ in answered[2]:
                    begun.set()


@pytest.mark.parametrize("wbits", [31, 15, -15], ids=["gzip", "zlib", "raw deflate"])
async def test_unpacks_every_kind_of_deflate(serve, http_reply, transport, wbits):
    packer = zlib.compressobj(wbits=wbits)
    packed = packer.compress(b"clear text") + packer.flush()
    name = "gzip" if wbits > 15 else "deflate"
    async with serve(http_reply(packed, headers={"content-encoding": name})) as server:
        assert (await fetch(transport, server.url))[2] == b"clear text"


async def test_a_packed_body_that_ends_too_early_is_cut(serve, http_reply, transport):
    packed = gzip.compress(b"clear text")[:-9]
    async with serve(http_reply(packed, headers={"content-encoding": "gzip"})) as server:
        with failing("cut", "answered"):
            await fetch(transport, server.url)


async def test_a_coding_that_was_not_asked_for_is_named(serve, http_reply, transport):
    async with serve(http_reply("x", headers={"content-encoding": "br"})) as server:
        with failing("protocol", "answered") as raised:
            await fetch(transport, server.url)
    assert "'br'" in str(raised.value)


async def test_an_early_refusal_of_a_large_body_is_a_reply(transport):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 X\r\ncontent-length: 2\r\n\r\nno")
        await read.wait()
        writer.close()

    read = asyncio.Event()
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        status, _, body = await fetch(transport, url, bytes(2**24))
        read.set()
        await asyncio.sleep(0)
    assert (status, body) == (413, b"no")


@pytest.mark.parametrize("name", ["reply_bytes", "error_bytes", "line_bytes"])
def test_a_limit_on_replies_is_above_zero(name):
    with pytest.raises(Misuse, match=name):
        ReplyLimits(**{name: 0})


def test_what_other_clients_raise_is_understood():
    class ConnectTimeout(Exception): ...

    class RemoteProtocolError(Exception): ...

    told = to_transport_error(ConnectTimeout("slow"), phase="sent")
    assert told is not None and (told.kind, told.limit) == ("timeout", "connect_s")
    told = to_transport_error(RemoteProtocolError("odd"), phase="answered")
    assert told is not None and (told.kind, told.reason) == ("protocol", "odd")
    assert to_transport_error(ZeroDivisionError(), phase="sent") is None
