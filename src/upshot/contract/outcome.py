"""Tool outcomes: what came of one tool call, as a closed union of five."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .value import JsonObject, Tagged, empty_object, set_field, written
from .word_field import DeniedReasonField, EffectField, OptionalErrorCodeField, word
from .words import DeniedReason, Effect, ErrorCode

__all__ = [
    "TOOL_MESSAGE_MAX_CHARS",
    "ToolArtifactReference",
    "ToolDenied",
    "ToolExecutionResult",
    "ToolFailure",
    "ToolOutcome",
    "ToolTimeout",
    "outcome_blocks_tool",
    "outcome_is_error",
    "outcome_is_retryable",
]

TOOL_MESSAGE_MAX_CHARS = 12_000


class _Outcome(Tagged, frozen=True, kw_only=False):
    call_id: str
    tool_name: str

    def __post_init__(self) -> None:
        for name, words in (("effect", Effect), ("code", ErrorCode)):
            word: object = getattr(self, name)
            if type(word) is str:
                set_field(self, name, words(word))


class ToolExecutionResult(_Outcome, frozen=True, kw_only=True):
    """The tool ran, and its output fits into a message.

    Attributes:
        call_id: The call that it answers.
        tool_name: The tool as the model named it.
        output: What it returned; what was no mapping stands under "result".
        elapsed_ms: How long the body ran.
        was_coerced: Whether an argument was changed to fit the schema.
        effect: What it did outside: applied, unless the tool only reads.
        code: A word for it where there is one.
    """

    output: JsonObject = msgspec.field(default_factory=empty_object)
    elapsed_ms: int = written(0)
    was_coerced: bool = False
    effect: EffectField = word(written(Effect.APPLIED))
    code: OptionalErrorCodeField = word(None)


class ToolTimeout(_Outcome, frozen=True, kw_only=True):
    """The tool ran past its deadline.

    Attributes:
        call_id: The call that it answers.
        tool_name: The tool as the model named it.
        deadline_s: The moment at which its time was over, unix seconds.
        timeout_s: How many seconds it was allowed.
        elapsed_ms: How long it had run when it was given up.
        retryable: Whether the same call may be made again.
        stopped: Whether the work really ended, or goes on in an abandoned thread.
        effect: none where the body never started, else unknown for what may write.
        code: A word for it where there is one.
    """

    deadline_s: float = 0.0
    timeout_s: float = 0.0
    elapsed_ms: int = written(0)
    retryable: bool = written(True)
    stopped: bool = True
    effect: EffectField = word(written(Effect.UNKNOWN))
    code: OptionalErrorCodeField = word(None)


class ToolFailure(_Outcome, frozen=True, kw_only=True):
    """The tool raised, or returned a mapping with a truthy ``error``.

    Attributes:
        call_id: The call that it answers.
        tool_name: The tool as the model named it.
        error: One line that says what went wrong; no traceback.
        retryable: Whether the same call may be made again.
        elapsed_ms: How long the body ran.
        retry_after_s: Seconds to wait before that, None where the tool did not say.
        effect: What it did outside before it failed.
        code: The tool's own word, or interrupted, cancelled, unserializable_output.
    """

    error: str = written("")
    retryable: bool = written(True)
    elapsed_ms: int = written(0)
    retry_after_s: float | None = None
    effect: EffectField = word(written(Effect.UNKNOWN))
    code: OptionalErrorCodeField = word(None)


class ToolDenied(_Outcome, frozen=True, kw_only=True):
    """A gate refused; the body never started.

    Attributes:
        call_id: The call that it answers.
        tool_name: The tool as the model named it.
        reason: Which gate refused; an open word.
        details: What it said.
        hint: What to do instead, "" if there is nothing to say.
        effect: none.
        code: A word for it where there is one.
    """

    reason: DeniedReasonField = word(written(DeniedReason.BLOCKED))
    details: str = ""
    hint: str = ""
    effect: EffectField = word(written(Effect.NONE))
    code: OptionalErrorCodeField = word(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.reason) is str:
            set_field(self, "reason", DeniedReason(self.reason))


class ToolArtifactReference(_Outcome, frozen=True, kw_only=True):
    """The tool ran; its output was too large for a message and was stored.

    Attributes:
        call_id: The call that it answers.
        tool_name: The tool as the model named it.
        artifact_id: Under which ``read_artifact`` finds it.
        summary: What is in it, at most 200 characters.
        size_bytes: Its size in UTF-8.
        elapsed_ms: How long the body ran.
        was_coerced: Whether an argument was changed to fit the schema.
        effect: What it did outside: applied, unless the tool only reads.
        code: A word for it where there is one.
    """

    artifact_id: str = ""
    summary: str = ""
    size_bytes: int = 0
    elapsed_ms: int = written(0)
    was_coerced: bool = False
    effect: EffectField = word(written(Effect.APPLIED))
    code: OptionalErrorCodeField = word(None)


ToolOutcome: TypeAlias = (
    ToolExecutionResult | ToolTimeout | ToolFailure | ToolDenied | ToolArtifactReference
)


def outcome_is_error(outcome: ToolOutcome) -> bool:
    """Whether the tool ran and did not do its work: a timeout or a failure."""
    return isinstance(outcome, ToolTimeout | ToolFailure)


def outcome_is_retryable(outcome: ToolOutcome) -> bool:
    """Whether the same call may be made again after a timeout or a failure.

    Args:
        outcome: Of a call; False for a result, a denial and a reference to an artifact.
    """
    return isinstance(outcome, ToolTimeout | ToolFailure) and outcome.retryable


def outcome_blocks_tool(outcome: ToolOutcome) -> bool:
    """Whether the tool must not be called again this turn: a timeout or failure that is final."""
    return isinstance(outcome, ToolTimeout | ToolFailure) and not outcome.retryable
