"""The bank: an HTTP server with a book of refunds outside of every framework, and its client."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Bank", "Client"]

# The client gives up before a bank that hangs, but not before one that is slow.
PATIENCE_S = 1.0
SLOW_S = 0.4


class Bank:
    """Accepts refunds, writes each into its book, and then may fail to say so.

    It keeps a book for each case, which is the path, and recognises a request by its key. Its
    faults each affect one request: "reset" cuts the connection after the refund, "hang" never
    answers, "slow" takes a while.

    Attributes:
        url: Where it listens.
    """

    def __init__(self) -> None:
        self._books: dict[str, list[str]] = {}
        self._faults: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        bank = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bank._handle(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def open(self, case: str, faults: list[str]) -> None:
        """Open the book of a case."""
        self._books[case], self._faults[case] = [], list(faults)

    def refunds(self, case: str) -> int:
        """Return how many refunds were made."""
        return len(self._books[case])

    def close(self) -> None:
        """Stop the server."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        case = request.path.strip("/")
        asked = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        fault = ""
        with self._lock:
            key = asked.get("key") or ""
            receipt = self._known.get((case, key), "") if key else ""
            if not receipt:
                self._books[case].append(asked["order_id"])
                receipt = f"re_{asked['order_id']}_{len(self._books[case])}"
                self._known[case, key] = receipt
            if self._faults[case]:
                fault = self._faults[case].pop(0)
        if fault == "reset":
            request.close_connection = True
            return
        if fault:
            self._closing.wait(SLOW_S if fault == "slow" else 2 * PATIENCE_S)
        if fault == "hang":
            request.close_connection = True
            return
        body = json.dumps({"receipt": receipt}).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


class Client:
    """Asks the bank for a refund over a connection of the standard library.

    Args:
        url: The bank, with the case as its path.
        refused: How many connections are refused first: nobody listens there.
        session: The conversation that the process is for.

    Attributes:
        connection: The class of the connection.
    """

    def __init__(self, url: str, *, refused: int = 0, session: str = "") -> None:
        self.session = session
        self._url = urlsplit(url)
        self._refused = refused
        self.connection: Any = http.client.HTTPConnection

    def pay(self, order_id: str, cents: int, key: str = "") -> str:
        """Refund an order; returns the receipt.

        Raises:
            OSError: The bank did not answer, or could not be reached.
        """
        port = self._url.port
        if self._refused:
            self._refused -= 1
            port = 9
        line = self.connection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            asked = {"order_id": order_id, "cents": cents, "key": key}
            line.request("POST", self._url.path, json.dumps(asked))
            return json.loads(line.getresponse().read())["receipt"]
        finally:
            line.close()
