"""Free JSON: converts values from outside to JSON, and lists what JSON could not express."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Self, cast
from uuid import UUID

import msgspec

from upshot.contract.base.structs import JSON, Json, encode_other, set_field
from upshot.errors import Misuse

MAX_DEPTH = 200
# Python at its strictest setting refuses to print longer integers.
_MAX_INT_BITS = 2_048
_MAX_WHOLE_DIGITS = 300
_MAX_PATH_CHARS = 100
_SORTED_JSON = msgspec.json.Encoder(order="sorted")


class UnserializableError(TypeError):
    """A value that JSON cannot express.

    Attributes:
        path: Its place in the value, as a JSON pointer; "" is the value itself.
        reason: Why JSON cannot express it.
    """

    def __init__(self, path: str, reason: str) -> None:
        place = path if len(path) <= _MAX_PATH_CHARS else f"{path[:_MAX_PATH_CHARS]}..."
        super().__init__(f"the value at {place or '/'} is not JSON: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.path, self.reason)


def clean_text(text: str) -> str:
    """Return *text* with lone surrogates replaced by U+FFFD; the same object if there are none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def without_nul(text: str) -> str:
    """Return *text* with every NUL replaced by U+FFFD, for columns that are only shown."""
    return text.replace("\0", "\ufffd")


def to_json(value: object) -> bytes:
    """Encode *value* as compact JSON; NaN and infinities as null, lone surrogates as U+FFFD.

    Raises:
        TypeError: JSON cannot express something in it.
        ValueError: An integer is too long.
        RecursionError: It contains itself.
    """
    try:
        return JSON.encode(value)
    except UnicodeEncodeError:
        return JSON.encode(_clean(to_plain(value)))


def pointer_step(name: str) -> str:
    """Return *name* as a step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def steps_of(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer, unescaped."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def canonical_json(value: Json) -> bytes:
    """Return compact JSON of *value* for digests: keys sorted, integral floats as integers."""
    return _SORTED_JSON.encode(_with_integers(value))


def to_plain(value: object) -> Any:
    """Return *value* as dicts, lists and scalars, as it would be encoded; money stays exact.

    Raises:
        TypeError: JSON cannot express something in it.
        RecursionError: It contains itself.
    """
    return msgspec.to_builtins(
        value, builtin_types=(Decimal,), str_keys=True, enc_hook=encode_other
    )


def to_free_json(value: object) -> tuple[Json, tuple[str, ...]]:
    """Convert *value* to JSON.

    Mappings, sequences, sets, dataclasses, msgspec structs, pydantic models, enums, dates,
    durations, UUIDs, paths, bytes (base64) and Decimals (numbers) are converted. NaN and
    infinities become null, lone surrogates U+FFFD. If two keys become equal, the later wins.

    Returns:
        The JSON value, and JSON pointers to the replaced values; "/" alone is the value itself.

    Raises:
        UnserializableError: JSON cannot express something in it, or it is nested deeper than
            ``MAX_DEPTH`` or contains itself.
    """
    lossy: list[str] = []
    try:
        return _convert(value, "", lossy, MAX_DEPTH), tuple(lossy)
    except RecursionError:
        raise UnserializableError("", "it is nested too deeply") from None


def is_plain(value: Any) -> bool:
    """Return whether *value* is a scalar that needs no conversion, like most of a large value."""
    if type(value) is str:
        return value.isascii()
    if type(value) is int:
        return value.bit_length() <= _MAX_INT_BITS
    if type(value) is float:
        return math.isfinite(value)
    return value is None or value is True or value is False


def clean_fields(value: msgspec.Struct, *names: str) -> None:
    """Replace lone surrogates in these fields by U+FFFD; only for use in ``__post_init__``."""
    for name in names:
        text: object = getattr(value, name)
        if isinstance(text, str) and not text.isascii():
            cleaned = clean_text(text)
            if cleaned is not text:
                set_field(value, name, cleaned)


def force_json(value: msgspec.Struct, name: str) -> None:
    """Convert a field to JSON, replacing what JSON cannot express; only for ``__post_init__``.

    Raises:
        Misuse: JSON cannot express the value at all.
    """
    given: object = getattr(value, name)
    if is_plain(given):
        return
    try:
        form, _ = to_free_json(given)
    except UnserializableError as error:
        raise Misuse(f"{type(value).__name__}({name}=): {error}") from error
    set_field(value, name, form)


def settle_json(value: msgspec.Struct, *names: str) -> None:
    """Convert these fields to JSON, or refuse them; only for use in ``__post_init__``.

    Raises:
        Misuse: JSON cannot express a value; the message names the place.
    """
    for name in names:
        given: object = getattr(value, name)
        try:
            plain, lossy = to_free_json(given)
        except UnserializableError as error:
            raise Misuse(f"{type(value).__name__}({name}=): {error}") from error
        if lossy:
            raise Misuse(
                f"{type(value).__name__}({name}=): JSON cannot express the value at "
                f"{', '.join(path or '/' for path in lossy)}"
            )
        if plain is not given:
            set_field(value, name, plain)


# Created once: creating a tuple of classes takes longer than checking against it.
_NUMBERS = (int, float, Decimal)
MAY_HOLD_FLOATS = (float, dict, list)


def _convert(value: Any, path: str, lossy: list[str], depth: int) -> Json:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(value, path, lossy)
    if isinstance(value, _NUMBERS):
        return _number(value, path, lossy)
    if depth == 0:
        raise UnserializableError(path, f"it contains itself, or is over {MAX_DEPTH} levels deep")
    # Most mappings are dicts, and the test for the abstract class takes longer.
    if type(value) is dict or isinstance(value, Mapping):
        return _object(cast("Mapping[object, Any]", value), path, lossy, depth - 1)
    if isinstance(value, list | Sequence | Set) and not isinstance(
        value, bytes | bytearray | memoryview
    ):
        items = cast("Iterable[Any]", value)
        return [
            item if is_plain(item) else _convert(item, f"{path}/{place}", lossy, depth - 1)
            for place, item in enumerate(items)
        ]
    return _convert(_simplify(value, path), path, lossy, depth - 1)


def _object(
    value: Mapping[object, Any], path: str, lossy: list[str], depth: int
) -> dict[str, Json]:
    form: dict[str, Json] = {}
    for key, item in value.items():
        name = key if type(key) is str and key.isascii() else _key(key, path, lossy)
        if name not in form and is_plain(item):
            form[name] = item
            continue
        place = f"{path}/{pointer_step(name)}"
        if name in form:
            lossy.append(place)
        form[name] = _convert(item, place, lossy, depth)
    return form


def _text(value: str, path: str, lossy: list[str]) -> str:
    # str() also converts subclasses, such as words, to plain text.
    text = clean_text(str(value.value) if isinstance(value, Enum) else str(value))
    if text != value:
        lossy.append(path or "/")
    return text


def _number(value: float | Decimal, path: str, lossy: list[str]) -> int | float | None:
    if isinstance(value, int):
        if value.bit_length() > _MAX_INT_BITS:
            raise UnserializableError(path, "the integer is too long")
        return int(value)
    # A signaling NaN raises on comparison.
    finite = value.is_finite() if isinstance(value, Decimal) else True
    # The size is tested first: writing out 1E+999999999 would take all memory. Not with value % 1,
    # which rounds to the precision of the ambient context.
    if (
        isinstance(value, Decimal)
        and finite
        and value.adjusted() < _MAX_WHOLE_DIGITS
        and value == value.to_integral_value()
    ):
        return int(value)
    number = float(value) if finite else math.nan
    if not math.isfinite(number):
        lossy.append(path or "/")
        return None
    if isinstance(value, Decimal) and Decimal(repr(number)) != value:
        lossy.append(path or "/")
    return number


def _key(key: object, path: str, lossy: list[str]) -> str:
    if isinstance(key, str):
        return _text(key, path, lossy)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int | float | UUID | date):
        return str(key)
    # Imported where it is needed: this module is loaded at every start.
    from upshot.contract.base.checks import kind_of

    raise UnserializableError(path, f"{kind_of(key)} cannot be a key")


def _simplify(value: Any, path: str) -> object:
    """Convert an object by one step towards JSON."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(cast("os.PathLike[str]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct | bytes | bytearray | memoryview | timedelta):
        return msgspec.to_builtins(
            value,
            builtin_types=(Decimal,),
            str_keys=True,
            enc_hook=lambda item: _simplify(item, path),
        )
    try:
        return encode_other(value)
    except TypeError:
        name = type(value).__name__
        raise UnserializableError(path, f"{name} has no JSON form; return plain values") from None
    # The model's own serializers may raise anything: what they cannot write, JSON cannot express.
    except Exception as error:
        raise UnserializableError(path, f"{type(value).__name__}: {error}") from error


def _with_integers(value: Json) -> Json:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    # Most items are strings, and calling this for each of them would be most of the work.
    if isinstance(value, dict):
        return {
            name: _with_integers(item) if isinstance(item, MAY_HOLD_FLOATS) else item
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [
            _with_integers(item) if isinstance(item, MAY_HOLD_FLOATS) else item for item in value
        ]
    return value


def _clean(plain: Any) -> Any:
    """Return a plain value with every text cleaned."""
    if isinstance(plain, str):
        return clean_text(plain)
    if isinstance(plain, dict):
        fields = cast("dict[str, Any]", plain)
        return {clean_text(name): _clean(item) for name, item in fields.items()}
    if isinstance(plain, list | tuple):
        return [_clean(item) for item in cast("list[Any]", plain)]
    return plain
