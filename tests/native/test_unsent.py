"""Real clients against real servers that fail at each phase of a request."""

import asyncio
import contextlib
import http.client
import socket
import ssl
import struct
import threading
import urllib.request
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from upshot.native.unsent import find_proof

httpx = pytest.importorskip("httpx", reason="the clients are installed with the extra dev")
requests = pytest.importorskip("requests", reason="the clients are installed with the extra dev")
urllib3 = pytest.importorskip("urllib3", reason="the clients are installed with the extra dev")

CERTIFICATE = Path(__file__).parents[1] / "models" / "loopback.pem"
TRUSTED = ssl.create_default_context(cafile=str(CERTIFICATE))
DISTRUSTED = ssl.create_default_context()
TIMEOUT_S = 0.2


def by_urllib(url: str, tls: ssl.SSLContext) -> None:
    asked = urllib.request.Request(url, data=b"BODY", method="POST")
    context = tls if url.startswith("https") else None
    urllib.request.urlopen(asked, timeout=TIMEOUT_S, context=context).read()


def by_http_client(url: str, tls: ssl.SSLContext) -> None:
    scheme, _, rest = url.partition("://")
    place = rest.partition("/")[0]
    connection = (
        http.client.HTTPSConnection(place, timeout=TIMEOUT_S, context=tls)
        if scheme == "https"
        else http.client.HTTPConnection(place, timeout=TIMEOUT_S)
    )
    with contextlib.closing(connection):
        connection.request("POST", "/pay", b"BODY")
        connection.getresponse().read()


def by_requests(url: str, tls: ssl.SSLContext) -> None:
    trust = str(CERTIFICATE) if tls is TRUSTED else True
    with requests.Session() as session:
        session.post(url, data=b"BODY", timeout=TIMEOUT_S, verify=trust).raise_for_status()


def by_urllib3(url: str, tls: ssl.SSLContext) -> None:
    with urllib3.PoolManager(ssl_context=tls, timeout=TIMEOUT_S) as pool:
        pool.request("POST", url, body=b"BODY")


def by_httpx(url: str, tls: ssl.SSLContext) -> None:
    with httpx.Client(verify=tls, timeout=TIMEOUT_S, follow_redirects=True) as client:
        client.post(url, content=b"BODY").raise_for_status()


def by_async_httpx(url: str, tls: ssl.SSLContext) -> None:
    async def post() -> None:
        async with httpx.AsyncClient(verify=tls, timeout=TIMEOUT_S) as client:
            await client.post(url, content=b"BODY")

    asyncio.run(post())


def by_aiohttp(url: str, tls: ssl.SSLContext) -> None:
    async def post() -> None:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=limits) as session,
            session.post(url, data=b"BODY", ssl=tls) as response,
        ):
            response.raise_for_status()
            await response.read()

    asyncio.run(post())


def by_aiohttp_in_time(url: str, tls: ssl.SSLContext) -> None:
    """The time limit is the tool's own, and cancels the client wherever it is."""

    async def post() -> None:
        async with (
            asyncio.timeout(TIMEOUT_S),
            aiohttp.ClientSession() as session,
            session.post(url, data=b"BODY", ssl=tls) as response,
        ):
            await response.read()

    asyncio.run(post())


Client = Callable[[str, ssl.SSLContext], None]
CLIENTS: tuple[Client, ...] = (
    by_urllib,
    by_http_client,
    by_requests,
    by_urllib3,
    by_httpx,
    by_async_httpx,
    by_aiohttp,
    by_aiohttp_in_time,
)
REDIRECTING: tuple[Client, ...] = (by_urllib, by_requests, by_httpx, by_aiohttp)
Act = Callable[[socket.socket], None]


@contextmanager
def serving(act: Act, *, connections: int | None = None) -> Generator[int]:
    """A server on loopback that does *act* with each connection; gives its port.

    After so many *connections* it takes no more; None takes any number.
    """
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while len(kept) != connections:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                kept.append(connection)
                if len(kept) == connections:
                    listener.close()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                act(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def read(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\nBODY" not in data and (more := connection.recv(65536)):
        data += more


def read_and(then: Act) -> Act:
    def act(connection: socket.socket) -> None:
        read(connection)
        then(connection)

    return act


def take_one_byte_and_reset(connection: socket.socket) -> None:
    connection.recv(1)
    reset(connection)


def answer_half(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
    reset(connection)


def hang(connection: socket.socket) -> None:
    """The connection stays open until the server ends."""


def take_hello_and(then: Act) -> Act:
    def act(connection: socket.socket) -> None:
        connection.recv(10)
        then(connection)

    return act


def talk_plain(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n")


def over_tls(then: Act, *, asks_client: bool = False) -> Act:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    if asks_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)

    def act(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            read(secured)
            then(secured)

    return act


def close(connection: socket.socket) -> None:
    connection.close()


def proofs(url: str, tls: ssl.SSLContext, clients: tuple[Client, ...] = CLIENTS) -> set[str]:
    """The names of the clients whose exception proves that nothing was sent."""

    def ask(client: Client) -> str:
        try:
            client(url, tls)
        except Exception as error:
            return client.__name__ if find_proof(error) is not None else ""
        raise AssertionError(f"{client.__name__} did not fail")

    with ThreadPoolExecutor(len(clients)) as threads:
        return {name for name in threads.map(ask, clients) if name}


def names(clients: tuple[Client, ...]) -> set[str]:
    return {client.__name__ for client in clients}


@pytest.mark.parametrize(
    "act",
    [
        take_one_byte_and_reset,
        read_and(reset),
        read_and(close),
        read_and(hang),
        read_and(answer_half),
    ],
    ids=["reset_after_a_byte", "reset", "closed", "no_answer", "half_an_answer"],
)
def test_a_request_that_may_have_arrived_is_never_proved_unsent(act: Act) -> None:
    with serving(act) as port:
        assert proofs(f"http://127.0.0.1:{port}/pay", DISTRUSTED) == set()


@pytest.mark.parametrize(
    "act",
    [over_tls(close), over_tls(close, asks_client=True)],
    ids=["closed", "client_certificate_missing"],
)
def test_nor_is_one_that_was_sent_over_tls(act: Act) -> None:
    with serving(act) as port:
        assert proofs(f"https://127.0.0.1:{port}/pay", TRUSTED) == set()


def test_a_refused_connection_is_a_proof() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert proofs(f"http://127.0.0.1:{port}/pay", DISTRUSTED) == names(CLIENTS)


def test_a_name_that_does_not_resolve_is_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert proofs("http://bank.example/pay", DISTRUSTED) == names(CLIENTS)


def test_a_connection_that_does_not_come_about_in_time_is_a_proof() -> None:
    with socket.socket() as listener, contextlib.ExitStack() as kept:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        # These fill the line; the system then leaves further ones without an answer.
        for _ in range(3):
            waiting = kept.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        assert proofs(f"http://127.0.0.1:{port}/pay", DISTRUSTED) == names(CLIENTS)


@pytest.mark.parametrize(
    "act",
    [take_hello_and(close), take_hello_and(reset), take_hello_and(talk_plain), hang],
    ids=["closed", "reset", "no_tls", "no_answer"],
)
def test_a_failed_tls_handshake_is_a_proof(act: Act) -> None:
    with serving(act) as port:
        assert proofs(f"https://127.0.0.1:{port}/pay", TRUSTED) == names(CLIENTS)


def test_so_is_a_certificate_that_is_not_trusted() -> None:
    with serving(over_tls(close)) as port:
        assert proofs(f"https://127.0.0.1:{port}/pay", DISTRUSTED) == names(CLIENTS)


def test_a_pool_without_a_free_connection_is_a_proof() -> None:
    with serving(read_and(hang)) as port, pytest.raises(httpx.PoolTimeout) as failed:
        limits = httpx.Limits(max_connections=0)
        with httpx.Client(limits=limits, timeout=TIMEOUT_S) as client:
            client.post(f"http://127.0.0.1:{port}/pay")
    assert find_proof(failed.value) is not None


def respond(text: str) -> Act:
    return read_and(lambda connection: connection.sendall(text.encode()))


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (409, False), (422, False), (429, True), (408, None), (500, None), (503, None)],
)
def test_a_response_that_refuses_is_a_proof(status: int, retryable: bool | None) -> None:
    for client in (by_urllib, by_requests, by_httpx, by_aiohttp):
        with serving(respond(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n")) as port:
            with pytest.raises(Exception) as failed:
                client(f"http://127.0.0.1:{port}/pay", DISTRUSTED)
            proof = find_proof(failed.value)
            assert (proof and proof.retryable) is retryable, client.__name__


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_that_leads_nowhere_is_no_proof(status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()[1]
    head = f"HTTP/1.1 {status} X\r\nlocation: http://127.0.0.1:{gone}/\r\ncontent-length: 0\r\n\r\n"
    clients = (by_requests, by_httpx, by_aiohttp, *((by_urllib,) if status == 302 else ()))
    with serving(respond(head)) as port:
        assert proofs(f"http://127.0.0.1:{port}/pay", DISTRUSTED, clients) == set()


def test_a_second_request_that_is_refused_after_one_that_may_have_arrived_is_no_proof() -> None:
    def pay(port: int, other: int) -> None:
        try:
            by_httpx(f"http://127.0.0.1:{port}/pay", DISTRUSTED)
        except httpx.HTTPError:
            by_httpx(f"http://127.0.0.1:{other}/pay", DISTRUSTED)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()[1]
    with serving(read_and(close)) as port, pytest.raises(httpx.ConnectError) as failed:
        pay(port, gone)
    assert find_proof(failed.value) is None


def test_a_client_that_has_sent_the_request_before_it_was_refused_is_no_proof() -> None:
    def pay(port: int) -> None:
        retries = urllib3.Retry(3, allowed_methods=None, backoff_factor=0)
        with urllib3.PoolManager(timeout=TIMEOUT_S, retries=retries) as pool:
            pool.request("POST", f"http://127.0.0.1:{port}/pay", body=b"BODY")

    with (
        serving(read_and(close), connections=1) as port,
        pytest.raises(urllib3.exceptions.MaxRetryError) as failed,
    ):
        pay(port)
    assert isinstance(failed.value.reason, urllib3.exceptions.NewConnectionError)
    assert find_proof(failed.value) is None


async def test_nor_is_one_that_repeats_it_by_itself_on_a_new_connection() -> None:
    def answer_once(connection: socket.socket) -> None:
        read(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        read(connection)
        connection.close()

    with serving(answer_once, connections=1) as port:
        url = f"http://127.0.0.1:{port}/pay"
        async with aiohttp.ClientSession() as session:
            async with session.put(url, data=b"BODY") as response:
                await response.read()
            with pytest.raises(aiohttp.ClientConnectorError) as failed:
                await session.put(url, data=b"BODY")
    assert find_proof(failed.value) is None


def test_an_error_of_the_tool_raised_from_a_proof_is_one() -> None:
    error = RuntimeError("the bank is away")
    error.__cause__ = ConnectionRefusedError(111, "refused")
    assert find_proof(error) is not None


def test_an_error_in_the_handling_of_a_proof_is_none() -> None:
    error = KeyError("receipt")
    error.__context__ = ConnectionRefusedError(111, "refused")
    assert find_proof(error) is None


def test_a_group_is_a_proof_if_all_of_it_is() -> None:
    refused, other = ConnectionRefusedError(111, "refused"), ValueError("no")
    assert find_proof(ExceptionGroup("two", [refused, refused])) is not None
    assert find_proof(ExceptionGroup("two", [refused, other])) is None
