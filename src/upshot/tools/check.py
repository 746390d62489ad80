"""ArgumentCheck: from what a model wrote to arguments that fit a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from ..contract import Coercion, Json, JsonObject
from ..errors import Misuse
from .coercion import Mender, round_integers
from .defaults import Defaults
from .fault import cut_text, describe_choices, describe_faults
from .reading import read_object

if TYPE_CHECKING:
    from jsonschema_rs import Validator

__all__ = ["ArgumentCheck", "Checked", "Refused"]

_TOLD = 30
_MAX_NAME_CHARS = 80
_MAX_HINT_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments that fit.

    Attributes:
        given: What the model gave, coerced where it had to be.
        filled: The same with the schema's defaults for what is absent, however deep.
        coercions: What was changed.
    """

    given: JsonObject
    filled: JsonObject
    coercions: tuple[Coercion, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Arguments that do not fit.

    Attributes:
        details: Every fault with its path; the first twenty, where there are more.
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
        self._defaults = Defaults(schema)

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
            # Valid arguments are by far the most; only the others pay for a closer look.
            mender = Mender(self.validator)
            mended, faults = mender.mend(value)
            if faults:
                return Refused(describe_faults(faults, list(self._properties), mended), self.hint)
            coercions += mender.coercions
            value = cast("JsonObject", mended)
        rounded = round_integers(value, self.validator, coercions)
        if isinstance(rounded, str):
            return Refused(rounded, self.hint)
        filled = self._defaults.fill(rounded, self.validator)
        return Checked(rounded, filled, tuple(coercions))

    @cached_property
    def hint(self) -> str:
        """What the tool takes, for a model that got it wrong."""
        if not self._properties:
            return f"{self.name} takes {self._unnamed()}"
        required = self.schema.get("required")
        needed = required if isinstance(required, list) else []
        told: list[str] = []
        size = 0
        for key, one in self._properties.items():
            text = f"{cut_text(key, _MAX_NAME_CHARS)}: {_type_word(one)}"
            size += len(text)
            if len(told) == _TOLD or size > _MAX_HINT_CHARS:
                told.append(f"and {len(self._properties) - len(told)} more")
                break
            told.append(text if key in needed else f"{text} (optional)")
        return f"{self.name} takes " + ", ".join(told) + "."

    def _unnamed(self) -> str:
        closed = self.schema.get("additionalProperties") is False
        keys = ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")
        if closed or not any(key in self.schema for key in keys):
            return "no arguments: send {}."
        return "one JSON object."


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
        return f"one of {describe_choices(choices)}"
    kind = fields.get("type", "object" if "$ref" in fields else "any")
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
