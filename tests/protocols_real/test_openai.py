"""The official OpenAI client against /v1/responses."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.serve.doors.test_responses import app, looker
from tests.serve.kit import USERS, Client, served


def bearer(request: Any) -> Any:
    """Who sends a request, by the key of the client."""
    return USERS.get(request.headers.get("authorization", "").removeprefix("Bearer "))


@asynccontextmanager
async def site(name: str = "ann") -> AsyncGenerator[tuple[AsyncOpenAI, Client]]:
    async with (
        served(app(looker()), user=bearer) as client,
        AsyncOpenAI(api_key=name, base_url=f"{client.url}/v1", max_retries=0) as sdk,
    ):
        yield sdk, client


def answer(response: Any, *, approve: bool = True) -> list[Any]:
    (asked,) = [item for item in response.output if item.type == "mcp_approval_request"]
    given = {"type": "mcp_approval_response", "approval_request_id": asked.id}
    return [{**given, "approve": approve}]


async def test_a_response_is_created_and_retrieved() -> None:
    async with site() as (sdk, _):
        made = await sdk.responses.create(model="echo", input="Hello")
        again = await sdk.responses.retrieve(made.id)
    assert made.output_text == again.output_text == "You said Hello"
    assert (made.status, made.error, made.incomplete_details) == ("completed", None, None)


async def test_the_helper_for_streams_reads_one_to_its_end() -> None:
    async with site() as (sdk, _), sdk.responses.stream(model="echo", input="Hello") as stream:
        kinds = [event.type async for event in stream]
        done = await stream.get_final_response()
    assert done.output_text == "You said Hello"
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_each_event_is_one_that_the_client_knows_with_all_its_fields() -> None:
    async with site() as (sdk, _):
        stream = await sdk.responses.create(model="looker", input="Go", stream=True)
        events = [event async for event in stream]
        more = await sdk.responses.create(
            model="looker",
            input=answer(events[-1].response),
            previous_response_id=events[-1].response.id,
            stream=True,
        )
        events += [event async for event in more]
    for event in events:
        # What was built without a check is checked now.
        type(event).model_validate(event.model_dump(), strict=False)
        assert not (event.model_extra or {}), event


async def test_a_stream_that_was_cut_goes_on_where_it_was() -> None:
    async with site() as (sdk, _):
        made = await sdk.responses.create(model="looker", input="Go")
        whole = [event async for event in await sdk.responses.retrieve(made.id, stream=True)]
        for place, event in enumerate(whole):
            rest = await sdk.responses.retrieve(
                made.id, stream=True, starting_after=event.sequence_number
            )
            assert [one async for one in rest] == whole[place + 1 :]
        after = whole[3].sequence_number
        async with sdk.responses.stream(response_id=made.id, starting_after=after) as stream:
            numbers = [event.sequence_number async for event in stream]
            assert numbers == [event.sequence_number for event in whole[4:]]
            assert (await stream.get_final_response()).id == made.id


@pytest.mark.parametrize("approve", [True, False])
async def test_an_approval_is_asked_and_answered(approve: bool) -> None:
    async with site() as (sdk, _):
        asked = await sdk.responses.create(model="payer", input="Pay")
        said = answer(asked, approve=approve)
        more: Any = {"model": "payer", "input": said, "previous_response_id": asked.id}
        async with sdk.responses.stream(**more) as stream:
            done = await stream.get_final_response()
        with pytest.raises(openai.ConflictError):
            await sdk.responses.create(**more)
    calls = [item.status for item in done.output if item.type == "mcp_call"]
    assert (done.id, done.output_text) == (asked.id, "Paid.")
    assert calls == (["completed"] if approve else [])


async def test_a_question_is_a_call_whose_output_answers_it() -> None:
    async with site() as (sdk, _):
        asked = await sdk.responses.create(model="tailor", input="A shirt")
        (call,) = asked.output
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "M"}
        done = await sdk.responses.create(
            model="tailor", input=[output], previous_response_id=asked.id
        )
    assert json.loads(call.arguments)["choices"] == ["S", "M"]
    assert done.output_text == "Size M."


async def test_a_conversation_goes_on_by_either_name() -> None:
    async with site() as (sdk, _):
        first = await sdk.responses.create(model="echo", input="A")
        second = await sdk.responses.create(model="echo", input="B", previous_response_id=first.id)
        third = await sdk.responses.create(
            model="echo", input="C", conversation=first.conversation.id
        )
    assert len({one.id for one in (first, second, third)}) == 3
    assert {one.conversation.id for one in (first, second, third)} == {first.conversation.id}


async def test_a_response_in_the_background_is_polled_and_canceled() -> None:
    async with site() as (sdk, _):
        made = await sdk.responses.create(model="clerk", input="Refund", background=True)
        gone = await sdk.responses.cancel(made.id)
    assert made.status in ("queued", "in_progress")
    assert gone.status == "cancelled"


async def test_what_staff_is_asked_is_not_shown_and_not_taken() -> None:
    async with site() as (sdk, client):
        waits = await sdk.responses.create(model="clerk", input="Refund")
        oz = client.by("oz")
        _, inbox = await oz.get("/api/inbox")
        digest = inbox["items"][0]["pending"]["digest"]
        said = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{digest}"}
        with pytest.raises(openai.ConflictError):
            await sdk.responses.create(
                model="clerk", input=[{**said, "approve": True}], previous_response_id=waits.id
            )
    assert (waits.status, waits.output) == ("in_progress", [])


async def test_errors_are_those_of_the_client() -> None:
    async with site() as (sdk, _):
        asked = await sdk.responses.create(model="payer", input="Pay")
        stranger, nobody = (sdk.with_options(api_key=name) for name in ("ben", "x"))
        with pytest.raises(openai.NotFoundError, match="no response"):
            await stranger.responses.retrieve(asked.id)
        with pytest.raises(openai.AuthenticationError, match="nobody is signed in"):
            await nobody.responses.retrieve(asked.id)
        with pytest.raises(openai.BadRequestError) as told:
            await sdk.responses.create(model="echo", input="Hi", instructions="Obey")
        with pytest.raises(openai.NotFoundError, match="no model"):
            await sdk.responses.create(model="gpt", input="Hi")
    assert (told.value.param, told.value.code) == ("instructions", "unsupported_parameter")
