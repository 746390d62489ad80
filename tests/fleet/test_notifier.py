"""What waits for people is told to an address: signed, again where that fails, and never lost."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.notifying import KEY, TIMEOUT_S, make
from tests.places import Place
from tests.processes import start_python
from upshot import App, Misuse, answer, open_journal, run
from upshot.fleet.notifier import Notifier, notifying

PATIENCE_S = 20


class Receiver:
    """An HTTP server that gives one status after the other, then 204; None never replies."""

    def __init__(self, *statuses: int | None) -> None:
        self._statuses = [*statuses]
        self.url = ""
        self.got = asyncio.Queue[tuple[dict[str, str], bytes]]()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Receiver]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        try:
            yield self
        finally:
            server.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        lines = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in lines}
        body = await reader.readexactly(int(headers["content-length"]))
        status = self._statuses.pop(0) if self._statuses else 204
        self.got.put_nowait((headers, body))
        if status is None:
            await reader.read()
        else:
            writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()

    async def next(self) -> tuple[dict[str, str], Any]:
        async with asyncio.timeout(PATIENCE_S):
            headers, body = await self.got.get()
        key = base64.b64decode(KEY.removeprefix("whsec_"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"
        told = json.loads(body)
        assert told["id"] == headers["webhook-id"]
        return headers, told


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[App]:
    where: Any = {"memory": "memory:", "sqlite": tmp_path / "runs.db"}.get(request.param)
    if where is None:
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as journal, make(journal) as made:
        yield made


async def park(app: App) -> Any:
    parked = await run(app.agents["sender"], "Write.", journal=app.journal)
    assert len(parked.pending) == 2
    return parked


async def test_each_item_is_told_once_and_signed(app: App) -> None:
    parked = await park(app)
    async with Receiver().open() as receiver:
        notifier = Notifier(app, receiver.url, key=KEY, console_url="https://desk.example/")
        assert await notifier.send_due() == 2
        told = [(await receiver.next())[1] for _ in range(2)]
        assert await notifier.send_due() == 0
    assert {one["item"]["pending"]["call_id"] for one in told} == {"a", "b"}
    urls = {f"https://desk.example/runs/{parked.run_id}#{one}" for one in ("a", "b")}
    assert {one["url"] for one in told} == urls
    assert len({one["id"] for one in told}) == 2


async def test_a_receiver_that_fails_is_tried_again_with_the_same_id(app: App) -> None:
    parked = await park(app)
    # What is answered before it was told is not told.
    await answer(parked.run_id, [parked.pending[1].deny()], journal=await app.open())
    async with Receiver(500, 503).open() as receiver:
        task = asyncio.create_task(Notifier(app, receiver.url, key=KEY).work())
        ids = [(await receiver.next())[1]["id"] for _ in range(3)]
        task.cancel()
        await asyncio.wait([task])
    assert len(set(ids)) == 1


async def test_a_receiver_that_is_away_holds_up_no_run(app: App) -> None:
    async with Receiver().open() as receiver:
        pass
    notifier = Notifier(app, receiver.url, key=KEY)
    parked = await park(app)
    assert await notifier.send_due() == 2
    said = [one.approve() for one in parked.pending]
    await answer(parked.run_id, said, journal=await app.open())
    ended = await app.activate(parked.run_id)
    assert ended is not None and ended.output == "Sent."
    assert await notifier.send_due() == 0


async def test_what_a_killed_process_was_telling_is_told_by_another(place: Place) -> None:
    async with make(await place.open()) as app:
        journal: Any = await app.open()
        await park(app)
        async with Receiver(None, None).open() as receiver:
            with start_python("-m", "tests.fleet.notifying", place.where, receiver.url) as process:
                hung = {(await receiver.next())[1]["id"] for _ in range(2)}
                process.kill()
            notifier = Notifier(app, receiver.url, key=KEY, timeout_s=TIMEOUT_S)
            task = asyncio.create_task(notifier.work())
            told = {(await receiver.next())[1]["id"] for _ in range(2)}
            task.cancel()
            await asyncio.wait([task])
        assert told == hung and len(told) == 2
        await journal.aclose()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "ftp://x"}, "url is 'ftp://x': give an address that begins with https://"),
        ({"key": ""}, "there is no key to sign with: set UPSHOT_NOTIFY_KEY"),
        ({"key": "whsec_!"}, "UPSHOT_NOTIFY_KEY starts with whsec_, and base64 must follow"),
    ],
    ids=["url", "no key", "no base64"],
)
def test_what_it_is_given_is_checked(given: dict[str, Any], said: str) -> None:
    right: dict[str, Any] = {"url": "https://x", "key": KEY}
    with pytest.raises(Misuse, match=said):
        Notifier(make("memory:"), **right | given)


async def test_the_key_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPSHOT_NOTIFY_KEY", raising=False)
    with pytest.raises(Misuse, match="UPSHOT_NOTIFY_KEY"):
        async with notifying(make("memory:"), "https://x", ""):
            pass
    async with notifying(make("memory:"), "", ""):
        pass
