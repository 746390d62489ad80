"""Calls of clients over standard input and output, through a gateway that is a process."""

from __future__ import annotations

import asyncio
import json
from subprocess import PIPE
from typing import Any

import pytest
from mcp import MCPError

from tests.gateway import shop
from tests.gateway.kit import KEY, REFUND, VERIFY, Place, approving, text_of, told
from tests.gateway.tasks_server import TASKS
from tests.processes import ROOT, launched, start_python
from upshot import open_journal
from upshot.contract.codec import encode
from upshot.entry.run_handle import RunHandle

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])
ASKING = {**REFUND, "approval": "cents > 5000", "deny": "cents <= 0"}


async def settle(journal: Any, *, yes: bool) -> str:
    """Answer the only question of the inbox; returns its run."""
    (item,) = await journal.inbox()
    answer = item.pending.approve(by="bob") if yes else item.pending.deny("no", by="bob")
    await RunHandle(item.run_id, journal).answer(answer)
    return item.run_id


@MODES
async def test_a_client_gets_what_the_server_says(bare_place: Place, mode: Any):
    place = bare_place
    place.write(default="read", servers={"shop": place.program()})
    seen: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with place.client_of_process(mode=mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert client.server_info is not None
        assert (client.server_info.name, client.instructions) == ("shop", "A shop.")
        listed = await client.list_tools()
        assert [one.name for one in listed.tools][:2] == ["refund", "list_refunds"]
        found = await client.call_tool("refund", {"order_id": "7"}, progress_callback=note)
        assert (text_of(found), told(found)) == ("re_7", {})
        lookup = await client.call_tool("list_refunds", {"order_id": "7"})
        assert lookup.structured_content == {"refunds": [{"order": "7"}]}
        read = await client.read_resource("shop://hours")
        assert read.contents[0].uri == "shop://hours"
        prompt = await client.get_prompt("greet")
        assert "greet" in str(prompt.messages[0].content)
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})
    assert seen == [(1, 2, "refunding")]


async def test_a_server_may_ask_the_person_at_the_client(place: Place):
    place.write({"shop/ask": {"effect": "read"}})
    asked: list[str] = []
    async with place.client(mode="legacy", elicitation_callback=approving(asked=asked)) as client:
        found = await client.call_tool("ask", {})
    assert asked == ["Your name?"] and "accept" in text_of(found)


@MODES
async def test_a_second_call_gets_the_first_ones_result_and_reads_so(place: Place, mode: Any):
    place.write()
    async with place.client(mode=mode) as client:
        await client.call_tool("refund", {"order_id": "7"})
        again = await client.call_tool("refund", {"order_id": "7", "note": "please"})
        other = await client.call_tool("refund", {"order_id": "7", "cents": 5})
    assert text_of(again).startswith("re_7\nThis was done before at 20")
    assert not again.is_error and told(again)["effect"] == "none"
    assert other.is_error and told(other)["reason"] == "conflict"
    assert place.lines == ["refund 7"]


async def test_conditions_and_tools_that_are_not_named(place: Place):
    place.write({"shop/refund": ASKING}, default="deny", wait_s=0)
    async with place.client(mode="legacy") as client:
        denied = await client.call_tool("refund", {"order_id": "7", "cents": -1})
        unnamed = await client.call_tool("wipe", {})
        waits = await client.call_tool("refund", {"order_id": "7", "cents": 9000})
        free = await client.call_tool("refund", {"order_id": "8"})
    assert "deny: cents <= 0 is true" in text_of(denied)
    assert told(denied)["reason"] == told(unnamed)["reason"] == "deny_condition"
    assert told(waits)["kind"] == "waiting" and "was not called yet" in text_of(waits)
    assert text_of(free) == "re_8" and place.lines == ["refund 8"]


@pytest.mark.slow("*-legacy")
@MODES
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_the_person_at_the_client_is_asked_where_it_can_ask(
    place: Place, mode: Any, decision: str
):
    place.write({"shop/refund": ASKING})
    asked: list[str] = []
    elicit = approving(decision=decision, asked=asked)
    async with place.client("ann", mode=mode, elicitation_callback=elicit) as client:
        found = await client.call_tool("refund", {"order_id": "7", "cents": 9000})
    assert len(asked) == 1 and "cents > 5000" in asked[0]
    assert place.lines == (["refund 7"] if decision == "approve" else [])
    assert told(found).get("reason") == (None if decision == "approve" else "write_denied")
    async with open_journal(place.journal) as journal:
        assert len(await journal.effects(user="ann")) == len(place.lines)


async def test_a_question_is_answered_in_the_inbox_and_taken_up_by_the_same_call(place: Place):
    place.write({"shop/refund": ASKING}, wait_s=0)
    call = {"order_id": "7", "cents": 9000}
    async with open_journal(place.journal) as journal:
        async with place.client(mode="legacy") as client:
            first = await client.call_tool("refund", call)
            second = await client.call_tool("refund", call)
            assert told(first) == told(second)
            assert await settle(journal, yes=True) == told(first)["question"]
        # Also by another gateway, since the question is in the journal.
        async with place.client(mode="legacy") as client:
            done = await client.call_tool("refund", call)
            asked_anew = await client.call_tool("refund", {**call, "order_id": "8"})
        (entry,) = await journal.effects()
        assert entry.approved_by == "bob"
    assert text_of(done) == "re_7" and place.lines == ["refund 7"]
    assert told(asked_anew)["kind"] == "waiting"


async def test_a_call_goes_on_when_the_inbox_answers_while_it_waits(place: Place):
    place.write({"shop/refund": {**ASKING, "ask": "staff"}}, wait_s=600)
    waits: asyncio.Queue[str] = asyncio.Queue()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        waits.put_nowait(message or "")

    asked: list[str] = []
    elicit = approving(asked=asked)
    async with (
        open_journal(place.journal) as journal,
        place.client(mode="legacy", elicitation_callback=elicit) as client,
    ):
        call = client.call_tool("refund", {"order_id": "7", "cents": 9000}, progress_callback=note)
        task = asyncio.create_task(call)
        assert (await waits.get()).startswith("waits for approval: ask-")
        await settle(journal, yes=False)
        denied = await task
    assert told(denied)["reason"] == "write_denied" and "no" in text_of(denied)
    assert asked == [] and place.lines == []


async def test_a_question_that_was_answered_is_asked_anew_next_time(place: Place):
    place.write({"shop/wipe": {"effect": "destructive"}})
    asked: list[str] = []
    elicit = approving(asked=asked)
    for times in (2, 1):
        # Also by a gateway that was started since.
        async with place.client(mode="legacy", elicitation_callback=elicit) as client:
            for _ in range(times):
                assert text_of(await client.call_tool("wipe", {})) == "wipe done"
    assert len(asked) == 3


@pytest.mark.slow("legacy")
@MODES
async def test_the_unknown_effect_of_an_approved_call_is_told(place: Place, mode: Any):
    place.write({"shop/refund": {"effect": "destructive"}})
    async with place.client(mode=mode, elicitation_callback=approving()) as client:
        found = await client.call_tool("refund", {"order_id": "7", "then": "fail"})
    assert found.is_error and told(found)["effect"] == "unknown"
    assert "not call it again" in text_of(found) and place.lines == ["refund 7"]


async def test_a_tool_that_the_server_adds_without_notice_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write(default="read")
    async with place.client(mode="legacy") as client:
        assert text_of(await client.call_tool("wipe", {})) == "wipe done"
        new = shop.TOOLS[-1].model_copy(update={"name": "new"})
        monkeypatch.setattr(shop, "TOOLS", [*shop.TOOLS, new])
        assert text_of(await client.call_tool("new", {})) == "new done"


async def test_what_the_server_keeps_secret_reaches_no_client(bare_place: Place):
    place = bare_place
    place.write({"shop/secret": {"effect": "read"}}, servers={"shop": place.program()})
    seen: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async with place.client() as client:
        found = await client.call_tool("secret", {}, progress_callback=note)
    assert text_of(found) == "the key is ***" and seen == ["the key is ***"]
    async with open_journal(place.journal) as journal:
        ids = [one.run_id for one in await journal.runs()]
        kept = [encode(one).decode() for id in ids async for one in journal.events(id)]
    assert kept and not any(KEY in one for one in kept)


@pytest.mark.slow("legacy")
@MODES
async def test_another_tool_of_the_server_tells_what_happened(bare_place: Place, mode: Any):
    place = bare_place
    place.write(
        {"shop/refund": {**REFUND, "verify": VERIFY}, "shop/list_refunds": {"effect": "read"}},
        servers={"shop": place.program()},
    )
    async with place.client(mode=mode) as client:
        found = await client.call_tool("refund", {"order_id": "7", "then": "die"})
        # The server has to start again first, for which a look may have no time.
        first = told(found)["effect"]
        assert found.is_error and first in ("unknown", "applied")
        while told(again := await client.call_tool("refund", {"order_id": "7"})).get("reason"):
            assert told(again)["reason"] == "effect_unknown"
    assert "done before" in text_of(again) and place.lines == ["refund 7"]
    async with open_journal(place.journal) as journal:
        (entry,) = await journal.effects()
    # What was found out within the call stands in its outcome.
    by = "" if entry.settled is None else entry.settled.by
    assert by == ("verify" if first == "unknown" else "")


async def test_an_error_of_the_server_is_passed_on_and_means_what_the_file_says(place: Place):
    place.write({"shop/refund": {**REFUND, "error": "none"}})
    async with place.client(mode="legacy") as client:
        closed = await client.call_tool("refund", {"order_id": "7", "then": "refuse"})
        then = await client.call_tool("refund", {"order_id": "7"})
    assert closed.is_error and text_of(closed) == "the shop is closed"
    assert text_of(then) == "re_7"


@pytest.mark.slow("http-legacy")
@MODES
@pytest.mark.parametrize("over", ["pipe", "http"])
async def test_a_client_that_cancels_cancels_at_the_server(place: Place, mode: Any, over: str):
    place.write()
    came = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        came.set()

    opened = place.client(mode=mode) if over == "pipe" else place.client_over_http(mode=mode)
    async with opened as client:
        given = {"order_id": "7", "then": "hang", "note": "tell"}
        call = client.call_tool("refund", given, progress_callback=note)
        task = asyncio.create_task(call)
        await came.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        again = await client.call_tool("refund", {"order_id": "7"})
        while len(place.lines) < 2:
            await asyncio.sleep(0.01)
    assert told(again)["reason"] == "effect_unknown"
    assert place.lines == ["refund 7", "cancelled 7"]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_call_is_no_task_and_a_server_that_makes_one_leaves_it_unknown(
    bare_place: Place, version: str
):
    place = bare_place
    command = launched("-m", "tests.gateway.tasks_server", place.book)
    place.write(
        {"shop/refund": {"effect": "write", "once": "order_id"}},
        servers={"shop": {"command": command, "cwd": str(ROOT)}},
    )
    able = {"tasks": {"list": {}}, "extensions": {TASKS: {}, "other/one": {}}}
    meta: dict[str, Any] = {}
    if version == "2026-07-28":
        meta = {"io.modelcontextprotocol/clientCapabilities": able}
        meta["io.modelcontextprotocol/protocolVersion"] = version
    call = {"name": "refund", "arguments": {"order_id": "7"}, "task": {"ttl": 1}, "_meta": meta}
    hello = {"protocolVersion": version, "capabilities": able, "clientInfo": {"name": "a"}}
    first = ("server/discover", {"_meta": meta}) if meta else ("initialize", hello)
    asked = [first, ("tools/call", call), ("tools/call", call)]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(asked)
    ]
    with start_python(*place.command(), stdin=PIPE, stdout=PIPE, cwd=ROOT, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        replies: list[Any] = []
        for line in lines:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            replies.append(json.loads(await asyncio.to_thread(process.stdout.readline))["result"])
        process.stdin.close()
    told_able, made, again = replies
    assert told_able["capabilities"] == {"tools": {}, "extensions": {}}
    assert made["isError"] and made["_meta"]["upshot/outcome"]["effect"] == "unknown"
    assert again["_meta"]["upshot/outcome"]["reason"] == "effect_unknown"
    received = [json.loads(line) for line in place.lines]
    calls = [one["params"] for one in received if one["method"] == "tools/call"]
    assert len(calls) == 1 and "task" not in calls[0]
    assert TASKS not in place.book.read_text() and "other/one" in place.book.read_text()
