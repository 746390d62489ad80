"""The suite of adapters: run on those that ship, on a sound one and on broken ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.suites import assert_red, assert_skipped, checks_of, run_check, tried_by
from upshot import adapters
from upshot.adapters import from_strands
from upshot.contract import AgentError, AgentResult, Status, ToolExecutionResult, Usage
from upshot.testing import AdapterContract

ADAPTERS = [getattr(adapters, name) for name in adapters.__all__ if name.startswith("from_")]


class Limited(Exception):
    status_code = 429


class Down(Exception):
    status_code = 500


class MaxTokensReachedException(Exception):
    pass


def said(*content: Any, reason: str = "end_turn", told: Any = ()) -> Any:
    """What Strands returned, as its JSON."""
    message = {"role": "assistant", "content": list(content)}
    traces = [{"message": one} for one in (*told, message)]
    usage = {"inputTokens": 100, "outputTokens": 50, "totalTokens": 150}
    metrics = {"traces": traces, "accumulated_usage": {**usage, "cacheReadInputTokens": 40}}
    return {"stop_reason": reason, "metrics": metrics}


def used(*ids: str) -> Any:
    calls = [{"toolUse": {"toolUseId": one, "name": "add", "input": {}}} for one in ids]
    return {"role": "assistant", "content": calls}


def gave(ident: str, status: str = "success") -> Any:
    result = {"toolUseId": ident, "status": status, "content": [{"text": "3"}]}
    return {"role": "user", "content": [{"toolResult": result}]}


TEXT = {"text": "three"}
NATIVES = {
    "text": said(TEXT),
    "two calls": said(TEXT, told=(used("c1", "c2"), gave("c1"), gave("c2"))),
    "length": MaxTokensReachedException("too long"),
    "429": Limited("Slow down."),
    "500": Down("It is down."),
    "a tool raises": said(TEXT, told=(used("c1"), gave("c1", "error"))),
    "cancel": said(TEXT, reason="cancelled"),
    "empty reply": said(),
}


class TestStrands(AdapterContract):
    natives = NATIVES

    def make(self) -> Any:
        return from_strands


GENERAL = ("test_it_never_raises", "test_what_is_unknown_is_none_and_listed")


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "check", [*GENERAL, "test_it_keeps_the_native_object", "test_an_exception_is_a_failure"]
)
def test_those_that_ship_take_anything(adapter: Any, check: str) -> None:
    run_check(AdapterContract, check, lambda: adapter)


def changed(**fields: Any) -> Any:
    """An adapter whose results lie in one way."""

    def adapter(native: Any) -> AgentResult[Any]:
        import msgspec

        return msgspec.structs.replace(from_strands(native), **fields)

    return adapter


def raising(native: Any) -> Any:
    raise KeyError("usage")


DONE = ToolExecutionResult("c1", "add", output={})


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (raising, "test_it_never_raises", "it raised KeyError"),
        (changed(local=None), "test_it_keeps_the_native_object", "as raw"),
        (
            changed(metadata={"unknown": []}),
            "test_what_is_unknown_is_none_and_listed",
            "and is not listed",
        ),
        (
            changed(error=AgentError("internal", "x"), status=Status.FAILED),
            "test_an_exception_is_a_failure",
            "TimeoutError became internal",
        ),
        (changed(content=None), "test_a_text_is_the_answer", "it has no content"),
        (changed(tool_outcomes=()), "test_each_call_has_its_outcome", "{} answered"),
        (
            changed(usage=Usage(input_tokens=1, cache_read_tokens=9, api_calls=1)),
            "test_the_tokens_are_whole",
            "9 of 1 were cached",
        ),
        (
            changed(finish_reason="stop"),
            "test_a_cut_reply_does_not_look_whole",
            "the finish reason is stop",
        ),
        (
            changed(content="Slow down."),
            "test_a_refused_call_has_its_code",
            "has the content 'Slow down.'",
        ),
        (
            changed(tool_outcomes=(DONE,)),
            "test_a_tool_that_raised_did_not_succeed",
            "its outcome is ToolExecutionResult",
        ),
        (
            changed(status=Status.COMPLETED, error=None),
            "test_a_canceled_run_is_canceled",
            "it completed",
        ),
        (
            changed(content="(nothing)"),
            "test_an_empty_reply_has_no_content",
            "it has the content '(nothing)'",
        ),
    ],
)
def test_a_broken_adapter_is_found_out(broken: Any, check: str, words: str) -> None:
    assert_red(AdapterContract, check, lambda: broken, words, natives=NATIVES)


def test_every_check_has_a_broken_adapter() -> None:
    assert tried_by(test_a_broken_adapter_is_found_out) == checks_of(AdapterContract)


def test_a_case_that_was_not_recorded_is_skipped() -> None:
    words = "natives has no 'text'"
    assert_skipped(AdapterContract, "test_a_text_is_the_answer", lambda: from_strands, words)
