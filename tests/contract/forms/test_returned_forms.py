"""Every form of a result comes back whole, and a reply that is none says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Do, say
from upshot import (
    Agent,
    AgentResult,
    ModelResponse,
    Usage,
    coerce_result,
    decode,
    encode,
    flat,
    run,
    to_contract,
)
from upshot.wire import read_response

REPLY = b'{"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}'


async def test_a_result_that_was_read_is_written_alike() -> None:
    result = await run(Agent("a", engine=Do(lambda r, h, b: b.append(say("x")))), "?")
    assert encode(decode(encode(result))) == encode(result)
    assert result.raw is None
    assert result.last_board is not None


def test_a_reply_that_was_read_is_written_alike() -> None:
    reply = read_response("chat", status=200, headers={}, body=REPLY, provider="openai")
    assert reply.raw is not None
    assert encode(decode(encode(reply))) == encode(reply)
    assert isinstance(decode(encode(reply)), ModelResponse)


def test_what_is_in_this_process_only_stays_with_what_was_written() -> None:
    result = coerce_result({"content": "x"})
    encode(result)
    assert result.raw == {"content": "x"}


def test_calls_of_unknown_usage_are_in_the_flat_form() -> None:
    form = to_contract(AgentResult[Any](usage=Usage(api_calls=2)))
    assert form["usage"] == {"api_calls": 2}


def test_the_flat_state_has_its_windows_also_where_there_are_none() -> None:
    assert flat.build_rate_limit_state({})["windows"] == []


@pytest.mark.parametrize("body", [b"<html>" + b"a page " * 99, b"not json at all", b'["x"]'])
def test_a_reply_that_is_none_is_not_its_own_message(body: bytes) -> None:
    error = read_response("chat", status=200, headers={}, body=body, provider="openai").error
    assert error is not None
    assert body.decode()[:5] not in error.message
    assert error.message not in body.decode()
