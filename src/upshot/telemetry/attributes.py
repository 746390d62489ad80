"""Names and values of the attributes of spans and metrics, derived from contract values.

Source:
    OpenTelemetry semantic conventions for generative AI (spans, agent spans, metrics; status
    Development), as of 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import msgspec

from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message, Reasoning, Text
from upshot.contract.model_calls import ModelResponse
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)

Attributes: TypeAlias = dict[str, str | int | float | bool | tuple[str, ...]]

# The name that the conventions register for a provider, if upshot's differs.
_REGISTERED = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}


class Source(NamedTuple):
    """The provider and the model of a call.

    Attributes:
        provider: Upshot's name of the provider, "" if unknown.
        model: The requested model, "" if unknown.
        answered: The model named in the reply, "" if none.
    """

    provider: str = ""
    model: str = ""
    answered: str = ""

    def labels(self) -> Attributes:
        """Return attributes for the twelve metrics, without unknown ones."""
        return _without_empty({"provider": self.provider, "model": self.model})

    def conventional(self) -> Attributes:
        """Return attributes of the semantic conventions, without unknown ones."""
        return _without_empty(
            {
                "gen_ai.provider.name": _REGISTERED.get(self.provider, self.provider),
                "gen_ai.request.model": self.model,
                "gen_ai.response.model": self.answered,
            }
        )


def source_of(name: str, data: JsonObject | None = None) -> Source:
    """Return the source of the call of *name* ("provider:model" or "") with the reply's *data*."""
    provider, _, model = name.partition(":")
    fields = {} if data is None else data
    answered = str(fields.get("model") or "")
    if provider == "fallback":
        # A fallback has several models; only the reply says which one answered.
        provider, model = "", answered
    return Source(str(fields.get("provider") or provider), model or answered, answered)


def error_type_of(outcome: ToolOutcome) -> str:
    """Return the error type of a tool call, "" if it succeeded."""
    match outcome:
        case ToolTimeout():
            return "timeout"
        case ToolFailure(code=code):
            return str(code or "tool_error")
        case ToolDenied(reason=reason):
            return str(reason)
        case ToolExecutionResult() | ToolArtifactReference():
            return ""


class Content:
    """Texts in the form of the semantic conventions, with the secrets of a run masked."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = Secrets(secrets)

    def text(self, text: str) -> str:
        """Return a plain text, masked."""
        return self._secrets.mask_text(text)

    def json(self, value: object) -> str:
        """Return the JSON text of any JSON value."""
        return msgspec.json.encode(self._secrets.mask(value)).decode()

    def instructions(self, text: str) -> str:
        """Return system instructions."""
        return self.json([{"type": "text", "content": text}])

    def messages(self, message: Message) -> str:
        """Return one message, as a list of one."""
        return self.json([{"role": str(message.role), "parts": _parts_of(message)}])

    def reply(self, response: ModelResponse) -> str:
        """Return the reply of a model."""
        message: JsonObject = {"role": "assistant", "parts": _parts_of(response.to_message())}
        if response.finish_reason is not None:
            message["finish_reason"] = str(response.finish_reason)
        return self.json([message])

    def result(self, outcome: ToolOutcome) -> str:
        """Return the output of a tool, "" if there is none."""
        match outcome:
            case ToolExecutionResult(output=output):
                return self.json(output)
            case ToolArtifactReference(artifact_id=id, summary=summary):
                return self.json({"artifact_id": id, "summary": summary})
            case _:
                return ""


def _parts_of(message: Message) -> list[Json]:
    parts: list[Json] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                parts.append({"type": "text", "content": text})
            case Reasoning(text=text):
                parts.append({"type": "reasoning", "content": text})
            case ToolCall(id=id, name=name, arguments=arguments):
                call: JsonObject = {"id": id, "name": name, "arguments": arguments}
                parts.append({"type": "tool_call", **call})
            case _:
                # Images and files are only named: they are too large for a span.
                parts.append({"type": part.kind})
    return parts


def _without_empty(words: dict[str, str]) -> Attributes:
    return {name: word for name, word in words.items() if word}
