"""The agents of an App as MCP tools, over the client of the protocol's own package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp import MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestFormParams, ElicitResult

from tests.serve.doors.asking import ANN, BOB, STAFF, agents, opened, stop_placed
from tests.serve.kit import Client, served
from upshot import Agent, App, Misuse, ScriptedModel, ToolCall, tool
from upshot.contract import ToolExecutionResult
from upshot.contract.user import User
from upshot.serve.doors.mcp import CONTINUE, AgentTools, progress_of
from upshot.serve.public import public_events
from upshot.serve.site import Site

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


class Person:
    """A user who answers forms in turn, and keeps what was shown."""

    def __init__(self, *answers: dict[str, Any] | str) -> None:
        self.answers = [*answers]
        self.shown: list[str] = []

    async def __call__(self, context: object, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        self.shown.append(params.message)
        said = self.answers.pop(0)
        if isinstance(said, str):
            return ElicitResult(action=said)  # type: ignore[arg-type]
        return ElicitResult(action="accept", content=said)


@asynccontextmanager
async def client_of(
    site: Site, user: User = ANN, *, mode: str = "auto", person: Person | None = None
) -> AsyncGenerator[McpClient]:
    async def user_of(context: object) -> User:
        return user

    server = AgentTools(site, user_of).server
    async with McpClient(server, mode=mode, elicitation_callback=person) as client:
        yield client


async def test_each_agent_is_a_tool() -> None:
    async with opened() as site, client_of(site) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert [*tools] == ["echo", "payer", "clerk", "wirer", "tailor", CONTINUE]
    assert tools["echo"].input_schema["required"] == ["message"]


@MODES
async def test_a_call_gives_the_answer_of_a_run_that_is_in_the_journal(mode: str) -> None:
    async with opened() as site, client_of(site, mode=mode) as client:
        result = await client.call_tool("echo", {"message": "hello"})
        run = await site.run_of(ANN, result.structured_content["run_id"])
        logged = await run.result()
    assert not result.is_error
    assert result.content[0].text == "You said hello"  # type: ignore[union-attr]
    assert result.structured_content["text"] == "You said hello"
    assert logged is not None
    assert logged.content == "You said hello"


@MODES
@pytest.mark.parametrize(
    ("said", "text"),
    [({"decision": "approve"}, "Paid."), ({"decision": "deny", "reason": "no"}, "Paid.")],
    ids=["approved", "denied"],
)
async def test_an_approval_of_the_user_is_an_elicitation(
    mode: str, said: dict[str, Any], text: str
) -> None:
    person = Person(said)
    async with opened() as site, client_of(site, mode=mode, person=person) as client:
        result = await client.call_tool("payer", {"message": "Pay."})
        run = await site.run_of(ANN, result.structured_content["run_id"])
        (record,) = (await run.result()).tool_records  # type: ignore[union-attr]
    assert person.shown == ['May pay (write) be called with {"order": 1}?']
    assert result.structured_content["text"] == text
    is_done = isinstance(record.outcome, ToolExecutionResult)
    assert is_done is (said["decision"] == "approve")


@MODES
async def test_a_question_of_the_agent_is_an_elicitation(mode: str) -> None:
    person = Person({"value": "M"})
    async with opened() as site, client_of(site, mode=mode, person=person) as client:
        result = await client.call_tool("tailor", {"message": "A shirt."})
    assert person.shown == ["Which size?"]
    assert result.structured_content["text"] == "Size M."


@MODES
async def test_whether_a_call_took_effect_is_an_elicitation_too(mode: str) -> None:
    person = Person({"value": "yes"})
    async with opened() as site, client_of(site, mode=mode, person=person) as client:
        result = await client.call_tool("wirer", {"message": "Wire it."})
        known = await site.app.effects()
    assert person.shown == ["Did this happen? wire(order 1)"]
    assert result.structured_content["text"] == "Wired."
    assert [one.state for one in known] == ["applied"]


@pytest.mark.parametrize("wait_s", [-1, "soon"])
async def test_a_call_with_a_wrong_argument_begins_no_run(wait_s: Any) -> None:
    async with opened() as site, client_of(site) as client:
        result = await client.call_tool("echo", {"message": "hello", "wait_s": wait_s})
        runs = await site.runs_of(ANN)
    assert result.is_error
    assert "wait_s" in result.content[0].text  # type: ignore[union-attr]
    assert not runs


@MODES
async def test_a_form_that_is_closed_leaves_the_run_waiting(mode: str) -> None:
    person = Person("cancel")
    async with opened() as site, client_of(site, mode=mode, person=person) as client:
        # The newer protocol asks again until an answer comes, so the client gives up by itself.
        result = await client.call_tool("payer", {"message": "Pay."})
    assert result.structured_content["status"] == "input_required"


async def test_a_client_that_cannot_ask_is_told_what_waits_and_how_it_goes_on() -> None:
    async with opened() as site, client_of(site) as client:
        waits = await client.call_tool("tailor", {"message": "A shirt."})
        run_id = waits.structured_content["run_id"]
        done = await client.call_tool(CONTINUE, {"run_id": run_id, "answers": {"size": "S"}})
    assert waits.structured_content["waits_for"][0]["question"] == "Which size?"
    assert run_id in waits.content[0].text  # type: ignore[union-attr]
    assert CONTINUE in waits.content[0].text  # type: ignore[union-attr]
    assert done.structured_content["text"] == "Size S."


@pytest.mark.parametrize(("agent", "said"), [("payer", "approve"), ("wirer", "yes")])
async def test_a_model_neither_approves_nor_settles(agent: str, said: str) -> None:
    async with opened() as site, client_of(site) as client:
        waits = await client.call_tool(agent, {"message": "Pay."})
        run_id = waits.structured_content["run_id"]
        (asked,) = waits.structured_content["waits_for"]
        answers = {asked["id"]: said}
        tried = await client.call_tool(CONTINUE, {"run_id": run_id, "answers": answers})
    assert tried.is_error
    assert "a person answers it" in tried.content[0].text  # type: ignore[union-attr]


@MODES
async def test_what_staff_has_to_answer_is_neither_shown_nor_taken(mode: str) -> None:
    person = Person()
    async with opened() as site:
        async with client_of(site, mode=mode, person=person) as client:
            waits = await client.call_tool("clerk", {"message": "Refund."})
            run_id = waits.structured_content["run_id"]
            tried = await client.call_tool(CONTINUE, {"run_id": run_id, "answers": {"r": True}})
        (item,) = await site.app.inbox(run_id=run_id)
    assert (person.shown, waits.structured_content["waits_for"]) == ([], [])
    assert waits.structured_content["waits_for_others"] is True
    assert "refund" not in str(waits)
    assert tried.is_error
    assert item.pending.id == "r"


async def test_not_even_an_owner_answers_for_staff_over_the_protocol() -> None:
    async with opened() as site, client_of(site, STAFF, person=Person()) as client:
        waits = await client.call_tool("clerk", {"message": "Refund."})
        run_id = waits.structured_content["run_id"]
        (item,) = await site.app.inbox(run_id=run_id)
        key = f"{item.pending.id}/{item.pending.digest}"  # type: ignore[union-attr]
        tried = await client.session.call_tool(
            "clerk",
            {"message": "Refund."},
            input_responses={key: ElicitResult(action="accept", content={"decision": "approve"})},
            request_state=run_id,
        )
        assert len(await site.app.inbox(run_id=run_id)) == 1
    assert tried.is_error


async def test_the_run_of_another_user_is_not_there() -> None:
    async with opened() as site:
        async with client_of(site, ANN) as client:
            run_id = (await client.call_tool("echo", {"message": "x"})).structured_content["run_id"]
        async with client_of(site, BOB) as client:
            tried = await client.call_tool(CONTINUE, {"run_id": run_id})
            never = await client.call_tool(CONTINUE, {"run_id": "run-0"})
    assert tried.is_error
    assert str(tried.content[0]).replace(run_id, "run-0") == str(never.content[0])


async def test_a_wait_that_is_over_leaves_the_run_at_work() -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "there"

    slow = Agent("slow", model=ScriptedModel([ToolCall("c", "wait"), "Done."]), tools=[wait])
    async with opened(slow) as site, client_of(site) as client:
        first = await client.call_tool("slow", {"message": "Go.", "wait_s": 0})
        gate.set()
        last = await client.call_tool(CONTINUE, {"run_id": first.structured_content["run_id"]})
    assert first.structured_content["status"] == "running"
    assert last.structured_content["text"] == "Done."


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("echo", {}),
        ("echo", {"message": 7}),
        ("echo", {"message": "x", "more": 1}),
        ("echo", {"message": "x", "wait_s": -1}),
        (CONTINUE, {"run_id": "../x"}),
    ],
)
async def test_wrong_arguments_are_told_in_one_sentence(name: str, arguments: Any) -> None:
    async with opened() as site, client_of(site) as client:
        result = await client.call_tool(name, arguments)
    assert result.is_error
    assert "Traceback" not in str(result)


async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol() -> None:
    async with opened() as site, client_of(site) as client:
        with pytest.raises(MCPError, match="there is no tool 'nobody'") as caught:
            await client.call_tool("nobody", {})
    assert caught.value.code == -32602


async def test_agents_that_would_be_one_tool_are_misuse() -> None:
    async with App([*agents(), Agent("e/o"), Agent("e o")], journal="memory:") as app:
        site = Site(app, user=lambda request: ANN)
        with pytest.raises(Misuse, match="which there is already"):
            async with client_of(site):
                pass


async def test_a_request_that_is_cancelled_interrupts_its_run() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await gate.wait()
        return "there"

    slow = Agent("slow", model=ScriptedModel([ToolCall("c", "wait"), "Done."]), tools=[wait])
    async with opened(slow) as site, client_of(site, mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("slow", {"message": "Go."}))
        await begun.wait()
        (run,) = await site.app.runs()
        calling.cancel()
        await stop_placed(site, run.run_id)
        gate.set()
        result = await (await site.run_of(ANN, run.run_id)).result()
    assert result is not None
    assert (result.status, result.detail) == ("interrupted", "caller cancelled")


async def test_the_client_is_told_of_the_run_and_its_public_tools() -> None:
    @tool(public=True, public_name="Order")
    def look() -> str:
        """Look."""
        return "secret"

    told: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, message))

    looker = Agent("looker", model=ScriptedModel([ToolCall("c", "look"), "Done."]), tools=[look])
    async with opened(looker) as site, client_of(site, mode="legacy") as client:
        result = await client.call_tool("looker", {"message": "Go."}, progress_callback=progress)
        run_id = result.structured_content["run_id"]
        events = [one async for one in public_events(site.app, await site.run_of(ANN, run_id))]
    assert told[0] == (0, f"run {run_id}")
    assert [progress_of(one) for one in events] == ["Order: started", "Order: done", "Done.", ""]
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@asynccontextmanager
async def over_http(who: Client, name: str, **options: Any) -> AsyncGenerator[McpClient]:
    """A client of ``/mcp`` as a user."""
    async with httpx2.AsyncClient(headers={"authorization": name}) as http:
        transport = streamable_http_client(f"{who.url}/mcp", http_client=http)
        async with McpClient(transport, **options) as client:
            yield client


@MODES
async def test_over_http_a_run_is_that_of_its_user(mode: str) -> None:
    async with served(App(agents(), journal="memory:")) as site:
        async with over_http(site, "ann", mode=mode) as ann:
            said = await ann.call_tool("echo", {"message": "hello"})
            run_id = said.structured_content["run_id"]
        async with over_http(site, "ben", mode=mode) as ben:
            tried = await ben.call_tool(CONTINUE, {"run_id": run_id})
    assert said.structured_content["text"] == "You said hello"
    assert tried.is_error


async def test_a_session_of_another_user_is_not_there() -> None:
    async with served(App(agents(), journal="memory:")) as site:
        head = {"accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
        params = {**hello, "clientInfo": {"name": "c", "version": "1"}}
        asking = site.session.post(
            f"{site.url}/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
            headers={"authorization": "ann", **head},
        )
        async with asking as response:
            session = response.headers["mcp-session-id"]
        call = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        status, _ = await site.by("ben").post(
            "/mcp", call, accept=head["accept"], mcp_session_id=session
        )
    assert status == 404


async def test_nobody_gets_nothing_and_no_page_of_another_site_gets_in() -> None:
    async with served(App(agents(), journal="memory:")) as site:
        call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await site.post("/mcp", call))[0] == 401
        assert (await site.by("ann").post("/mcp", call, origin="https://evil.example"))[0] == 403
        assert (await site.by("ann").post("/mcp", call, host="evil.example"))[0] == 421


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc": "2.0"}', b"\xff", b"7"])
async def test_what_is_no_message_gets_the_protocols_own_error(body: bytes) -> None:
    async with served(App(agents(), journal="memory:")) as site:
        accept = "application/json, text/event-stream"
        status, told = await site.by("ann").ask(
            "POST", "/mcp", body, accept=accept, content_type="application/json"
        )
    assert status == 400
    assert told["error"]["code"] in (-32700, -32600, -32602)
    assert "Traceback" not in str(told)
