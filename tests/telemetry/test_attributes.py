"""Words of spans and metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from upshot import (
    Image,
    Message,
    Reasoning,
    Text,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from upshot.telemetry.attributes import Content, Source, error_type_of, source_of


@pytest.mark.parametrize(
    ("name", "data", "source"),
    [
        ("", None, Source()),
        ("openai:gpt-5", None, Source("openai", "gpt-5")),
        ("openai:gpt-5", {"model": "gpt-5-1"}, Source("openai", "gpt-5", "gpt-5-1")),
        ("openai-responses:o4", {"provider": "openai"}, Source("openai", "o4")),
        ("fallback:a:b,c:d", None, Source()),
        ("fallback:a:b,c:d", {"provider": "c", "model": "d"}, Source("c", "d", "d")),
        ("", {"provider": "p", "model": "m"}, Source("p", "m", "m")),
    ],
)
def test_who_was_asked(name: str, data: Any, source: Source) -> None:
    assert source_of(name, data) == source


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (ToolExecutionResult("c", "t"), ""),
        (ToolArtifactReference("c", "t"), ""),
        (ToolTimeout("c", "t"), "timeout"),
        (ToolFailure("c", "t"), "tool_error"),
        (ToolFailure("c", "t", code="cancelled"), "cancelled"),
        (ToolDenied("c", "t", reason="policy"), "policy"),
    ],
)
def test_what_a_tool_call_ended_with(outcome: ToolOutcome, word: str) -> None:
    assert error_type_of(outcome) == word


def test_thoughts_are_told_and_pictures_are_only_named() -> None:
    said = (Reasoning(text="Hm."), Text("Look:"), Image(url="https://example.org/secret.png"))
    message = Message("assistant", said, tool_calls=(ToolCall("c", "look", {"at": 1}),))
    (told,) = json.loads(Content(()).messages(message))
    assert told["parts"] == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "Look:"},
        {"type": "image"},
        {"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": 1}},
    ]


def test_of_a_large_output_the_place_is_told() -> None:
    outcome = ToolArtifactReference("c", "t", artifact_id="a-1", summary="A key: hunter2.")
    told = json.loads(Content(["hunter2"]).result(outcome))
    assert told == {"artifact_id": "a-1", "summary": "A key: ***."}


def test_a_denial_has_no_result() -> None:
    assert Content(()).result(ToolDenied("c", "t", reason="blocked")) == ""
