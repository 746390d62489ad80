"""Events of a model call: that it began, what came of it, and its pieces for watchers."""

from __future__ import annotations

from .error import AgentError
from .response import ModelResponse
from .stamp import RunEvent

__all__ = [
    "ModelReplied",
    "ModelRetried",
    "ModelStarted",
    "ReasoningDelta",
    "TextDelta",
    "ToolCallDelta",
]


class ModelStarted(RunEvent, frozen=True, kw_only=True):
    """A model is about to be called.

    Attributes:
        model: "provider:name".
        turn: Which turn of the attempt, from 1.
        messages: How many messages are sent.
        purpose: "repair" for one that corrects the arguments of a call; "" for the engine's.
        step: The key of the ``host.once`` in whose body it is asked, "" for none.
    """

    model: str = ""
    turn: int = 0
    messages: int = 0
    purpose: str = ""
    step: str = ""


class ModelRetried(RunEvent, frozen=True, kw_only=True):
    """A model call failed and will be tried again.

    Attributes:
        model: "provider:name".
        turn: Which turn of the attempt.
        tries: How many tries have failed.
        wait_s: Seconds until the next one.
        response: What came of the failed one, usage and windows included.
    """

    model: str = ""
    turn: int = 0
    tries: int = 0
    wait_s: float = 0.0
    response: ModelResponse = ModelResponse()

    @property
    def error(self) -> AgentError | None:
        """Why it failed."""
        return self.response.error


class TextDelta(RunEvent, frozen=True, kw_only=True):
    """A piece of the visible text.

    Attributes:
        text: The piece.
    """

    text: str = ""


class ReasoningDelta(RunEvent, frozen=True, kw_only=True):
    """A piece of what the model thinks.

    Attributes:
        text: The piece.
    """

    text: str = ""


class ToolCallDelta(RunEvent, frozen=True, kw_only=True):
    """A piece of a tool call that is being written.

    Attributes:
        index: Which call of the reply, from 0.
        call_id: Its id, "" until it is known.
        name: The tool's name, "" until it is known.
        arguments: The piece of the JSON text.
    """

    index: int = 0
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class ModelReplied(RunEvent, frozen=True, kw_only=True):
    """A model call ended, well or not.

    Attributes:
        model: "provider:name".
        turn: Which turn of the attempt.
        tries: How many tries it took.
        response: What came of the last one.
        purpose: As in ``ModelStarted``.
    """

    model: str = ""
    turn: int = 0
    tries: int = 1
    response: ModelResponse = ModelResponse()
    purpose: str = ""
