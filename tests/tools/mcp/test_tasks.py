"""Calls that an MCP server works on as tasks."""

import asyncio
import signal
from subprocess import PIPE

import pytest
from aiohttp import web

from tests.processes import start_python
from tests.tools.mcp.modern import PAY, Modern, form, serving, text
from upshot import (
    Agent,
    Answer,
    Effect,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    ToolProgress,
    open_mcp,
    resume,
    run,
    start,
)

CALL = ToolCall("c1", "bank_pay", {"to": "eve"})
CREATED = {"resultType": "task", "taskId": "t1", "status": "working", "pollIntervalMs": 1}
CAPABLE = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def state(status, **more):
    return {"taskId": "t1", "status": status, "pollIntervalMs": 1, **more}


DONE = state("completed", result={"content": [{"type": "text", "text": "paid"}], "isError": False})


class Worker(Modern):
    """A server whose calls become a task with these states, the last of which is repeated."""

    def __init__(self, *states):
        super().__init__(CREATED, more={"capabilities": CAPABLE})
        self.states = list(states)
        self.updates, self.cancelled, self.got = [], asyncio.Event(), asyncio.Event()
        self.more |= {
            "tasks/get": self.get,
            "tasks/update": lambda params: self.updates.append(params) or {},
            "tasks/cancel": lambda params: self.cancelled.set() or {},
        }

    def get(self, params):
        assert params["taskId"] == "t1"
        self.got.set()
        found = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return found(self) if callable(found) else found


TASKS = {"tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}}
DATES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None}


class OldWorker(Worker):
    """The same in version 2025-11-25, in which a result is a request of its own."""

    def __init__(self, *states, support="optional"):
        super().__init__(*states)
        self.tools = [{**PAY, "execution": {"taskSupport": support}}]
        self.more |= {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, **TASKS},
                "serverInfo": {"name": "old", "version": "1"},
            },
            "tasks/result": self.result,
            "capabilities": TASKS,
        }
        self.script = [{"task": to_old(CREATED)}]

    def get(self, params):
        self.last = super().get(params)
        return to_old(self.last)

    def result(self, params):
        assert params["taskId"] == "t1"
        return self.last["result"]

    async def handle(self, request):
        message = await request.json() if request.method == "POST" else {}
        if message.get("method") == "server/discover":
            return web.Response(status=400)
        if message.get("method") == "tasks/result" and "error" in self.last:
            failed = {"jsonrpc": "2.0", "id": message["id"], "error": self.last["error"]}
            return web.json_response(failed)
        return await super().handle(request)


def to_old(state):
    """A state as version 2025-11-25 has it."""
    kept = {name: state[name] for name in ("taskId", "status", "statusMessage") if name in state}
    return {**kept, **DATES, "pollInterval": 1}


both = pytest.mark.parametrize("kind", [Worker, OldWorker], ids=["2026-07-28", "2025-11-25"])


def agent_with(tools):
    return Agent("clerk", model=ScriptedModel([CALL, "Done."]), tools=[tools])


async def pay(server, journal=None, *, answers=None, **options):
    async with open_mcp("bank", url=server.url, **options) as bank:
        if answers is None:
            request = Request("Pay eve.", run_id="r1")
            return await run(agent_with(bank), request, journal=journal)
        return await resume("r1", agent_with(bank), journal=journal, answers=answers)


@both
async def test_a_task_is_asked_for_until_it_has_a_result(tmp_path, kind):
    async with (
        serving(kind(state("working", statusMessage="half"), DONE)) as bank,
        open_mcp("bank", url=bank.url) as tools,
        start(agent_with(tools), "Pay.", journal=str(tmp_path / "j")) as live,
    ):
        told = [event.text async for event in live if isinstance(event, ToolProgress)]
        result = await live.result()
    assert result.tool_records[0].outcome.output == {"result": "paid"}
    assert told == ["half", "completed"]
    assert len(bank.calls) == 1


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (state("failed", error={"code": -32603, "message": "no money"}), "no money"),
        (state("cancelled"), "the server cancelled its task"),
        (state("completed", result={"content": 5}), "has no valid result of its task"),
        (
            state(
                "completed",
                result={"content": [{"type": "text", "text": "broke"}], "isError": True},
            ),
            "broke",
        ),
        ({"taskId": "t1"}, "does not say how far its task is"),
    ],
    ids=["failed", "cancelled", "invalid", "error", "unreadable"],
)
@both
async def test_a_task_without_a_result_is_a_failure_of_unknown_effect(end, said, kind):
    async with serving(kind(end)) as bank:
        result = await pay(bank)
    (record,) = result.tool_records
    assert said in record.outcome.error
    assert record.effect is Effect.UNKNOWN


@both
async def test_a_cancelled_call_cancels_its_task(tmp_path, kind):
    async with (
        serving(kind(state("working"))) as bank,
        open_mcp("bank", url=bank.url) as tools,
        start(agent_with(tools), "Pay.", journal=str(tmp_path / "j")) as live,
    ):
        await bank.got.wait()
        live.cancel()
        result = await live.result()
        assert bank.cancelled.is_set()
    assert result.status is Status.CANCELED
    assert [one.state for one in result.effects] == [Effect.UNKNOWN]


@both
async def test_a_call_that_takes_too_long_cancels_its_task(kind):
    async with serving(kind(state("working"))) as bank:
        result = await pay(bank, timeout_s=1)
        assert bank.cancelled.is_set()
    assert result.tool_records[0].effect is Effect.UNKNOWN


async def test_what_a_task_needs_is_a_question_and_the_task_goes_on(tmp_path):
    journal = str(tmp_path / "j")
    needs = state("input_required", inputRequests={"k": form()})
    waits = lambda server: DONE if server.updates else needs  # noqa: E731
    async with serving(Worker(waits)) as bank:
        parked = await pay(bank, journal)
        assert parked.status is Status.INPUT_REQUIRED and not bank.cancelled.is_set()
        done = await pay(bank, journal, answers=[Answer(parked.pending[0].id, {"cents": 3})])
    assert done.tool_records[0].outcome.output == {"result": "paid"}
    (update,) = bank.updates
    assert update["inputResponses"]["k"]["content"]["cents"] == 3
    assert len(bank.calls) == 1


@both
async def test_a_lost_connection_does_not_lose_a_task(kind):
    lost = []

    class Flaky(kind):
        async def handle(self, request):
            message = await request.json() if request.method == "POST" else {}
            if message.get("method") == "tasks/get" and not lost:
                lost.append(1)
                request.transport.close()
            return await super().handle(request)

    async with serving(Flaky(DONE)) as bank:
        result = await pay(bank)
    assert lost and len(bank.calls) == 1
    assert result.tool_records[0].outcome.output == {"result": "paid"}


PROGRAM = """
import asyncio, sys
from upshot import *

async def main(url, journal):
    call = ToolCall("c1", "bank_pay", {"to": "eve"})
    async with open_mcp("bank", url=url) as bank:
        agent = Agent("clerk", model=ScriptedModel([call, "Done."]), tools=[bank])
        await run(agent, Request("Pay eve.", run_id="r1"), journal=journal)

asyncio.run(main(*sys.argv[1:]))
"""


@both
async def test_after_a_kill_the_task_is_asked_for_and_the_call_not_made_again(tmp_path, kind):
    journal = str(tmp_path / "runs.db")
    async with serving(kind(state("working"))) as bank:
        process = await asyncio.to_thread(
            start_python, "-c", PROGRAM, bank.url, journal, stdout=PIPE
        )
        try:
            await bank.got.wait()
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        finally:
            process.kill()
            process.stdout.close()
        bank.states = [DONE]
        result = await pay(bank, journal, answers=[])
    assert result.tool_records[0].outcome.output == {"result": "paid"}
    assert len(bank.calls) == 1 and not bank.cancelled.is_set()


@pytest.mark.parametrize("support", ["forbidden", None])
async def test_a_tool_that_may_not_be_a_task_is_called_as_ever(support):
    async with serving(OldWorker(DONE, support=support)) as bank:
        bank.script = [text("paid")]
        result = await pay(bank)
    assert result.tool_records[0].outcome.output == {"result": "paid"}
    assert "task" not in bank.calls[0] and "tasks/get" not in bank.asked


async def test_a_server_need_not_make_a_call_a_task():
    async with serving(OldWorker(DONE)) as bank:
        bank.script = [text("paid")]
        result = await pay(bank)
    assert result.tool_records[0].outcome.output == {"result": "paid"}
    assert bank.calls[0]["task"]["ttl"] > 0 and "tasks/get" not in bank.asked
