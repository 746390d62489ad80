"""ArgumentCheck: from what a model wrote to arguments that fit a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from ..contract import Coercion, Json, JsonObject, UnserializableError, to_free_json
from ..errors import Misuse
from .coercion import Mender, round_integers
from .fault import describe_faults

if TYPE_CHECKING:
    from jsonschema_rs import Validator

__all__ = ["ArgumentCheck", "Checked", "Refused"]

_TOLD = 30


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments that fit.

    Attributes:
        given: What the model gave, coerced where it had to be.
        filled: The same with the schema's defaults for what is absent.
        coercions: What was changed.
    """

    given: JsonObject
    filled: JsonObject
    coercions: tuple[Coercion, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Arguments that do not fit.

    Attributes:
        details: Every fault with its path.
        hint: What the tool takes.
    """

    details: str
    hint: str


class ArgumentCheck:
    """Reads the arguments of one tool.

    Attributes:
        name: The tool's name.
        schema: JSON Schema of its arguments.
    """

    def __init__(self, name: str, schema: JsonObject) -> None:
        self.name = name
        self.schema = schema
        properties = schema.get("properties")
        self._properties = properties if isinstance(properties, dict) else {}
        self._defaults = {
            key: one["default"]
            for key, one in self._properties.items()
            if isinstance(one, dict) and "default" in one
        }

    @cached_property
    def validator(self) -> Validator:
        """The compiled schema; formats are checked and nothing is fetched.

        Raises:
            Misuse: It is no JSON Schema.
        """
        import jsonschema_rs

        try:
            return jsonschema_rs.validator_for(self.schema, validate_formats=True, offline=True)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            text = " ".join(str(error).split())
            raise Misuse(f"the schema of tool {self.name!r} is not valid: {text}") from error

    def read(self, arguments: str | Mapping[str, Json]) -> Checked | Refused:
        """Parse, coerce and validate.

        Args:
            arguments: JSON text as the model wrote it (empty text is no arguments), or a mapping.
        """
        coercions: list[Coercion] = []
        value = _parse(arguments, coercions)
        if not isinstance(value, dict):
            return Refused(_no_object(arguments, value), self.hint)
        value = cast("JsonObject", value)
        if not self.validator.is_valid(value):
            # Valid arguments are by far the most; only the others pay for a closer look.
            mender = Mender(self.validator)
            mended, faults = mender.mend(value)
            if faults:
                return Refused(describe_faults(faults, list(self._properties)), self.hint)
            coercions += mender.coercions
            value = cast("JsonObject", mended)
        value = round_integers(value, self.schema, coercions)
        missing = {key: one for key, one in self._defaults.items() if key not in value}
        return Checked(value, {**value, **missing} if missing else value, tuple(coercions))

    @cached_property
    def hint(self) -> str:
        """What the tool takes, for a model that got it wrong."""
        if not self._properties:
            return f"{self.name} takes no arguments: send {{}}."
        required = self.schema.get("required")
        needed = required if isinstance(required, list) else []
        told = [
            f"{key}: {_type_word(one)}{'' if key in needed else ' (optional)'}"
            for key, one in self._properties.items()
        ]
        if len(told) > _TOLD:
            told[_TOLD:] = [f"and {len(told) - _TOLD} more"]
        return f"{self.name} takes " + ", ".join(told) + "."


def _parse(arguments: str | Mapping[str, Json], coercions: list[Coercion]) -> object:
    if not isinstance(arguments, str):
        try:
            return to_free_json(arguments)[0]
        except UnserializableError:
            return None
    # The reader of wire JSON also takes what providers really send, such as raw newlines.
    from ..wire.document import parse_json

    if not arguments.strip():
        return {}
    value = parse_json(arguments)
    if value is None:
        # Several models write null where a tool takes nothing.
        return {}
    # Encoded twice: a model's own mistake, or that of a proxy before it.
    if isinstance(value, str) and isinstance(inner := parse_json(value), dict):
        coercions.append(Coercion(path="", rule="json", before=value, after=inner))
        return inner
    return value


def _no_object(arguments: object, value: object) -> str:
    if isinstance(value, list):
        return "/: the arguments are an array; a JSON object is needed"
    if isinstance(value, str | int | float):
        return "/: the arguments are a single value; a JSON object is needed"
    shown = arguments if isinstance(arguments, str) else type(arguments).__name__
    return f"/: the arguments are no JSON: {shown[:100]}"


def _type_word(schema: object) -> str:
    """The type of a property in a few words, "any" where it takes many forms."""
    if not isinstance(schema, dict):
        return "any"
    fields = cast("JsonObject", schema)
    branches = fields.get("anyOf")
    if isinstance(branches, list):
        return " or ".join(dict.fromkeys(map(_type_word, branches)))
    choices = fields.get("enum")
    if isinstance(choices, list):
        return "one of " + ", ".join(str(choice) for choice in choices)
    kind = fields.get("type", "object" if "$ref" in fields else "any")
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
