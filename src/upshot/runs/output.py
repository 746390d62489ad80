"""OutputType: what a run's answer shall be, and how a text becomes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import msgspec

from ..contract import Json, JsonObject
from ..contract.json_fault import json_fault
from ..errors import Misuse

__all__ = ["OutputType"]


class OutputType:
    """One way to validate an answer, whatever kind of type describes it.

    Attributes:
        schema: JSON Schema of the answer; None for plain text.
    """

    def __init__(self, schema: JsonObject | None, build: Callable[[Json], object]) -> None:
        self.schema = schema
        self._build = build

    @classmethod
    def of(cls, output_type: object) -> OutputType:
        """Read an agent's ``output_type``.

        Args:
            output_type: None or ``str`` for text; a JSON Schema; or a msgspec, pydantic,
                dataclass or plain typing type.

        Raises:
            Misuse: It is a type without a JSON Schema.
        """
        if output_type is None or output_type is str:
            return cls(None, lambda value: value)
        if isinstance(output_type, dict):
            return _of_schema(cast("JsonObject", output_type))
        if hasattr(output_type, "model_json_schema"):
            model = cast("Any", output_type)
            return cls(
                model.model_json_schema(), _reading(model.model_validate_json, model.model_validate)
            )
        return _of_type(output_type)

    @property
    def is_text(self) -> bool:
        """Whether any text is an answer."""
        return self.schema is None

    def parse(self, text: str) -> Json:
        """Read an answer.

        Args:
            text: What the model wrote, JSON or JSON inside a Markdown fence.

        Returns:
            The JSON value of the answer, validated.

        Raises:
            ValueError: It is no JSON, or not of the type; the message can be shown to the model.
        """
        if self.schema is None:
            return text
        try:
            value: Json = msgspec.json.decode(_without_fence(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(f"the answer is no JSON: {json_fault(error)}") from error
        self.build(value)
        return value

    def build(self, value: Json) -> object:
        """Make the typed answer of a JSON value.

        Raises:
            ValueError: It is not of the type.
        """
        try:
            return self._build(value)
        except ValueError as error:
            raise ValueError(f"the answer does not have the form asked for: {error}") from error


def _of_schema(schema: JsonObject) -> OutputType:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        text = " ".join(str(error).split())
        raise Misuse(f"output_type is no JSON Schema: {text}") from error

    def check(value: Json) -> Json:
        faults = [
            f"/{'/'.join(map(str, fault.instance_path))}: {fault.message}"
            for fault in validator.iter_errors(value)
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return value

    return OutputType(schema, check)


def _of_type(output_type: Any) -> OutputType:
    try:
        (schema,), components = msgspec.json.schema_components(
            [output_type], ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        if "pydantic" in sys.modules and (found := _of_pydantic(output_type)) is not None:
            return found
        raise Misuse(
            f"output_type {output_type!r} has no JSON Schema: give a msgspec Struct, a pydantic "
            f"model, a dataclass or a JSON Schema ({error})"
        ) from error
    if components:
        name = schema.get("$ref", "").rpartition("/")[2]
        rest = {key: form for key, form in components.items() if key != name}
        schema = components.get(name, schema)
        if rest or _refers_to_itself(schema, name):
            schema = {**schema, "$defs": components}
    return OutputType(
        cast("JsonObject", schema), lambda value: msgspec.convert(value, output_type, strict=True)
    )


def _of_pydantic(output_type: Any) -> OutputType | None:
    """A type that pydantic reads, such as a list of its models; None where it does not."""
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        adapter = TypeAdapter[object](output_type)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None
    return OutputType(schema, _reading(adapter.validate_json, adapter.validate_python))


def _reading(
    read: Callable[[bytes], object], check: Callable[[object], object]
) -> Callable[[Json], object]:
    """Validate by pydantic, as JSON: there a date is a text, for strict models too."""
    from pydantic import ValidationError

    def build(value: Json) -> object:
        try:
            try:
                text = msgspec.json.encode(value)
            except TypeError:
                # It is built already.
                return check(value)
            return read(text)
        except ValidationError as error:
            faults = [
                f"/{'/'.join(map(str, fault['loc']))}: {fault['msg']}"
                for fault in error.errors(include_url=False)
            ]
            raise ValueError("; ".join(faults)) from error

    return build


def _refers_to_itself(schema: object, name: str) -> bool:
    return bool(name) and f"#/$defs/{name}" in msgspec.json.encode(schema).decode()


def _without_fence(text: str) -> str:
    inner = text.strip()
    if inner.startswith("```") and inner.endswith("```") and "\n" in inner:
        return inner[inner.index("\n") + 1 : -3]
    return inner
