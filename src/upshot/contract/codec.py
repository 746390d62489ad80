"""Encodes contract values as JSON and decodes them, without loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, overload

import msgspec
from msgspec.structs import force_setattr

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentCard, AgentSpec
from upshot.contract.base.checks import json_fault
from upshot.contract.base.json_values import to_json, to_plain
from upshot.contract.base.structs import JSON, SCHEMA_VERSION, Json, Local, Root, Tagged
from upshot.contract.events import Event
from upshot.contract.message import UNKNOWN_TAG, Artifact, Message, MessageList, Part, Unknown
from upshot.contract.model_calls import ModelResponse, Request
from upshot.contract.pending import AnyAnswer, Pending
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.tool_calls import ToolCall, ToolOutcome, ToolRecord
from upshot.errors import Misuse

V = TypeVar("V")

# Every kind that can be decoded without naming the expected type.
STANDALONE: tuple[Any, ...] = (
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
_INVALID_TAG = re.compile(r"Invalid value '(?P<kind>.*)' - at `\$(?P<path>.*)\.kind`$", re.DOTALL)
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN_MARK = f'"kind":"{UNKNOWN_TAG}"'.encode()

# Floats keep their digits, so that decoding twice does not change an amount of money.
_PLAIN = msgspec.json.Decoder(float_hook=Decimal)


def encode(value: object) -> bytes:
    """Encode a contract value as JSON.

    Args:
        value: Any value of the contract, or a container of them; an ``Agent`` is
            encoded as its spec.

    Returns:
        Compact UTF-8 JSON; a field that equals its default may be absent. NaN and infinities
        become null, lone surrogates U+FFFD.

    Raises:
        Misuse: The value contains itself, or something that JSON cannot express.
    """
    if isinstance(value, Agent):
        value = cast("Agent[object]", value).spec()
    elif getattr(value, "local", None) is not None and isinstance(value, Root):
        # Omitted, so that a value is written the same before and after decoding.
        value = copy(value)
        force_setattr(value, "local", None)
    if isinstance(value, Root) and value.schema_version > SCHEMA_VERSION:
        # The fields of the newer version were ignored, so it is a document of this version.
        value = copy(value)
        force_setattr(value, "schema_version", SCHEMA_VERSION)
    try:
        data = to_json(value)
        return to_json(_unfold(value, to_plain(value))) if _UNKNOWN_MARK in data else data
    except (TypeError, ValueError, RecursionError) as error:
        raise Misuse(f"this {type(value).__name__} cannot be written as JSON: {error}") from error


@overload
def decode(data: bytes | str, type: None = None) -> Tagged: ...
@overload
def decode(data: bytes | str, type: type[V]) -> V: ...
@overload
def decode(data: bytes | str, type: msgspec.json.Decoder[V]) -> V: ...
@overload
def decode(data: bytes | str, type: UnionType) -> object: ...
def decode(data: bytes | str, type: Any = None) -> object:
    """Decode a contract value from JSON.

    Args:
        data: What ``encode`` wrote, in this version or another.
        type: The expected type or union, or its ``decoder_of``; None accepts any standalone kind.

    Returns:
        The value. Unknown fields are ignored; an unknown part or event is kept as ``Unknown``.

    Raises:
        Misuse: The data is not JSON, or not of the expected type; the message names an unknown
            kind.
    """
    is_decoder = isinstance(type, msgspec.json.Decoder)
    decoder = cast("msgspec.json.Decoder[Any]", type) if is_decoder else decoder_of(type)
    try:
        try:
            return decoder.decode(data)
        except msgspec.ValidationError as error:
            is_any = decoder is decoder_of(None)
            return _decode_unknown(data, decoder, error, root_may_be_unknown=not is_any)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Misuse(f"this is not JSON: {json_fault(error)}") from error


@cache
def decoder_of(type: Any) -> msgspec.json.Decoder[Any]:
    """Return the cached decoder of *type*, which ``decode`` also accepts.

    Looking up a large union takes half as long as decoding a small value.
    """
    expected: Any = Union[STANDALONE] if type is None else type  # noqa: UP007  # made at run time
    return msgspec.json.Decoder(expected, dec_hook=_decode_other)


@cache
def _known_kinds() -> frozenset[object]:
    """Return the ``kind`` of every standalone value."""
    return frozenset(getattr(kind, "__origin__", kind).__struct_config__.tag for kind in STANDALONE)


def _decode_other(type: Any, value: object) -> object:
    if type is Local:
        return Local()
    if hasattr(type, "model_validate"):
        # A pydantic model as output type, recognized by its method to avoid importing pydantic.
        return type.model_validate(value)
    raise NotImplementedError(f"{type.__name__} has no JSON form")


def _decode_unknown(
    data: bytes | str,
    decoder: msgspec.json.Decoder[Any],
    error: msgspec.ValidationError,
    *,
    root_may_be_unknown: bool,
) -> object:
    """Wrap values of an unknown kind in ``Unknown`` where the type allows it, and decode again."""
    tree: Any = None
    kind = ""
    while found := _INVALID_TAG.search(str(error)):
        if found["kind"] == UNKNOWN_TAG or not (found["path"] or root_may_be_unknown):
            name = kind or found["kind"]
            raise Misuse(f"this version cannot read a value of kind {name!r}") from error
        kind = found["kind"]
        tree = {"$": _PLAIN.decode(data)} if tree is None else tree
        # Each round resolves one place of the type, so the loop ends.
        if not _wrap_all(tree, [*_STEP.finditer(".$" + found["path"])], kind):
            break
        try:
            return decoder.decode(JSON.encode(tree["$"]))
        except msgspec.ValidationError as next_error:
            error = next_error
    raise Misuse(f"this does not have the expected form: {error}") from error


def _wrap_all(tree: Any, path: list[re.Match[str]], kind: str) -> bool:
    """Wrap the unknown kinds at *path* and at all similar places; returns whether there were any.

    The error names only the first one; decoding again after each would take quadratic time.
    """
    places: list[Any] = [tree]
    named: Any = tree
    for step in path[:-1]:
        named = _at(named, step)
        found = (holder[name] for holder in places for name in _names(holder, step))
        # A value of another type may hold free JSON under the same name.
        places = [item for item in found if named is None or _kind_of(item) == _kind_of(named)]
    wrapped = False
    for holder in places:
        for name in _names(holder, path[-1]):
            other = _kind_of(holder[name])
            if other == kind or (isinstance(other, str) and other not in _known_kinds()):
                holder[name] = {"kind": UNKNOWN_TAG, "raw": holder[name]}
                wrapped = True
    return wrapped


def _at(holder: Any, step: re.Match[str]) -> Any:
    """Return the value at *step*, or None if the path does not say which item."""
    if step["key"] is not None:
        fields = cast("dict[str, Any]", holder) if isinstance(holder, dict) else {}
        return fields.get(step["key"])
    if isinstance(holder, list) and step["index"] != "...":
        return cast("list[Any]", holder)[int(step["index"])]
    return None


def _names(holder: Any, step: re.Match[str]) -> Iterator[Any]:
    """Return the keys or indexes of *holder* that *step*, or a similar path, may name."""
    if step["key"] is not None:
        return iter((step["key"],) if isinstance(holder, dict) and step["key"] in holder else ())
    if isinstance(holder, list):
        return iter(range(len(cast("list[Any]", holder))))
    return iter(cast("dict[str, Any]", holder) if isinstance(holder, dict) else ())


def _kind_of(tree: object) -> object:
    return cast("dict[str, object]", tree).get("kind") if isinstance(tree, dict) else None


def _unfold(value: Any, plain: Any) -> Any:
    """Put the raw form of every ``Unknown`` in *value* into its *plain* form."""
    if isinstance(value, Unknown):
        return plain["raw"]
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name in plain:
                plain[name] = _unfold(getattr(value, name), plain[name])
    elif isinstance(value, list | tuple | MessageList):
        pairs = zip(cast("list[Any]", value), cast("list[Any]", plain), strict=True)
        return [_unfold(item, form) for item, form in pairs]
    elif isinstance(value, dict) and isinstance(plain, dict):
        # A written key may differ from the key in memory, but its position does not.
        items = cast("dict[Any, Any]", value).values()
        forms = cast("dict[str, Any]", plain).items()
        return {name: _unfold(item, form) for item, (name, form) in zip(items, forms, strict=True)}
    return plain
