"""Fields that hold a word: who writes them gives the text, who reads them gets the member.

To msgspec and at run time each is its word list. To a type checker it is a
descriptor, for the specification of ``dataclass_transform`` takes a parameter's
type from what the descriptor can be set to. They are read-only all the same,
as all fields of frozen values. A checker may not see such a field as that of a
protocol, so what is mostly read, as the status of a result, is none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from .words import (
    DeniedReason,
    Effect,
    ErrorCode,
    FinishReason,
    InterruptCause,
    Origin,
    Resource,
    Role,
)

__all__ = [
    "CauseField",
    "DeniedReasonField",
    "EffectField",
    "ErrorCodeField",
    "FinishReasonField",
    "OptionalErrorCodeField",
    "OriginField",
    "ResourceField",
    "RoleField",
    "word",
]

if TYPE_CHECKING:
    W_co = TypeVar("W_co", covariant=True)
    G_contra = TypeVar("G_contra", contravariant=True)

    class WordField(Generic[W_co, G_contra]):
        """Reads as the one type, and is made of the other."""

        def __get__(self, owner: object, kind: type | None = None) -> W_co: ...
        def __set__(self, owner: object, given: G_contra) -> None: ...

    # A misspelt word of a closed list is an error; an open list takes any text.
    EffectField: TypeAlias = WordField[
        Effect,
        Effect | Literal["read", "write", "destructive", "none", "applied", "unknown"],
    ]
    FinishReasonField: TypeAlias = WordField[
        FinishReason | None,
        FinishReason
        | Literal["stop", "length", "tool_use", "error", "content_filter", "aborted"]
        | None,
    ]
    RoleField: TypeAlias = WordField[Role, Role | Literal["system", "user", "assistant", "tool"]]
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
    FinishReasonField = FinishReason | None
    RoleField = Role
    CauseField = InterruptCause
    DeniedReasonField = DeniedReason
    ErrorCodeField = ErrorCode
    OptionalErrorCodeField = ErrorCode | None
    OriginField = Origin
    ResourceField = Resource

    def word(default: object) -> object:
        """The default of such a field: itself, or what ``written`` made of it."""
        return default
