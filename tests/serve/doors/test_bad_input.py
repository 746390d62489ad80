"""What is sent wrong to a door is told in the form of its protocol, and never breaks the server."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.serve.doors.asking import agents
from tests.serve.kit import Client, served
from upshot import App
from upshot.journal import open_journal

RPC = {"jsonrpc": "2.0", "id": 1}
SAID = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
MCP = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
A2A = {"a2a-version": "1.0"}
# Each door, what a client sends to it, and the headers of that.
DOORS: list[tuple[str, Any, dict[str, str]]] = [
    ("/ui/echo", {"id": "c", "messages": [SAID]}, {}),
    ("/ag-ui/echo", {"threadId": "t", "runId": "r", "messages": []}, {}),
    ("/v1/responses", {"model": "echo", "input": "Hello"}, {}),
    ("/a2a/echo", {**RPC, "method": "ListTasks", "params": {}}, A2A),
    ("/mcp", {**RPC, "method": "tools/list", "params": {}}, MCP),
]
PATHS = [path for path, _, _ in DOORS]


def sentence_of(said: Any) -> str:
    """The sentence in an error, which is in the form of some protocol."""
    if isinstance(said, str):
        said = json.loads(said.removeprefix("data: ").split("\n")[-1])
    error = said["error"]
    return error if isinstance(error, str) else error["message"]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Any:
    """Nothing that a client sends is an error of the server."""
    yield
    told = [one for one in caplog.records if one.levelno >= logging.ERROR or one.exc_info]
    assert told == []


def app(journal: Any = "memory:") -> App:
    return App(agents(), journal=journal)


@pytest.mark.parametrize(("path", "body", "headers"), DOORS, ids=PATHS)
async def test_a_request_that_the_guard_refuses_gets_an_error_of_the_protocol(
    path: str, body: Any, headers: dict[str, str]
) -> None:
    async with served(app(), rate=3) as site:
        cal = site.by("cal")
        told = [
            await cal.ask("POST", path, body, **headers, host="evil.example"),
            await cal.ask("POST", path, body, **headers, origin="https://evil.example"),
        ]
        asked = [cal.ask("POST", path, body, **headers) for _ in range(20)]
        told.append(max(await asyncio.gather(*asked), key=lambda one: one[0]))
    assert [status for status, _ in told] == [421, 403, 429]
    words = ["is not reached as", "are not taken", "wait a little"]
    for (_, said), word in zip(told, words, strict=True):
        assert word in sentence_of(said)
        form = said["error"]
        if path.startswith("/v1"):
            assert set(form) == {"message", "type", "param", "code"}
        elif path.startswith(("/a2a", "/mcp")):
            assert (said["jsonrpc"], said["id"], form["code"]) == ("2.0", None, -32600)


WRONG: list[tuple[str, bytes]] = [
    ("no JSON", b"{"),
    ("not UTF-8", b'"\xff"'),
    ("a list", b"[]"),
    ("a number", b"7"),
    ("null", b"null"),
    ("nothing", b""),
    ("an empty object", b"{}"),
    ("deep", b"[" * 5_000),
    (
        "other types",
        b'{"id": 1, "messages": {}, "threadId": [], "model": 3, "input": {}, "method": []}',
    ),
]


@pytest.mark.parametrize(("path", "headers"), [(path, more) for path, _, more in DOORS], ids=PATHS)
async def test_a_body_that_is_no_message_is_one_sentence(
    path: str, headers: dict[str, str]
) -> None:
    async with served(app(), max_body=20_000) as site:
        cal = site.by("cal")
        typed = {"content-type": "application/json", **headers}
        for name, body in WRONG:
            status, said = await cal.ask("POST", path, body, **typed)
            assert status in (200, 400), (name, status, said)
            assert sentence_of(said), name
            # Those of /mcp are the library's.
            assert path == "/mcp" or len(sentence_of(said)) < 300, said
        status, said = await cal.ask("POST", path, b'"' + b"x" * 20_000 + b'"', **typed)
        assert status == 413 and "at most 20000" in sentence_of(said), said


@pytest.mark.parametrize(("path", "body", "headers"), DOORS, ids=PATHS)
async def test_nobody_and_an_agent_that_is_not_there(
    path: str, body: Any, headers: dict[str, str]
) -> None:
    async with served(app()) as site:
        for name in ("", "unknown"):
            status, said = await site.by(name).ask("POST", path, body, **headers)
            assert (status, sentence_of(said)) == (401, "nobody is signed in")
        nowhere = {**body, "model": "none"} if "model" in body else body
        status, said = await site.by("cal").ask(
            "POST", path.replace("echo", "none"), nowhere, **headers
        )
        if path != "/mcp":
            assert status == 404 and "there is no" in sentence_of(said)


def named(text: str) -> list[tuple[str, str, Any]]:
    """A text as the name of everything that a client can name."""
    ask = {**SAID, "parts": [{"type": "text", "text": "Hello"}]}
    sent = {"messageId": "m", "role": "ROLE_USER", "contextId": text, "parts": [{"text": "Hi"}]}
    thread = {"runId": "r", "messages": [{"id": "m", "role": "user", "content": "Hi"}]}
    return [
        ("POST", "/ui/echo", {"id": text, "messages": [ask]}),
        ("POST", "/ag-ui/echo", {"threadId": text, **thread}),
        ("POST", "/v1/responses", {"model": "echo", "input": "Hi", "conversation": text}),
        ("POST", "/v1/responses", {"model": "echo", "input": "Hi", "previous_response_id": text}),
        ("GET", "/v1/responses/a%00", None),
        ("POST", "/a2a/echo", {**RPC, "method": "SendMessage", "params": {"message": sent}}),
        ("POST", "/a2a/echo", {**RPC, "method": "GetTask", "params": {"id": text}}),
        ("POST", "/api/runs", {"agent": "echo", "text": "Hi", "conversation": text}),
        ("POST", "/api/runs", {"agent": "echo", "text": "Hi", "key": text}),
        ("GET", "/api/runs?conversation=a%00", None),
        ("GET", "/api/runs/a%00", None),
        ("GET", "/api/conversations/a%00", None),
    ]


async def test_a_nul_that_a_database_cannot_keep_is_one_sentence(
    postgres: PostgresServer, database: str
) -> None:
    url = postgres.url(database)
    async with open_journal(url, create=True):
        pass
    async with served(app(url)) as site:
        for method, path, body in named("a\0"):
            status, said = await site.by("oz").ask(method, path, body, **A2A)
            assert status == (200 if path.startswith("/a2a") else 400), (path, body)
            assert "NUL character" in sentence_of(said)


async def read_all(client: Client, run_id: str) -> list[tuple[int, str]]:
    """What each door says of a run."""
    task = {**RPC, "method": "GetTask", "params": {"id": run_id}}
    follow = {"name": "upshot_continue", "arguments": {"run_id": run_id}}
    return [
        (status, json.dumps(said))
        for status, said in [
            await client.get("/ui/echo/c"),
            await client.post("/ag-ui/echo", {"threadId": "c", "runId": "r", "messages": []}),
            await client.get(f"/v1/responses/{run_id}"),
            await client.ask("POST", "/a2a/echo", task, **A2A),
            await client.ask(
                "POST", "/mcp", {**RPC, "method": "tools/call", "params": follow}, **MCP
            ),
            await client.get(f"/api/runs/{run_id}"),
        ]
    ]


async def test_a_journal_that_is_damaged_while_it_is_served_is_said_to_be(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    async with served(app(str(place)), work=False) as site:
        oz = site.by("oz")
        background = {"model": "echo", "input": "Hello", "background": True}
        _, made = await oz.post("/v1/responses", background)
        for path in (place, Path(f"{place}-wal")):
            if path.exists():
                content = bytearray(path.read_bytes())
                content[100:] = bytes(byte ^ 0x5A for byte in content[100:])
                path.write_bytes(content)
        told = await read_all(oz, made["id"])
    for status, said in told:
        assert status < 500 or status == 503, told
        assert "Traceback" not in said


async def test_a_run_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    async with served(app(str(tmp_path / "runs.db"))) as site:
        _, made = await site.by("oz").post("/v1/responses", {"model": "echo", "input": "Hello"})
        async with open_journal(str(tmp_path / "runs.db")) as journal:
            await journal.remove_runs([made["id"]])
        told = await read_all(site.by("oz"), made["id"])
    assert all(status < 500 for status, _ in told), told
    assert "You said Hello" not in str(told)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"1", b'{"method": "x"}', b'{"jsonrpc": "2.0"}', b'"\\ud800"']
)
async def test_a_body_that_is_no_json_rpc_is_told_in_one_sentence(body: bytes) -> None:
    async with served(app()) as site:
        headers = MCP
        status, said = await site.by("oz").ask("POST", "/mcp", body, **headers)
    assert status == 400 and (said["jsonrpc"], said["id"]) == ("2.0", None)
    assert "the body of the request is" in said["error"]["message"]
    assert len(said["error"]["message"]) < 100
