"""Closed and open enums of the contract, and the types of the fields that hold them.

A closed enum refuses an unknown word. An open enum accepts it as a pseudo-member that equals its
string and is written back unchanged, so that a word added later does not break older readers.

A field typed ``EffectField`` and the like may be set to the plain text and reads as the member. At
run time, and to msgspec, the type is the enum. To a type checker it is a descriptor, since
``dataclass_transform`` takes the type of a parameter from what the descriptor can be set to. Such
a field does not match the attribute of a protocol, so fields that are mostly read, such as the
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
    """An enum that accepts unknown words as they are."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        # Not kept in the enum: words come from peers, and it must not grow with them.
        word = str.__new__(cls, value)
        word._name_ = value
        word._value_ = value
        return word

    def __reduce_ex__(self, protocol: object) -> tuple[type[Self], tuple[str]]:
        # Python up to 3.11.3 pickles by name, and an unknown word is not found by its name.
        return type(self), (self._value_,)

    def __repr__(self) -> str:
        known = self._value_ in type(self)._value2member_map_
        return f"{type(self).__name__}{f'.{self._name_}' if known else f'({self._value_!r})'}"


class Status(ClosedWord):
    """How a run ended, or that it is parked. Closed.

    Attributes:
        COMPLETED: There is an answer, or a hand-off.
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
        LENGTH: The token limit was reached; the answer is cut off.
        TOOL_USE: It wants tools to be called.
        ERROR: The provider failed.
        CONTENT_FILTER: A filter of the provider held the answer back, or cut it off.
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
        UNKNOWN: It is not known whether the change was made, as after a write that timed out.
    """

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"
    NONE = "none"
    APPLIED = "applied"
    UNKNOWN = "unknown"


EFFECTS = (Effect.NONE, Effect.APPLIED, Effect.UNKNOWN)
"""What a call may have done, the worst last."""


def worst_effect(effects: Iterable[Effect]) -> Effect:
    """The worst of *effects*: unknown, then applied, then none; none if there are none."""
    return max(effects, key=EFFECTS.index, default=Effect.NONE)


class Role(ClosedWord):
    """Who speaks in a message. Closed.

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
        ENGINE: In the engine or what it runs: scripts, nodes, states.
        LIMIT: A budget is spent.
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
        DUPLICATE: An idempotent call that succeeded already.
        BLOCKED: The tool, or this call, failed for good earlier in the turn.
        PRE_HOOK: The hook ``on_pre_tool_use`` refused the call.
        VALIDATION: The arguments do not fit the schema.
        DEADLINE: Too little time was left.
        WRITE_DENIED: The call was not approved.
        CANCELLED: The run is being stopped.
        BUDGET: A limit on tool calls was reached.
        UNKNOWN_TOOL: There is no tool of that name.
        POLICY: A rule forbids it.
        RATE_LIMITED: The tool's own rate is used up.
        CIRCUIT_OPEN: The tool has failed too often and is not called for a while.
        SUPERSEDED: This attempt has made a hand-off already; only the first one counts.
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
        """Reads as the first type and may be set to the second."""

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
        """The default of such a field, as it is or as ``written`` made it."""
        return default
