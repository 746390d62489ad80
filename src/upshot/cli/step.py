"""Step: one row of a run's timeline, and the words for what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from ..contract import (
    AgentError,
    FinishReason,
    ModelResponse,
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from .figures import count, duration, size

__all__ = ["Ended", "Kind", "Step", "Tone", "ending_of_error", "ending_of_reply", "ending_of_tool"]

Kind: TypeAlias = Literal["model", "tool", "step", "mark"]
Tone: TypeAlias = Literal["good", "odd", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a step.

    Attributes:
        word: In a word or two.
        tone: How it is to be taken.
        detail: More of it, "" if there is nothing to say.
    """

    word: str = ""
    tone: Tone = "plain"
    detail: str = ""


@dataclass(slots=True)
class Step:
    """One model call, one try of it, one tool call, one engine step, or a mark.

    Attributes:
        kind: What it is.
        name: Of the model or the tool; the key of a step.
        start_s: Seconds of work from the start of the run.
        end_s: The same of its end; None while it runs. Where its process died in it, the last
            that is known of that process.
        wait_s: Seconds that were waited after it for the next try.
        ended: What came of it, None while it runs or where its process died in it.
        number: The turn of a model call, 0 for anything else.
        again: Whether it is a further try of a model call.
        lost: Whether its process died in it.
        note: What it last said of itself while running.
        title: What a step is called for people, "" for its key.
    """

    kind: Kind
    name: str
    start_s: float
    end_s: float | None = None
    wait_s: float = 0.0
    ended: Ended | None = None
    number: int = 0
    again: bool = False
    lost: bool = False
    note: str = ""
    title: str = ""

    @property
    def running(self) -> bool:
        """Whether it has no end yet."""
        return self.end_s is None

    @property
    def took_s(self) -> float | None:
        """How long it took, None where that is not known."""
        if self.end_s is None or self.lost:
            return None
        return max(0.0, self.end_s - self.start_s)


def ending_of_tool(outcome: ToolOutcome) -> Ended:
    """The words for what came of a tool call."""
    match outcome:
        case ToolExecutionResult(was_coerced=coerced):
            return Ended("result", "good", "arguments coerced" if coerced else "")
        case ToolArtifactReference(size_bytes=stored):
            return Ended("artifact", "good", size(stored))
        case ToolTimeout(timeout_s=allowed_s, stopped=stopped):
            left = "" if stopped else ", still at work"
            return Ended("timeout", "bad", f"over {duration(allowed_s)}{left}")
        case ToolFailure(error=error):
            return Ended("failure", "bad", error)
        case ToolDenied(reason=reason, details=details):
            return Ended(f"denied: {reason}", "odd", details)
        case _:
            assert_never(outcome)


def ending_of_reply(response: ModelResponse) -> Ended:
    """The words for what came of a model call."""
    if response.error is not None:
        return ending_of_error(response.error)
    if response.tool_calls:
        return Ended(count(len(response.tool_calls), "call"), "good")
    if response.finish_reason in (None, FinishReason.STOP):
        return Ended("answer", "good")
    return Ended(f"ended: {response.finish_reason}", "odd")


def ending_of_error(error: AgentError) -> Ended:
    """The words for an error; a status stands before its code."""
    status = "" if error.status_code is None else f"{error.status_code} "
    return Ended(f"{status}{error.code}", "bad", error.message)
