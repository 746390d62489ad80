"""Between values and JSON, without loss."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, overload

import msgspec

from ..errors import Misuse
from .agent import Agent
from .answer import AnyAnswer, Pending
from .artifact import Artifact
from .call import ToolCall
from .card import AgentCard
from .checkpoint import Checkpoint
from .event import Event
from .message import Message, Part, Unknown
from .outcome import ToolOutcome
from .record import ToolRecord
from .request import Request
from .response import ModelResponse
from .result import AgentResult
from .spec import AgentSpec
from .value import JSON, Json, Local, Tagged

__all__ = ["decode", "encode"]

V = TypeVar("V")

_STANDALONE: tuple[Any, ...] = (
    AgentResult[Json],
    ModelResponse,
    Request,
    AgentCard,
    AgentSpec,
    ToolRecord,
    Checkpoint,
    Message,
    ToolCall,
    Artifact,
    *(kind for union in (ToolOutcome, Pending, AnyAnswer, Part, Event) for kind in get_args(union)),
)
_UNKNOWN_TAG = re.compile(r"Invalid value '(?P<kind>.*)' - at `\$(?P<path>.*)\.kind`$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN_MARK = b'"kind":"unknown"'
_MAX_UNKNOWN_KINDS = 100

# Floats are kept as their digits, so that reading twice changes no amount of money.
_PLAIN = msgspec.json.Decoder(float_hook=Decimal)


def encode(value: object) -> bytes:
    """Write a contract value as JSON.

    Args:
        value: Any value of the contract, or a container of them; an ``Agent`` is
            written as its spec.

    Returns:
        Compact UTF-8 JSON; what equals its default may be absent.

    Raises:
        Misuse: It holds something that is no JSON.
    """
    if isinstance(value, Agent):
        value = cast("Agent[object]", value).spec()
    try:
        data = JSON.encode(value)
    except (TypeError, UnicodeError) as error:
        raise Misuse(f"this {type(value).__name__} cannot be written as JSON: {error}") from error
    if _UNKNOWN_MARK in data:
        return JSON.encode(_unfold(value, _PLAIN.decode(data)))
    return data


@overload
def decode(data: bytes | str, type: None = None) -> Tagged: ...
@overload
def decode(data: bytes | str, type: type[V]) -> V: ...
def decode(data: bytes | str, type: Any = None) -> object:
    """Read a contract value from JSON.

    Args:
        data: What ``encode`` wrote, here or in another version.
        type: What is expected, a type or a union; None takes any kind that stands alone.

    Returns:
        The value. Unknown fields are ignored; an unknown part or event is kept as ``Unknown``.

    Raises:
        Misuse: It is no JSON, or not what was expected; an unknown kind is named.
    """
    decoder = _decoder(_Any if type is None else type)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        return _decode_unknown(data, decoder, error, root_may_be_unknown=type is not None)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Misuse(f"this is no JSON: {error}") from error


class _Any:
    """Stands for the union of all kinds that stand alone."""


@cache
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    expected: Any = Union[_STANDALONE] if type is _Any else type  # noqa: UP007  # made at run time
    return msgspec.json.Decoder(expected, dec_hook=_decode_other)


def _decode_other(type: type, value: object) -> object:
    if type is Local:
        return Local()
    raise NotImplementedError(f"{type.__name__} has no JSON form")


def _decode_unknown(
    data: bytes | str,
    decoder: msgspec.json.Decoder[Any],
    error: msgspec.ValidationError,
    *,
    root_may_be_unknown: bool,
) -> object:
    """Wrap what has an unknown kind into ``Unknown`` where the type allows one, and read again."""
    tree = _PLAIN.decode(data)
    for _ in range(_MAX_UNKNOWN_KINDS):
        found = _UNKNOWN_TAG.search(str(error))
        if found is None:
            break
        kind, path = found["kind"], found["path"]
        if kind == "unknown" or (not path and not root_may_be_unknown):
            raise Misuse(f"{kind!r} is no kind of value that this version can read") from error
        tree = _wrap(tree, list(_STEP.finditer(path)), kind)
        try:
            return decoder.decode(JSON.encode(tree))
        except msgspec.ValidationError as next_error:
            error = next_error
    raise Misuse(f"this does not have the form that was expected: {error}") from error


def _wrap(tree: Any, steps: list[re.Match[str]], kind: str) -> Any:
    if not steps:
        return {"kind": "unknown", "raw": tree} if _kind_of(tree) == kind else tree
    key, index = steps[0]["key"], steps[0]["index"]
    if isinstance(tree, list):
        items = cast("list[Any]", tree)
        # msgspec does not always say which element it was.
        chosen = range(len(items)) if index == "..." else (int(index),)
        for place in chosen:
            items[place] = _wrap(items[place], steps[1:], kind)
    elif isinstance(tree, dict):
        fields = cast("dict[str, Any]", tree)
        for name in [key] if key is not None else list(fields):
            fields[name] = _wrap(fields[name], steps[1:], kind)
    return cast("Any", tree)


def _kind_of(tree: object) -> object:
    return cast("dict[str, object]", tree).get("kind") if isinstance(tree, dict) else None


def _unfold(value: Any, plain: Any) -> Any:
    """Put the raw form of every ``Unknown`` in *value* into its *plain* form."""
    if isinstance(value, Unknown):
        return value.raw
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name in plain:
                plain[name] = _unfold(getattr(value, name), plain[name])
    elif isinstance(value, list | tuple):
        pairs = zip(cast("list[Any]", value), cast("list[Any]", plain), strict=True)
        return [_unfold(item, form) for item, form in pairs]
    elif isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {name: _unfold(item, plain[name]) for name, item in fields.items()}
    return plain
