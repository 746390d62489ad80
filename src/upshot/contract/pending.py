"""What a parked run waits for, and what people answer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import settle_json
from upshot.contract.base.structs import (
    Json,
    JsonObject,
    Moment,
    Tagged,
    check_types,
    freeze,
    settle_moments,
)

__all__ = [
    "Answer",
    "AnyAnswer",
    "Approve",
    "Deny",
    "Edit",
    "Pending",
    "PendingApproval",
    "PendingExternal",
    "PendingQuestion",
]


class PendingApproval(Tagged, frozen=True, kw_only=True):
    """A tool call that waits for somebody's word.

    Attributes:
        call_id: The call; an answer names it.
        tool_name: The tool.
        arguments: What it would be called with, validated; secrets are masked.
        effect: What the tool says it may do.
        digest: SHA-256 over the arguments and the tool's version; an answer is bound to it.
        reason: Why somebody is asked, "" if by rule.
        asked_at: When it was asked first.
        expires_at: After this moment it must be asked anew; None is never.
        run_id: The run inside the one it is a result of that asks; "" is that one itself.
    """

    call_id: str = ""
    tool_name: str = ""
    arguments: JsonObject = {}
    effect: Effect = Effect.WRITE
    digest: str = ""
    reason: str = ""
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""

    def __post_init__(self) -> None:
        settle_moments(self, "asked_at", "expires_at")

    @property
    def id(self) -> str:
        """What an answer names."""
        return self.call_id


class PendingQuestion(Tagged, frozen=True, kw_only=True):
    """A question to a person.

    Attributes:
        id: What an answer names.
        question: The text.
        choices: The answers to choose from; empty is free text.
        schema: JSON Schema of the answer, None for any value.
        asked_at: When it was asked first.
        expires_at: After this moment it is no longer waited for; None is never.
        run_id: The run inside the one it is a result of that asks; "" is that one itself.
    """

    id: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    schema: JsonObject | None = None
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""

    def __post_init__(self) -> None:
        freeze(self, "choices")
        settle_moments(self, "asked_at", "expires_at")


class PendingExternal(Tagged, frozen=True, kw_only=True):
    """A result that somebody else will deliver.

    Attributes:
        id: What an answer names.
        description: What is waited for.
        asked_at: Since when.
        expires_at: After this moment it is no longer waited for; None is never.
        run_id: The run inside the one it is a result of that asks; "" is that one itself.
    """

    id: str = ""
    description: str = ""
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""

    def __post_init__(self) -> None:
        settle_moments(self, "asked_at", "expires_at")


Pending: TypeAlias = PendingApproval | PendingQuestion | PendingExternal


class _ForCall(Tagged, frozen=True, kw_only=False):
    call_id: str


class Approve(_ForCall, frozen=True, kw_only=True):
    """Let the call run.

    Attributes:
        call_id: The call that was asked about.
        always: Let later calls run too, within: "" for this one only, "tool" for the
            tool, "arguments" for the same arguments.
        by: Who says so, "" where unknown.

    Raises:
        Misuse: A field is not of its type.
    """

    always: Literal["", "tool", "arguments"] = ""
    by: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class _Refusal(_ForCall, frozen=True, kw_only=False):
    reason: str = ""


class Deny(_Refusal, frozen=True, kw_only=True):
    """Do not run the call; final for the same tool and arguments.

    Attributes:
        call_id: The call that was asked about.
        reason: What the model is told.
        by: Who says so, "" where unknown.

    Raises:
        Misuse: A field is not of its type.
    """

    by: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class _Change(_ForCall, frozen=True, kw_only=False):
    arguments: JsonObject = {}


class Edit(_Change, frozen=True, kw_only=True):
    """Run the call with other arguments; they are validated like the first ones.

    Attributes:
        call_id: The call that was asked about.
        arguments: All arguments, not only the changed ones.
        by: Who says so, "" where unknown.

    Raises:
        Misuse: A field is not of its type, or JSON cannot hold the arguments.
    """

    by: str = ""

    def __post_init__(self) -> None:
        settle_json(self, "arguments")
        check_types(self)


class _Reply(Tagged, frozen=True, kw_only=False):
    id: str
    value: Json = None


class Answer(_Reply, frozen=True, kw_only=True):
    """The answer to a question, or a result from outside.

    Attributes:
        id: The question's id.
        value: The answer.
        by: Who says so, "" where unknown.

    Raises:
        Misuse: A field is not of its type, or JSON cannot hold the value.
    """

    by: str = ""

    def __post_init__(self) -> None:
        settle_json(self, "value")
        check_types(self)


AnyAnswer: TypeAlias = Approve | Deny | Edit | Answer
