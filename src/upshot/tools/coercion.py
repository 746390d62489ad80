"""Safe coercions: a value that the schema refuses is changed where nothing has to be guessed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from ..contract import Coercion, Json, JsonObject
from .fault import pointer, wanted_types

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = ["Mender", "round_integers"]

Path: TypeAlias = Sequence[str | int]

# Bounded, for int() and Decimal() take time that grows faster than their text.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,999})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,3})?")
# Each trial validates the whole value.
_MAX_TRIALS = 64
_MAX_NESTING = 4


class _Absent:
    """The new value of what shall be left out."""


_ABSENT = _Absent()


class Mender:
    """Changes what a schema refuses, one trial at a time.

    A change is kept only if it leaves no fault at its place and makes none elsewhere.

    Attributes:
        coercions: What was changed so far.
    """

    def __init__(self, validator: Validator) -> None:
        self.coercions: list[Coercion] = []
        self._validator = validator
        self._trials = _MAX_TRIALS

    def mend(self, value: Json) -> tuple[Json, list[ValidationError]]:
        """Mend what can be mended.

        Returns:
            The value as far as it was mended, and the faults that are left. *value* itself is
            not changed.
        """
        faults = self._faults(value)
        # Most often the first thought is right everywhere, and one look is enough.
        changed = self._try_all(value, faults)
        if self.coercions and not (left := self._faults(changed)):
            return changed, left
        self.coercions.clear()
        for fault in faults[:_MAX_TRIALS]:
            if self._trials > 0:
                value = self._mend_one(value, fault, _MAX_NESTING)
        return value, self._faults(value) if self.coercions else faults

    def _faults(self, value: Json) -> list[ValidationError]:
        return list(self._validator.iter_errors(value))

    def _mend_one(self, value: Json, fault: ValidationError, nesting: int) -> Json:
        path = fault.instance_path
        before = _key_set(self._faults(value))
        for rule, new in _candidates(fault):
            if self._trials <= 0:
                break
            self._trials -= 1
            kept = len(self.coercions)
            self.coercions.append(_coercion(fault, rule, new))
            changed = self._settle(_put(value, path, new), path, nesting)
            if not isinstance(changed, _Absent) and _key_set(self._faults(changed)) < before:
                return changed
            del self.coercions[kept:]
        return self._mend_branches(value, fault, nesting)

    def _settle(self, value: Json, path: Path, nesting: int) -> Json | _Absent:
        """*value* with what is still wrong under *path* mended, or that it cannot be."""
        inside = [fault for fault in self._faults(value) if _is_under(fault.instance_path, path)]
        if inside and nesting == 0:
            return _ABSENT
        for fault in inside:
            value = self._mend_one(value, fault, nesting - 1)
        left = (fault for fault in self._faults(value) if _is_under(fault.instance_path, path))
        return _ABSENT if inside and any(left) else value

    def _mend_branches(self, value: Json, fault: ValidationError, nesting: int) -> Json:
        """Mend inside one branch of a union, such as an object that may also be null."""
        kind: Any = fault.kind
        for branch in getattr(kind, "context", ()):
            deeper = [one for one in branch if len(one.instance_path) > len(fault.instance_path)]
            if not deeper or len(deeper) < len(branch) or nesting == 0:
                continue
            kept = len(self.coercions)
            changed = self._settle(self._try_all(value, deeper), fault.instance_path, nesting - 1)
            if not isinstance(changed, _Absent):
                return changed
            del self.coercions[kept:]
        return value

    def _try_all(self, value: Json, faults: Sequence[ValidationError]) -> Json:
        """*value* with the first candidate for every fault, untested."""
        for fault in faults:
            for rule, new in itertools.islice(_candidates(fault), 1):
                self.coercions.append(_coercion(fault, rule, new))
                value = _put(value, fault.instance_path, new)
        return value


def round_integers(value: JsonObject, schema: JsonObject, coercions: list[Coercion]) -> JsonObject:
    """Make ints of integral floats where *schema* wants an integer; JSON Schema takes both.

    Args:
        value: Arguments that fit the schema.
        schema: Their schema.
        coercions: What is changed is added here.

    Returns:
        *value* itself where nothing is to be changed.
    """
    # Most arguments are texts and whole numbers.
    if not any(isinstance(item, float | dict | list) for item in value.values()):
        return value
    for path, number in list(_integral_floats(value, ())):
        types = set(_types_at(schema, schema, path))
        if "integer" in types and "number" not in types:
            coercions.append(
                Coercion(path=pointer(path), rule="integer", before=number, after=int(number))
            )
            value = cast("JsonObject", _put(value, path, int(number)))
    return value


def _integral_floats(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[Path, float]]:
    if isinstance(value, float):
        if value.is_integer():
            yield path, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _integral_floats(item, (*path, name))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _integral_floats(item, (*path, place))


def _types_at(schema: object, root: JsonObject, path: Path) -> Iterator[str]:
    """Every type word that *schema* has for the place *path*."""
    if not isinstance(schema, dict):
        return
    fields = cast("JsonObject", schema)
    reference = fields.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        definitions = fields.get("$defs") or root.get("$defs")
        if isinstance(definitions, dict):
            yield from _types_at(definitions.get(reference[8:]), root, path)
    for word in ("anyOf", "oneOf", "allOf"):
        branches = fields.get(word)
        for branch in branches if isinstance(branches, list) else ():
            yield from _types_at(branch, root, path)
    if path:
        yield from _types_at(_step(fields, path[0]), root, path[1:])
        return
    kind = fields.get("type")
    yield from map(str, kind) if isinstance(kind, list) else [str(kind)]


def _step(schema: JsonObject, step: str | int) -> object:
    if isinstance(step, int):
        prefix = schema.get("prefixItems")
        if isinstance(prefix, list) and step < len(prefix):
            return prefix[step]
        return schema.get("items")
    properties = schema.get("properties")
    if isinstance(properties, dict) and step in properties:
        return properties[step]
    return schema.get("additionalProperties")


def _coercion(fault: ValidationError, rule: str, new: Json | _Absent) -> Coercion:
    after = None if isinstance(new, _Absent) else new
    before = cast("Json", fault.instance)
    return Coercion(path=pointer(fault.instance_path), rule=rule, before=before, after=after)


def _candidates(fault: ValidationError) -> Iterator[tuple[str, Json | _Absent]]:
    """What could be meant, the plainest first."""
    value = cast("Json", fault.instance)
    wanted = wanted_types(fault)
    if isinstance(value, str):
        yield from _of_text(value, wanted)
        yield from _of_choice(value, _choices(fault))
    if value is None:
        if fault.instance_path and isinstance(fault.instance_path[-1], str):
            yield "absent", _ABSENT
    elif "array" in wanted and not isinstance(value, list):
        yield "array", [value]


def _of_text(text: str, wanted: Sequence[str]) -> Iterator[tuple[str, Json]]:
    if "integer" in wanted and _INTEGER.fullmatch(text):
        yield "integer", int(text)
    if "number" in wanted and _NUMBER.fullmatch(text):
        number = int(text) if _INTEGER.fullmatch(text) else float(text)
        # Never a lossy number: what the float says must be what the text said.
        if Decimal(repr(number)) == Decimal(text):
            yield "number", number
    if "boolean" in wanted and text.lower() in ("true", "false"):
        yield "boolean", text.lower() == "true"
    if text.lstrip()[:1] in ("{", "["):
        parsed = _parse(text)
        if isinstance(parsed, dict) and "object" in wanted:
            yield "object", cast("JsonObject", parsed)
        if isinstance(parsed, list) and "array" in wanted:
            yield "array", cast("list[Json]", parsed)


def _parse(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _choices(fault: ValidationError) -> list[object]:
    kind: Any = fault.kind
    match kind.name:
        case "enum":
            return list(kind.options)
        case "const":
            return [kind.expected_value]
        case _:
            inner = [e for branch in getattr(kind, "context", ()) for e in branch]
            same = [e for e in inner if e.instance_path == fault.instance_path]
            return [choice for e in same for choice in _choices(e)]


def _of_choice(text: str, choices: Sequence[object]) -> Iterator[tuple[str, Json]]:
    folded = [c for c in choices if isinstance(c, str) and c.casefold() == text.casefold()]
    if len(folded) == 1:
        yield "enum", folded[0]
    numbers = [c for c in choices if isinstance(c, int) and str(c) == text]
    if len(numbers) == 1:
        yield "enum", numbers[0]


def _key_set(faults: Sequence[ValidationError]) -> set[tuple[str, str, str]]:
    # Not the message, for that quotes the value, which changes.
    return {
        (pointer(one.instance_path), one.kind.name, str(getattr(one.kind, "property", "")))
        for one in faults
    }


def _is_under(path: Path, root: Path) -> bool:
    return list(path[: len(root)]) == list(root)


def _put(value: Json, path: Path, new: Json | _Absent) -> Json:
    """*value* with *new* at *path*; what is not on the way is shared, nothing is changed."""
    if not path:
        return cast("Json", new)
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        place = int(step)
        return [*value[:place], _put(value[place], rest, new), *value[place + 1 :]]
    fields = dict(cast("JsonObject", value))
    if not rest and new is _ABSENT:
        del fields[str(step)]
    else:
        fields[str(step)] = _put(fields[str(step)], rest, new)
    return fields
