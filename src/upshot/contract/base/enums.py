"""Closed and open enums of the contract, and the types of their fields.

A closed enum refuses an unknown word. An open enum accepts it as a pseudo-member that equals its
string and is written back unchanged, so that a word added later does not break older readers.

A field typed ``EffectField`` and the like can be set to plain text and reads as the member. At run
time, and to msgspec, the type is the enum. To a type checker it is a descriptor, since
``dataclass_transform`` derives the type of a parameter from the values that the descriptor accepts.
Such a field does not match the attribute of a protocol, so fields that are mostly read, such as the
status of a result, have the enum itself as their type.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypeVar

from upshot.errors import Misuse


class ClosedWord(StrEnum):
    """An enum that refuses any other word."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self._name_}"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        words = ", ".join(cls)
        raise Misuse(f"there is no {cls.__name__.lower()} {value!r}: give one of {words}")


class OpenWord(StrEnum):
    """An enum that accepts unknown words unchanged."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        # Not added to the enum: words come from peers, and it must not grow with them.
        word = str.__new__(cls, value)
        word._name_ = value
        word._value_ = value
        return word

    def __reduce_ex__(self, protocol: object) -> tuple[type[Self], tuple[str]]:
        # Python up to 3.11.3 pickles by name, and an unknown word cannot be looked up by name.
        return type(self), (self._value_,)

    def __repr__(self) -> str:
        known = self._value_ in type(self)._value2member_map_
        return f"{type(self).__name__}{f'.{self._name_}' if known else f'({self._value_!r})'}"


class Status(ClosedWord):
    """How a run ended, or that it is parked. Closed.

    Attributes:
        COMPLETED: There is an answer, or a handoff.
        INTERRUPTED: It stopped at a safe point because it was asked to.
        CANCELED: It was cancelled, by ``live.cancel()``, its block or its caller's task.
        FAILED: Something went wrong; the error says what.
        ABORTED: The engine gave up.
        INPUT_REQUIRED: It waits for answers; ``resume`` continues it. All other states are final.
    """

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    CANCELED = "canceled"
    FAILED = "failed"
    ABORTED = "aborted"
    INPUT_REQUIRED = "input_required"


class FinishReason(ClosedWord):
    """Why a model stopped. Closed; the provider's own word is kept beside it.

    Attributes:
        STOP: It was done, or reached a stop sequence.
        LENGTH: It reached the token limit; the answer is cut off.
        TOOL_USE: It wants to call tools.
        ERROR: The provider failed.
        CONTENT_FILTER: A filter of the provider withheld the answer, or cut it off.
        REFUSAL: The model refused; the content is its refusal.
        ABORTED: The reply broke off.
    """

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    ERROR = "error"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    ABORTED = "aborted"


class Effect(ClosedWord):
    """What a tool may do (read, write, destructive) or did (none, applied, unknown). Closed.

    Attributes:
        READ: It changes nothing outside.
        WRITE: It may change something outside.
        DESTRUCTIVE: It may change something irreversibly; the user is asked first.
        NONE: Nothing outside was changed.
        APPLIED: The change was made.
        UNKNOWN: It is unknown whether the change was made, as after a write that timed out.
    """

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"
    NONE = "none"
    APPLIED = "applied"
    UNKNOWN = "unknown"


EFFECTS = (Effect.NONE, Effect.APPLIED, Effect.UNKNOWN)
"""What a call may have done, the worst last."""

# Documents of other programs may have what a tool declares where an outcome's effect belongs.
_RANKS = {effect: rank for rank, effect in enumerate(EFFECTS)} | {
    Effect.READ: 0,
    Effect.WRITE: 2,
    Effect.DESTRUCTIVE: 2,
}


def worst_effect(effects: Iterable[Effect]) -> Effect:
    """Return the worst of *effects*: unknown, then applied, then none; none if empty.

    A declared effect counts as what such a tool may have done: none for read, otherwise unknown.
    """
    return EFFECTS[max(map(_RANKS.__getitem__, effects), default=0)]


class Role(ClosedWord):
    """The role of a message's speaker. Closed.

    Attributes:
        SYSTEM: The instructions.
        USER: The user.
        ASSISTANT: The model.
        TOOL: A tool, with the outcome of a call.
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ErrorCode(OpenWord):
    """What went wrong. The first eight are the contract's, the rest upshot's own. Open."""

    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    SERVER_ERROR = "server_error"
    INVALID_REQUEST = "invalid_request"
    AUTH_ERROR = "auth_error"
    CONTENT_FILTER = "content_filter"
    CONTEXT_LENGTH = "context_length"
    MODEL_UNAVAILABLE = "model_unavailable"
    INVALID_OUTPUT = "invalid_output"
    BUDGET_EXCEEDED = "budget_exceeded"
    MAX_TURNS = "max_turns"
    NO_PROGRESS = "no_progress"
    DEAD_END = "dead_end"
    INTERRUPTED = "interrupted"
    CANCELED = "canceled"
    INPUT_REQUIRED = "input_required"
    HOOK_FAILED = "hook_failed"
    INTERNAL = "internal"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    POLICY_DENIED = "policy_denied"
    NOT_AVAILABLE = "not_available"
    EMPTY_REPLY = "empty_reply"
    REFUSAL = "refusal"
    WORKER_LOST = "worker_lost"
    TAKEN_OVER = "taken_over"
    EFFECT_UNKNOWN = "effect_unknown"


class Origin(OpenWord):
    """Where an error or a warning arose. Open.

    Attributes:
        MODEL: In the model or its provider.
        TOOL: In a tool.
        DECIDER: In a decider.
        ENGINE: In the engine or in its scripts, nodes or states.
        LIMIT: A budget is exhausted.
        HOST: In the host of the run: the host object, ``prepare``, an interrupt.
        CALLER: In how upshot was called.
        OBSERVER: In an observer or another subscriber.
        JOURNAL: In the log.
    """

    MODEL = "model"
    TOOL = "tool"
    DECIDER = "decider"
    ENGINE = "engine"
    LIMIT = "limit"
    HOST = "host"
    CALLER = "caller"
    OBSERVER = "observer"
    JOURNAL = "journal"


class Resource(OpenWord):
    """What a rate-limit window counts. Open."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"


class DeniedReason(OpenWord):
    """Which gate refused a tool call. Open.

    Attributes:
        DUPLICATE: An idempotent call that has already succeeded.
        BLOCKED: The tool, or this call, failed permanently earlier in the turn.
        PRE_HOOK: The hook ``on_pre_tool_use`` refused the call.
        VALIDATION: The arguments do not fit the schema.
        DEADLINE: Too little time was left.
        WRITE_DENIED: The call was not approved.
        CANCELLED: The run is being stopped.
        BUDGET: A limit on tool calls was reached.
        UNKNOWN_TOOL: There is no tool with that name.
        POLICY: A rule forbids it.
        RATE_LIMITED: The tool's own rate limit is used up.
        CIRCUIT_OPEN: The tool has failed too often and is not called for a while.
        SUPERSEDED: This attempt has already made a handoff; only the first one counts.
        EFFECT_UNKNOWN: An equal call may have taken effect; it is not known yet.
        CONFLICT: The same effect was claimed with other arguments.
        DENY_CONDITION: The tool's own ``deny=`` forbids it.
    """

    DUPLICATE = "duplicate"
    BLOCKED = "blocked"
    PRE_HOOK = "pre_hook"
    VALIDATION = "validation"
    DEADLINE = "deadline"
    WRITE_DENIED = "write_denied"
    CANCELLED = "cancelled"
    BUDGET = "budget"
    UNKNOWN_TOOL = "unknown_tool"
    POLICY = "policy"
    RATE_LIMITED = "rate_limited"
    CIRCUIT_OPEN = "circuit_open"
    SUPERSEDED = "superseded"
    EFFECT_UNKNOWN = "effect_unknown"
    CONFLICT = "conflict"
    DENY_CONDITION = "deny_condition"


class InterruptCause(OpenWord):
    """Why a run was interrupted. Open; "" if no cause was given."""

    USER_CANCEL = "user_cancel"
    USER_INPUT = "user_input"
    HOST_SHUTDOWN = "host_shutdown"
    DEADLINE = "deadline"
    CUSTOM = "custom"
    NONE = ""


if TYPE_CHECKING:
    W_co = TypeVar("W_co", covariant=True)
    G_contra = TypeVar("G_contra", contravariant=True)

    class WordField(Generic[W_co, G_contra]):
        """Reads as the first type and can be set to the second."""

        def __get__(self, owner: object, kind: type | None = None) -> W_co: ...
        def __set__(self, owner: object, given: G_contra) -> None: ...

    # A misspelt word of a closed enum is a type error; an open enum takes any text.
    EffectField: TypeAlias = WordField[
        Effect, Effect | Literal["read", "write", "destructive", "none", "applied", "unknown"]
    ]
    FinishReasonWord: TypeAlias = (
        FinishReason
        | Literal["stop", "length", "tool_use", "error", "content_filter", "refusal", "aborted"]
    )
    FinishReasonField: TypeAlias = WordField[FinishReason | None, FinishReasonWord | None]
    RoleWord: TypeAlias = Role | Literal["system", "user", "assistant", "tool"]
    RoleField: TypeAlias = WordField[Role, RoleWord]
    CauseField: TypeAlias = WordField[InterruptCause, InterruptCause | str]
    DeniedReasonField: TypeAlias = WordField[DeniedReason, DeniedReason | str]
    ErrorCodeField: TypeAlias = WordField[ErrorCode, ErrorCode | str]
    OptionalErrorCodeField: TypeAlias = WordField[ErrorCode | None, ErrorCode | str | None]
    OriginField: TypeAlias = WordField[Origin, Origin | str]
    ResourceField: TypeAlias = WordField[Resource, Resource | str]

    _W = TypeVar("_W")

    def word(default: _W) -> WordField[_W, Any]: ...
else:
    EffectField = Effect
    FinishReasonWord = FinishReason
    FinishReasonField = FinishReason | None
    RoleWord = RoleField = Role
    CauseField = InterruptCause
    DeniedReasonField = DeniedReason
    ErrorCodeField = ErrorCode
    OptionalErrorCodeField = ErrorCode | None
    OriginField = Origin
    ResourceField = Resource

    def word(default: object) -> object:
        """Return the default of such a field, plain or from ``written``."""
        return default
