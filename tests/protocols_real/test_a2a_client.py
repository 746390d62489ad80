"""The official A2A client against /a2a."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.helpers.proto_helpers import new_data_message, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from tests.serve.doors.asking import agents
from tests.serve.kit import Client, served
from upshot import App

INPUT, AUTH = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED
DONE, GONE = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED


@asynccontextmanager
async def site() -> AsyncGenerator[Client]:
    async with served(App(agents(), journal="memory:")) as client:
        yield client


@asynccontextmanager
async def client_of(site: Client, agent: str, name: str = "ann", **config: Any) -> Any:
    """The client as one that finds the agent by its card makes it."""
    async with httpx.AsyncClient(headers={"authorization": name}) as http:
        found = await create_client(
            f"{site.url}/a2a/{agent}", ClientConfig(httpx_client=http, **config)
        )
        async with found as client:
            yield client


def text(said: str = "Hello", **ids: str) -> SendMessageRequest:
    return SendMessageRequest(message=new_text_message(said, role=Role.ROLE_USER, **ids))


def answer(task: Any, decision: str) -> SendMessageRequest:
    """The answer to the approval that the task asks for."""
    _, part = task.status.message.parts
    item = MessageToDict(part.data)
    data = {"id": item["id"], "digest": item["digest"], "decision": decision}
    return SendMessageRequest(message=new_data_message(data, role=Role.ROLE_USER, task_id=task.id))


async def last_task(client: Any, events: AsyncGenerator[Any]) -> tuple[Any, list[str]]:
    """The task as it is after a stream, and what the stream had."""
    id, kinds = "", []
    async for event in events:
        kinds.append(event.WhichOneof("payload"))
        id = id or event.task.id
    return await client.get_task(GetTaskRequest(id=id)), kinds


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_is_sent_and_answered(streaming: bool) -> None:
    async with site() as served_, client_of(served_, "echo", streaming=streaming) as client:
        task, kinds = await last_task(client, client.send_message(text()))
        listed = await client.list_tasks(ListTasksRequest(context_id=task.context_id))
    assert task.status.state == DONE
    assert task.artifacts[0].parts[0].text == "You said Hello"
    assert [one.id for one in listed.tasks] == [task.id]
    assert kinds[0] == "task"
    assert kinds[1:] == (["artifact_update", "status_update"] if streaming else [])


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_an_approval_is_input_that_the_client_gives(decision: str) -> None:
    async with site() as served_, client_of(served_, "payer") as client:
        task, _ = await last_task(client, client.send_message(text()))
        assert task.status.state == INPUT
        done, _ = await last_task(client, client.send_message(answer(task, decision)))
        _, runs = await served_.by("oz").get("/api/runs")
    assert (done.id, done.status.state) == (task.id, DONE)
    assert (runs["runs"][0].get("effect") == "applied") is (decision == "approve")


async def test_a_question_is_answered_by_a_text() -> None:
    async with site() as served_, client_of(served_, "tailor") as client:
        task, _ = await last_task(client, client.send_message(text()))
        done, _ = await last_task(client, client.send_message(text("M", task_id=task.id)))
    assert (task.status.state, done.status.state) == (INPUT, DONE)
    assert done.artifacts[0].parts[0].text == "Size M."


async def test_a_task_is_subscribed_to_again_after_the_line_was_cut() -> None:
    async with site() as served_:
        async with client_of(served_, "tailor") as first:
            task, _ = await last_task(first, first.send_message(text()))
        states: list[int] = []
        async with client_of(served_, "tailor") as client:
            async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                if event.WhichOneof("payload") == "task":
                    say = client.send_message(text("S", task_id=task.id))
                    answering = asyncio.create_task(last_task(client, say))
                elif event.WhichOneof("payload") == "status_update":
                    states.append(event.status_update.status.state)
            await answering
    assert states[-1] == DONE


async def test_a_task_is_canceled_once() -> None:
    async with site() as served_, client_of(served_, "payer") as client:
        task, _ = await last_task(client, client.send_message(text()))
        gone = await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
    assert gone.status.state == GONE


async def test_it_need_not_be_waited_for() -> None:
    async with site() as served_, client_of(served_, "echo", streaming=False) as client:
        request = text()
        request.configuration.CopyFrom(SendMessageConfiguration(return_immediately=True))
        (event,) = [one async for one in client.send_message(request)]
    assert event.task.status.state != TaskState.TASK_STATE_UNSPECIFIED


@pytest.mark.parametrize("name", ["ann", "oz"])
async def test_what_staff_is_asked_is_not_shown_and_not_taken(name: str) -> None:
    async with site() as served_, client_of(served_, "clerk", name) as client:
        task, _ = await last_task(client, client.send_message(text()))
        _, inbox = await served_.by("oz").get("/api/inbox")
        item = inbox["items"][0]["pending"]
        data = {"id": item["call_id"], "digest": item["digest"], "decision": "approve"}
        message = new_data_message(data, role=Role.ROLE_USER, task_id=task.id)
        with pytest.raises(UnsupportedOperationError):
            _ = [one async for one in client.send_message(SendMessageRequest(message=message))]
        _, after = await served_.by("oz").get("/api/inbox")
    assert task.status.state == AUTH
    assert "refund" not in str(task.status)
    assert len(after["items"]) == 1


async def test_the_task_of_another_user_is_not_there() -> None:
    async with site() as served_, client_of(served_, "payer") as client:
        task, _ = await last_task(client, client.send_message(text()))
        async with client_of(served_, "payer", "ben") as other:
            with pytest.raises(TaskNotFoundError):
                await other.get_task(GetTaskRequest(id=task.id))
            with pytest.raises(TaskNotFoundError):
                _ = [one async for one in other.send_message(answer(task, "approve"))]
        yes = answer(task, "maybe")
        with pytest.raises(InvalidParamsError):
            _ = [one async for one in client.send_message(yes)]
