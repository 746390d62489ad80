"""From what a model wrote to valid arguments with defaults filled in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

import msgspec

from upshot.contract.base.json_values import (
    MAX_DEPTH,
    MAY_HOLD_FLOATS,
    UnserializableError,
    steps_of,
    to_free_json,
)
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_calls import Coercion
from upshot.errors import Misuse
from upshot.tools.arguments.coercion import Coercer, round_integers
from upshot.tools.arguments.schema_faults import (
    ABSENT,
    Absent,
    Place,
    changed,
    cut_text,
    describe_choices,
    describe_faults,
    floats_in,
    found_at,
    is_too_deep,
    join_faults,
    pointer,
)

if TYPE_CHECKING:
    from jsonschema_rs import Validator


class Defaults:
    """The defaults of one schema, read once.

    Args:
        schema: JSON Schema of an object.

    Attributes:
        are_there: Whether the schema has defaults.
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._own = dict(_defaults_of(schema))
        bare = {
            key: {word: one for word, one in item.items() if word != "default"}
            if isinstance(item, dict)
            else item
            for key, item in _properties(schema).items()
        }
        # Most schemas have no nested defaults, so there is no need to find where they apply.
        self._inside = _has_defaults({**schema, "properties": bare}) or (
            bool(self._own) and _may_refer_to_root(schema)
        )
        self.are_there: bool = bool(self._own) or self._inside

    def fill(self, value: JsonObject, validator: Validator) -> JsonObject:
        """Return *value* with defaults for everything that is absent.

        Args:
            value: Arguments that match the schema.
            validator: The schema; it knows which of its parts apply where.

        Returns:
            *value* itself if nothing is absent, otherwise a copy.
        """
        missing = {key: one for key, one in self._own.items() if key not in value}
        filled = {**value, **missing} if missing else value
        if not self._inside:
            return filled
        changes = list(self._missing(value, validator))
        return cast("JsonObject", changed(filled, changes)) if changes else filled

    def _missing(self, value: JsonObject, validator: Validator) -> Iterator[tuple[Place, Json]]:
        for place, schema in self._applied(value, validator):
            holder = found_at(value, place)
            if isinstance(holder, dict):
                for name, default in _defaults_of(schema):
                    if name not in holder:
                        yield (*place, name), default

    def _applied(
        self, value: JsonObject, validator: Validator
    ) -> Iterator[tuple[Place, JsonObject]]:
        """Yield every part of the schema that applies in *value*, the one that wins last."""
        details = cast("list[dict[str, str]]", validator.evaluate(value).list()["details"])
        wrong = {one["evaluationPath"] for one in details if not one["valid"]}
        seen: set[tuple[str, str]] = set()
        for one in reversed(details):
            where = (one["schemaLocation"], one["instanceLocation"])
            # A branch that does not match has no say, even if some of its parts match.
            if where in seen or _is_below(one["evaluationPath"], wrong):
                continue
            seen.add(where)
            part = found_at(self._schema, _steps(self._schema, _to_pointer(where[0])))
            if isinstance(part, dict) and "properties" in part:
                yield _steps(value, where[1]), part


def _to_pointer(location: str) -> str:
    """Return the pointer in a schema's location, without the base."""
    base, mark, fragment = location.partition("#")
    return unquote(fragment) if mark else base


def _is_below(path: str, wrong: set[str]) -> bool:
    if not wrong:
        return False
    while path not in wrong:
        if not path:
            return False
        path = path.rpartition("/")[0]
    return True


def _steps(value: Json, pointer: str) -> Place:
    """Return the steps of a JSON pointer into *value*; steps that lead nowhere stay text."""
    steps: list[str | int] = []
    at: Json | Absent = value
    for name in steps_of(pointer):
        step = int(name) if isinstance(at, list) and name.isdecimal() else name
        steps.append(step)
        at = ABSENT if isinstance(at, Absent) else found_at(at, (step,))
    return tuple(steps)


def _properties(schema: JsonObject) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _defaults_of(schema: JsonObject) -> Iterator[tuple[str, Json]]:
    for name, one in _properties(schema).items():
        if isinstance(one, dict) and "default" in one:
            yield name, one["default"]


def _has_defaults(schema: Json) -> bool:
    if isinstance(schema, list):
        return any(map(_has_defaults, schema))
    if not isinstance(schema, dict):
        return False
    return "default" in schema or any(map(_has_defaults, schema.values()))


def _may_refer_to_root(schema: Json) -> bool:
    """Whether a reference may lead to the root, or to something directly below it."""
    if isinstance(schema, list):
        return any(map(_may_refer_to_root, schema))
    if not isinstance(schema, dict):
        return False
    target = schema.get("$ref")
    if isinstance(target, str) and not target.startswith(("#/$defs/", "#/definitions/")):
        return True
    return "$dynamicRef" in schema or any(map(_may_refer_to_root, schema.values()))


def read_object(arguments: str | Mapping[str, Json], coercions: list[Coercion]) -> JsonObject | str:
    """Read *arguments*, tolerating the known mistakes of models and proxies.

    Args:
        arguments: JSON text (empty text and null are no arguments), or a mapping.
        coercions: Every change is appended here.

    Returns:
        The object, or what is wrong in words. A number that JSON cannot represent is wrong
        wherever it is, because null in its place would count as absent.
    """
    if not isinstance(arguments, str):
        return _read_mapping(arguments)
    if not arguments.strip():
        return {}
    value, strict = _parse(arguments)
    # Encoded twice: a mistake of the model, or of a proxy in between.
    if isinstance(value, str):
        inner, strict = _parse(value)
        if isinstance(inner, dict):
            given, value = value, cast("JsonObject", inner)
            coercions.append(Coercion(path="", rule="json", before=given, after=value))
    if value is None:
        # Several models write null for a tool without parameters.
        return {}
    if value is ABSENT:
        return f"/: the arguments are not JSON: {arguments[:100]}"
    if not isinstance(value, dict):
        return _no_object(value)
    if is_too_deep(arguments, cast("object", value)):
        return f"/: the arguments are nested deeper than {MAX_DEPTH} levels"
    found = cast("JsonObject", value)
    return found if strict else _check_numbers(found)


def _read_mapping(arguments: object) -> JsonObject | str:
    if arguments is None:
        return {}
    try:
        value, lossy = to_free_json(arguments)
    except UnserializableError as error:
        return f"{error.path or '/'}: is not JSON: {error.reason}"
    if lossy and (lost := [path for path in lossy if _is_number_at(value, path)]):
        return join_faults(map(_unrepresentable, lost))
    return value if isinstance(value, dict) else _no_object(value)


def _is_number_at(value: Json, path: str) -> bool:
    """Whether the value replaced at *path* was a number (or is null in place of one)."""
    for name in steps_of(path) if path != "/" else ():
        found = found_at(value, (int(name) if isinstance(value, list) else name,))
        if isinstance(found, Absent):
            return False
        value = found
    return value is None or isinstance(value, int | float)


def _parse(text: str) -> tuple[object, bool]:
    """Return the JSON of *text* and whether it is strict; ``ABSENT`` if it is not JSON.

    NaN and infinities are kept.
    """
    from upshot.wire.decoding import replace_surrogates

    try:
        return msgspec.json.decode(text), True
    except (ValueError, msgspec.MsgspecError, RecursionError):
        pass
    try:
        # Providers do send raw line breaks and byte order marks.
        value = json.loads(text.lstrip("\N{ZERO WIDTH NO-BREAK SPACE}"), strict=False)
        return replace_surrogates(value), False
    except (ValueError, RecursionError):
        return ABSENT, False


def _check_numbers(value: JsonObject) -> JsonObject | str:
    lost = [place for place, number in floats_in(value) if not math.isfinite(number)]
    return join_faults(map(_unrepresentable, map(pointer, lost))) if lost else value


def _unrepresentable(path: str) -> str:
    return f"{path}: is a number that JSON cannot hold"


def _no_object(value: object) -> str:
    what = "an array" if isinstance(value, list) else "a single value"
    return f"/: the arguments are {what}; a JSON object is needed"


_TOLD = 30
_MAX_NAME_CHARS = 80
_MAX_HINT_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Checked:
    """Valid arguments.

    Attributes:
        given: The model's arguments, coerced if necessary.
        filled: The same with the schema's defaults for absent values, at any depth.
        coercions: The changes.
    """

    given: JsonObject
    filled: JsonObject
    coercions: tuple[Coercion, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Invalid arguments.

    Attributes:
        details: Every fault with its path, but at most the first twenty.
        hint: What the tool accepts.
    """

    details: str
    hint: str


class ArgumentCheck:
    """Reads the arguments of one tool.

    Attributes:
        name: The name of the tool.
        schema: JSON Schema of its arguments.
    """

    def __init__(self, name: str, schema: JsonObject) -> None:
        self.name = name
        self.schema = schema
        properties = schema.get("properties")
        self._properties = properties if isinstance(properties, dict) else {}
        self._defaults = Defaults(schema)

    @cached_property
    def validator(self) -> Validator:
        """The compiled schema; formats are checked and nothing is fetched.

        Raises:
            Misuse: The schema is not a valid JSON Schema.
        """
        import jsonschema_rs

        try:
            return jsonschema_rs.validator_for(self.schema, validate_formats=True, offline=True)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            text = cut_text(" ".join(str(error).split()), _MAX_HINT_CHARS)
            raise Misuse(f"the schema of tool {self.name!r} is not valid: {text}") from error

    def read(self, arguments: str | Mapping[str, Json]) -> Checked | Refused:
        """Parse, coerce and validate.

        Args:
            arguments: JSON text as the model wrote it (empty text is no arguments), or a mapping.
        """
        coercions: list[Coercion] = []
        value = read_object(arguments, coercions)
        if isinstance(value, str):
            return Refused(value, self.hint)
        if not self.validator.is_valid(value):
            # Most arguments are valid; only the others pay for a closer look.
            mender = Coercer(self.validator)
            mended, faults = mender.mend(value)
            if faults:
                return Refused(describe_faults(faults, list(self._properties), mended), self.hint)
            coercions += mender.coercions
            value = cast("JsonObject", mended)
        # Most arguments are texts and whole numbers.
        if any(isinstance(item, MAY_HOLD_FLOATS) for item in value.values()):
            rounded = round_integers(value, self.validator, coercions)
            if isinstance(rounded, str):
                return Refused(rounded, self.hint)
            value = rounded
        has_defaults = self._defaults.are_there
        filled = self._defaults.fill(value, self.validator) if has_defaults else value
        return Checked(value, filled, tuple(coercions))

    @cached_property
    def hint(self) -> str:
        """What the tool accepts, for a model that got it wrong."""
        if not self._properties:
            return f"{self.name} takes {self._unnamed()}"
        required = self.schema.get("required")
        needed = required if isinstance(required, list) else []
        hints: list[str] = []
        size = 0
        for key, one in self._properties.items():
            text = f"{cut_text(key, _MAX_NAME_CHARS)}: {_type_word(one)}"
            size += len(text)
            if len(hints) == _TOLD or size > _MAX_HINT_CHARS:
                hints.append(f"and {len(self._properties) - len(hints)} more")
                break
            hints.append(text if key in needed else f"{text} (optional)")
        return f"{self.name} takes " + ", ".join(hints) + "."

    def _unnamed(self) -> str:
        closed = self.schema.get("additionalProperties") is False
        keys = ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")
        if closed or not any(key in self.schema for key in keys):
            return "no arguments: send {}."
        return "one JSON object."


def _type_word(schema: object) -> str:
    """Return the type of a property in a few words, "any" if it has many forms."""
    if not isinstance(schema, dict):
        return "any"
    fields = cast("JsonObject", schema)
    branches = fields.get("anyOf")
    if isinstance(branches, list):
        return " or ".join(dict.fromkeys(map(_type_word, branches)))
    choices = fields.get("enum")
    if isinstance(choices, list):
        return f"one of {describe_choices(choices)}"
    kind = fields.get("type", "object" if "$ref" in fields else "any")
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
