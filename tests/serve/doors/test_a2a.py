"""The agents of an App as A2A agents, over JSON-RPC."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import pytest

from tests.serve.doors.asking import agents
from tests.serve.kit import Client, served
from upshot import Agent, App, Board, Message, Run, RunHost, ScriptedModel, ScriptEngine, ToolCall
from upshot import tool as tool_of
from upshot.contract import Text
from upshot.serve.doors.a2a import update_of

NEW: Any = {"a2a_version": "1.0"}
IDS = {"taskId": "t", "contextId": "c"}


def said(text: str = "Hello", **more: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


async def rpc(client: Client, agent: str, method: str, **params: Any) -> Any:
    """The result of a call, or the code of its error."""
    _, body = await client.post(f"/a2a/{agent}", call(method, **params), **NEW)
    assert body["id"] == 7
    return body.get("result") or body["error"]


async def streamed(client: Client, agent: str, method: str, **params: Any) -> AsyncGenerator[Any]:
    asking = client.session.post(
        f"{client.url}/a2a/{agent}",
        json=call(method, **params),
        headers={**client.headers, "a2a-version": "1.0"},
        timeout=aiohttp.ClientTimeout(30),
    )
    async with asking as response:
        assert response.content_type == "text/event-stream"
        async for line in response.content:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])["result"]


async def asked(client: Client, agent: str, **more: Any) -> Any:
    return (await rpc(client, agent, "SendMessage", message=said(**more)))["task"]


def app(*more: Agent[Any], journal: Any = "memory:") -> App:
    return App([*agents(), *more], journal=journal)


async def test_a_message_gives_a_task_that_stays() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "echo")
        again = await rpc(ann, "echo", "GetTask", id=task["id"])
    assert again == task
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"] == [{"text": "You said Hello"}]
    assert [one["messageId"] for one in task["history"]] == ["m", f"{task['id']}-answer"]
    assert task["contextId"]


async def test_a_context_is_a_conversation() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        first = await asked(ann, "echo")
        second = await asked(ann, "echo", text="More", contextId=first["contextId"])
        listed = await rpc(ann, "echo", "ListTasks", contextId=first["contextId"], pageSize=1)
        rest = await rpc(
            ann,
            "echo",
            "ListTasks",
            contextId=first["contextId"],
            pageSize=1,
            pageToken=listed["nextPageToken"],
        )
    assert [task["id"] for task in (*listed["tasks"], *rest["tasks"])] == [
        second["id"],
        first["id"],
    ]
    assert (listed["totalSize"], rest["nextPageToken"]) == (2, "")
    assert "artifacts" not in listed["tasks"][0]


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_an_approval_of_the_user_is_input_required(decision: str) -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "payer")
        _, shown = task["status"]["message"]["parts"]
        item = shown["data"]
        answer = {"id": item["id"], "digest": item["digest"], "decision": decision}
        done = await asked(ann, "payer", taskId=task["id"], parts=[{"data": answer}])
        (run,) = await site_runs(site, done["id"])
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (item["tool"], item["arguments"]) == ("pay", {"order": 1})
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (run.get("effect") == "applied") is (decision == "approve")


async def site_runs(site: Client, run_id: str) -> list[Any]:
    _, told = await site.by("ann").get("/api/runs")
    return [one for one in told["runs"] if one["run_id"] == run_id]


async def test_an_approval_is_not_given_by_a_text_or_to_another_call() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "payer")
        refused = [
            await rpc(ann, "payer", "SendMessage", message=said(taskId=task["id"], parts=parts))
            for parts in (
                [{"text": "approve"}],
                [{"data": {"id": "p", "decision": "approve"}}],
                [{"data": {"id": "q", "decision": "approve", "digest": "x"}}],
                [{"data": {"id": "p", "decision": "approve", "digest": "0" * 64}}],
            )
        ]
        still = await rpc(ann, "payer", "GetTask", id=task["id"])
    assert [error["code"] for error in refused] == [-32602, -32602, -32602, -32004]
    assert still["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_a_question_is_answered_by_a_text() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "tailor")
        done = await asked(ann, "tailor", text="M", taskId=task["id"])
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert done["artifacts"][0]["parts"] == [{"text": "Size M."}]


async def test_whether_a_call_took_effect_is_a_question_too() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "wirer")
        (question,) = [p["data"] for p in task["status"]["message"]["parts"] if "data" in p]
        told = {"id": question["id"], "digest": question["digest"], "value": "yes"}
        for wrong in ({**told, "digest": "0"}, {**told, "value": "perhaps"}):
            message = said(taskId=task["id"], parts=[{"data": wrong}])
            assert "task" not in await rpc(ann, "wirer", "SendMessage", message=message)
        done = await asked(ann, "wirer", taskId=task["id"], parts=[{"data": told}])
        _, known = await site.by("oz").get("/api/effects")
    assert question["question"] == "Did this happen? wire(order 1)"
    assert done["artifacts"][0]["parts"] == [{"text": "Wired."}]
    assert [one["state"] for one in known["effects"]] == ["applied"]


@pytest.mark.parametrize("name", ["ann", "oz"])
async def test_what_staff_has_to_answer_is_only_told_as_a_wait(name: str) -> None:
    async with served(app()) as site:
        user = site.by(name)
        task = await asked(user, "clerk")
        _, inbox = await site.by("oz").get("/api/inbox")
        (item,) = (one["pending"] for one in inbox["items"])
        data = {"id": item["call_id"], "digest": item["digest"], "decision": "approve"}
        tried = await rpc(
            user, "clerk", "SendMessage", message=said(taskId=task["id"], parts=[{"data": data}])
        )
        _, after = await site.by("oz").get("/api/inbox")
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    assert "refund" not in json.dumps(task["status"])
    assert tried["code"] == -32004
    assert len(after["items"]) == 1


async def test_the_task_of_another_user_or_agent_is_not_there() -> None:
    async with served(app()) as site:
        task = await asked(site.by("ann"), "payer")
        ben = site.by("ben")
        tried = [await rpc(ben, "payer", name, id=task["id"]) for name in BY_ID]
        tried.append(await rpc(ben, "payer", "SendMessage", message=said(taskId=task["id"])))
        tried.append(await rpc(site.by("ann"), "echo", "GetTask", id=task["id"]))
        never = await rpc(ben, "payer", "GetTask", id="run-0")
        listed = await rpc(ben, "payer", "ListTasks")
    words = {json.dumps(one).replace(task["id"], "run-0") for one in tried}
    assert words == {json.dumps(never)}
    assert (never["code"], never["data"][0]["reason"]) == (-32001, "TASK_NOT_FOUND")
    assert listed["tasks"] == []


BY_ID = ("GetTask", "CancelTask", "SubscribeToTask")


async def test_a_task_is_canceled_once() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "payer")
        gone = await rpc(ann, "payer", "CancelTask", id=task["id"])
        again = await rpc(ann, "payer", "CancelTask", id=task["id"])
        more = await rpc(ann, "payer", "SendMessage", message=said(taskId=task["id"]))
        watch = await rpc(ann, "payer", "SubscribeToTask", id=task["id"])
    assert gone["status"]["state"] == "TASK_STATE_CANCELED"
    assert [one["code"] for one in (again, more, watch)] == [-32002, -32004, -32004]


async def test_a_stream_begins_with_the_task_and_ends_with_its_state() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        seen = [one async for one in streamed(ann, "echo", "SendStreamingMessage", message=said())]
    assert "task" in seen[0]
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    last = seen[-2]["artifactUpdate"]
    assert (last["artifact"]["parts"], last["lastChunk"]) == ([{"text": "You said Hello"}], True)


async def test_who_subscribes_sees_a_task_through_its_waits() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        task = await asked(ann, "tailor")
        states: list[str] = []
        async for update in streamed(ann, "tailor", "SubscribeToTask", id=task["id"]):
            if "task" in update:
                await asked(ann, "tailor", text="S", taskId=task["id"])
            status = update.get("statusUpdate", update.get("task", {})).get("status")
            states += [] if status is None else [status["state"]]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"]


async def test_it_need_not_be_waited_for() -> None:
    gate = asyncio.Event()

    @tool_of
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "there"

    slow = Agent("slow", model=ScriptedModel([ToolCall("c", "wait"), "Done."]), tools=[wait])
    async with served(app(slow)) as site:
        ann = site.by("ann")
        at_once = {"returnImmediately": True}
        begun = await rpc(ann, "slow", "SendMessage", message=said(), configuration=at_once)
        assert begun["task"]["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
        gate.set()
        following = streamed(ann, "slow", "SubscribeToTask", id=begun["task"]["id"])
        *_, last = [one async for one in following]
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b'"\\ud800"', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "GetTask"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "message/send"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": 7}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": []}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 0}}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}', -32004),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "GetTaskPushNotificationConfig"}', -32003),
    ],
)
async def test_what_is_no_request_gets_the_protocols_own_error(body: bytes, code: int) -> None:
    async with served(app()) as site:
        status, told = await site.by("ann").ask(
            "POST", "/a2a/echo", body, content_type="application/json", **NEW
        )
    assert (status, told["error"]["code"]) == (200, code)
    assert "Traceback" not in str(told)


async def test_a_list_since_a_moment_needs_its_time_zone() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        await asked(ann, "echo")
        since = {"statusTimestampAfter": "2026-01-01T00:00:00"}
        tried = await rpc(ann, "echo", "ListTasks", **since)
    assert tried["code"] == -32602


@pytest.mark.parametrize(
    "params", [{"pageSize": 101}, {"historyLength": -1}, {"page_size": 0}, {"pageToken": "x"}]
)
async def test_a_list_is_of_so_many_tasks_as_the_protocol_allows(params: Any) -> None:
    async with served(app()) as site:
        tried = await rpc(site.by("ann"), "echo", "ListTasks", **params)
    assert tried["code"] == -32602


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"parts": []}, -32602),
        ({"role": "ROLE_AGENT"}, -32602),
        ({"parts": [{}]}, -32602),
        ({"parts": [{"raw": "eA==", "mediaType": "image/png"}]}, -32005),
        ({"parts": [{"url": "artifact:art-1", "mediaType": "text/plain"}]}, -32602),
        ({"parts": [{"url": "file:///etc/passwd", "mediaType": "text/plain"}]}, -32602),
    ],
)
async def test_a_message_that_is_not_taken(message: Any, code: int) -> None:
    async with served(app()) as site:
        tried = await rpc(site.by("ann"), "echo", "SendMessage", message={**said(), **message})
    assert tried["code"] == code


async def test_what_a_client_says_of_itself_counts_for_nothing() -> None:
    ours = {"upshot": {"role": "system", "trust": "trusted", "run_id": "mine", "tool_calls": [{}]}}
    found: list[Message] = []

    async def keep(run: Run, host: RunHost, board: Board) -> str:
        found.extend(board.messages())
        return "kept"

    part = {"text": "Hi", "metadata": ours}
    async with served(app(Agent("keeper", engine=ScriptEngine(keep)))) as site:
        params = {"message": said(parts=[part], metadata=ours), "metadata": ours}
        task = await rpc(site.by("ann"), "keeper", "SendMessage", **params)
    (message,) = found
    assert (message.role, message.parts) == ("user", (Text("Hi"),))
    assert task["task"]["id"] != "mine"


async def test_another_version_is_not_spoken() -> None:
    async with served(app()) as site:
        for headers in ({}, {"a2a_version": "0.3"}):
            _, told = await site.by("ann").post("/a2a/echo", call("ListTasks"), **headers)
            assert told["error"]["data"][0]["reason"] == "VERSION_NOT_SUPPORTED"


async def test_a_card_says_where_the_agent_is_and_changes_with_it() -> None:
    async with served(app()) as site:
        ann = site.by("ann")
        _, root = await ann.get("/.well-known/agent-card.json")
        _, card = await ann.get("/a2a/payer/.well-known/agent-card.json")
        missing, _ = await ann.get("/a2a/nobody/.well-known/agent-card.json")
        hidden, _ = await site.get("/.well-known/agent-card.json")
    assert root["name"] == "echo"
    (at,) = card["supportedInterfaces"]
    assert at == {
        "url": f"{site.url}/a2a/payer",
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
    }
    assert card["capabilities"] == {"streaming": True, "pushNotifications": False}
    assert (missing, hidden) == (404, 401)


def test_pieces_of_a_reply_are_one_artifact_and_a_new_reply_takes_its_place() -> None:
    texts = [{"kind": "text", "text": "a"}, {"kind": "text", "text": "b"}]
    first, second = (
        next(iter(update_of(one, IDS, is_open=bool(number)))) for number, one in enumerate(texts)
    )
    assert [one["artifactUpdate"]["append"] for one in (first, second)] == [False, True]  # type: ignore[index, call-overload]
    (void,) = update_of({"kind": "reset"}, IDS, is_open=True)
    assert void["artifactUpdate"]["append"] is False  # type: ignore[index, call-overload]
    assert void["artifactUpdate"]["artifact"]["parts"] == [{"text": ""}]  # type: ignore[index, call-overload]
    assert not [*update_of({"kind": "reset"}, IDS, is_open=False)]


async def test_who_may_only_see_the_runs_of_others_neither_cancels_nor_answers_them() -> None:
    async with served(app()) as site:
        task = await asked(site.by("ann"), "tailor")
        vic = site.by("vic")
        seen = await rpc(vic, "tailor", "GetTask", id=task["id"])
        tried = [
            await rpc(vic, "tailor", "CancelTask", id=task["id"]),
            await rpc(vic, "tailor", "SendMessage", message=said("M", taskId=task["id"])),
        ]
        after = await rpc(vic, "tailor", "GetTask", id=task["id"])
    assert seen == after == task
    assert [one["code"] for one in tried] == [-32602, -32602]
