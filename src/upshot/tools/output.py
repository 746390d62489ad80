"""Output: what of a result goes to the model as it is, and what is stored."""

from __future__ import annotations

import asyncio

import msgspec

from ..contract import (
    TOOL_MESSAGE_MAX_CHARS,
    ArtifactStore,
    File,
    Json,
    JsonObject,
    Origin,
    RunWarning,
    ToolArtifactReference,
    ToolExecutionResult,
    outcome_to_model_content,
)
from .sentence import named

__all__ = ["Fitted", "cut_output", "fit_output"]

_SUMMARY_CHARS = 200
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"


class Fitted(msgspec.Struct, frozen=True):
    """A result that fits into a message.

    Attributes:
        outcome: The result itself, a reference to it, or its head and tail.
        content: What the model reads of it, None where that was not looked at.
        artifact: Where it was stored, None if it was not.
        warning: Why it could not be stored, None if it could or need not be.
    """

    outcome: ToolExecutionResult | ToolArtifactReference
    content: str | None = None
    artifact: File | None = None
    warning: RunWarning | None = None


async def fit_output(
    result: ToolExecutionResult, store: ArtifactStore, run_id: str, *, timeout_s: float
) -> Fitted:
    """Store a result whose text is longer than ``TOOL_MESSAGE_MAX_CHARS`` code points.

    Args:
        result: What the tool returned, secrets masked.
        store: Where it goes: one string field as it is, else indented JSON.
        run_id: Whose artifact it is.
        timeout_s: A store that takes longer counts as one that refuses.

    Returns:
        What the model gets. A store that refuses leaves head and tail, with a warning.
    """
    content = outcome_to_model_content(result)
    if len(content) <= TOOL_MESSAGE_MAX_CHARS:
        return Fitted(result, content)
    # One text is kept as it is, so that its lines can be read and searched as lines.
    text, media_type = _to_text(result.output)
    data = text.encode()
    try:
        async with asyncio.timeout(timeout_s):
            stored = await store.put(run_id, result.call_id, data, media_type)
    except Exception as error:  # a store is foreign, and its refusal must not lose the result
        warning = RunWarning(
            code="artifact_refused",
            message=f"the output of {result.tool_name} could not be stored and was cut: "
            + named(error),
            origin=Origin.TOOL,
        )
        return Fitted(cut_output(result), warning=warning)
    summary = _summarise(text, result.output, media_type)
    reference = ToolArtifactReference(
        result.call_id,
        result.tool_name,
        artifact_id=stored.id,
        summary=summary,
        size_bytes=stored.size_bytes or len(data),
        elapsed_ms=result.elapsed_ms,
        was_coerced=result.was_coerced,
        effect=result.effect,
        code=result.code,
    )
    return Fitted(reference, artifact=msgspec.structs.replace(stored, summary=summary))


def cut_output(result: ToolExecutionResult) -> ToolExecutionResult:
    """A result that fits into a message: itself, else head and tail with ``truncated``."""
    if len(outcome_to_model_content(result)) <= TOOL_MESSAGE_MAX_CHARS:
        return result
    text, _ = _to_text(result.output)
    kept = TOOL_MESSAGE_MAX_CHARS // 2 - 100
    while True:
        output: JsonObject = {
            "truncated": True,
            "total_chars": len(text),
            "head": text[:kept],
            "tail": text[-kept:],
        }
        cut = msgspec.structs.replace(result, output=output)
        if len(outcome_to_model_content(cut)) <= TOOL_MESSAGE_MAX_CHARS:
            return cut
        # Escapes make the text longer than it is.
        kept = kept * 2 // 3


def _to_text(output: JsonObject) -> tuple[str, str]:
    values = list(output.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0], _TEXT
    return msgspec.json.format(msgspec.json.encode(output), indent=2).decode(), _JSON


def _summarise(text: str, output: JsonObject, media_type: str) -> str:
    lines = text.count("\n") + 1
    if media_type == _TEXT:
        told = f"{len(text):,} characters of text in {lines:,} line{'s' * (lines > 1)}, beginning: "
        shown = " ".join(text[:_SUMMARY_CHARS].split())
    else:
        told = f"{len(text):,} characters of JSON: "
        shown = "; ".join(f"{name}: {_shape(value)}" for name, value in output.items())
    whole = told + shown
    return whole if len(whole) <= _SUMMARY_CHARS else whole[: _SUMMARY_CHARS - 3] + "..."


def _shape(value: Json) -> str:
    match value:
        case list():
            return f"{len(value):,} items"
        case dict():
            return f"{len(value):,} fields"
        case str():
            return f"{len(value):,} characters"
        case _:
            return msgspec.json.encode(value).decode()
