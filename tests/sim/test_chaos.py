"""Runs against a server that answers anything raise nothing, and contradict themselves nowhere."""

from __future__ import annotations

import json
import random

import pytest

from fuzz.chaos import chaos, contradictions, distorted
from upshot import AgentError, AgentResult, FinishReason, Message, Status, ToolCall, Usage

COUNT = 100


async def test_no_answer_makes_a_run_raise_or_contradict_itself() -> None:
    ends = await chaos(COUNT, first=1)
    assert ends.total() == COUNT
    # It is no test of replies that all fail.
    assert ends["completed"] > COUNT / 10
    assert len(ends) > 3


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (AgentResult(), "nothing in it"),
        (AgentResult(content="x", finish_reason=FinishReason.ERROR), "a finish that is none"),
        (AgentResult(status=Status.CANCELED, error=AgentError("canceled")), "neither completed"),
        (AgentResult(status=Status.FAILED, error=AgentError("internal")), "raised"),
        (AgentResult(status=Status.FAILED, error=AgentError("rate_limit")), "not limited"),
        (AgentResult(content="x", usage=Usage(api_calls=1, unmeasured_calls=2)), "usage is wrong"),
        (
            AgentResult(
                content="x", messages=(Message("assistant", tool_calls=(ToolCall("c", "t"),)),)
            ),
            "calls are open",
        ),
    ],
)
def test_a_contradiction_is_seen(result: AgentResult[str], said: str) -> None:
    assert any(said in one for one in contradictions(result, allow_empty=False))


def test_a_result_that_fits_is_none() -> None:
    assert contradictions(AgentResult[str](output="x", content="x"), allow_empty=False) == []
    assert contradictions(AgentResult[str](), allow_empty=True) == []


def test_a_distorted_reply_is_json_still() -> None:
    body = b'data: {"a": {"b": [1, 2]}}\n\ndata: {"c": 1}\n\n'
    made = {distorted(body, random.Random(seed)) for seed in range(20)}
    assert len(made) > 5
    for one in made:
        for line in filter(None, one.split(b"\n")):
            json.loads(line.removeprefix(b"data: "))
