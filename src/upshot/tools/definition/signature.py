"""Signature and docstring of a function as JSON Schema."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, TypeAlias, cast, get_args, get_origin

from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.tools.definition.annotations import (
    Builder,
    BuildError,
    is_field_info,
    read_annotations,
    with_field_info,
)

# Without one of these there is nothing but text, and griffe need not be loaded.
_SECTIONS = re.compile(
    r"^\s*(:param|:return|:raise|\w[\w ]*:\s*$|-{3,}\s*$)", re.MULTILINE | re.IGNORECASE
)
_OPTIONS = {"warnings": False}


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Read a docstring in Google, NumPy or Sphinx style.

    Returns:
        The text before the first section, and the description of each parameter. Sections
        on results and errors are for readers of the code and are left out. Never raises.
    """
    if not text:
        return "", {}
    text = inspect.cleandoc(text)
    if not _SECTIONS.search(text):
        return text, {}
    import griffe

    sections = griffe.parse_auto(
        griffe.Docstring(text),
        per_style_options={"google": _OPTIONS, "numpy": _OPTIONS, "sphinx": _OPTIONS},  # pyright: ignore[reportArgumentType]  # its types ask for every option of a style
    )
    kinds = griffe.DocstringSectionKind
    texts: list[str] = []
    described: dict[str, str] = {}
    for section in sections:
        if section.kind is kinds.text and not described:
            texts.append(str(section.value))
        elif section.kind in (kinds.parameters, kinds.other_parameters):
            for item in section.value:
                described[item.name.lstrip("*")] = " ".join(item.description.split())
    return "\n\n".join(texts).strip(), described


_EMPTY = inspect.Parameter.empty
_CONTEXT_TEXT = re.compile(r"(^|\.)ToolContext(\[|$)")
_UNNAMED = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
    inspect.Parameter.POSITIONAL_ONLY: "{} by position only",
}
_Types: TypeAlias = tuple[dict[str, JsonObject], JsonObject, dict[str, Builder], dict[str, object]]


class Signature:
    """A function's parameters as a model sees them.

    Made at definition time, when what can never work is refused. The rest is read when it is
    first needed, so that a tool that is never offered costs next to nothing.

    Attributes:
        name: The tool's name, for messages.
        is_method: Whether the function still waits for its ``self``.
        wants_context: Whether the first parameter is a ``ToolContext``.

    Raises:
        Misuse: A parameter has no name that JSON could give, or no JSON Schema.
    """

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self.name = name
        self._function = function
        parameters = _parameters_of(function, name)
        self.is_method: bool = _is_method(function, parameters)
        if self.is_method:
            del parameters[0]
        self.wants_context: bool = bool(parameters) and is_context(parameters[0])
        if self.wants_context:
            del parameters[0]
        _check_names(parameters, name)
        # Types are read now, for a mistake is best told where it is; the docstring, which
        # needs a parser, waits until a model is told about the tool.
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._check_types()

    def bound(self) -> Signature:
        """The same parameters, of a method that has its ``self``."""
        other = object.__new__(Signature)
        # What was read of one is right for the other.
        other.__dict__.update(self.__dict__, is_method=False)
        return other

    @functools.cached_property
    def description(self) -> str:
        """The docstring's text before its sections, "" without a docstring."""
        return self._docstring[0]

    @functools.cached_property
    def schema(self) -> JsonObject:
        """An object schema of all parameters, closed to other names.

        Raises:
            Misuse: An annotation cannot be resolved, or has no JSON form.
        """
        schemas, definitions, _, hints = self._types
        properties: JsonObject = {}
        required: list[Json] = []
        for name, parameter in self._parameters.items():
            text = self._docstring[1].get(name) or _text_in(hints[name])
            properties[name] = _describe(schemas[name], text, parameter.default)
            if _is_required(parameter):
                required.append(name)
        whole: JsonObject = {"type": "object", "properties": properties}
        if required:
            whole["required"] = required
        whole["additionalProperties"] = False
        if definitions:
            whole["$defs"] = definitions
        return whole

    def build(self, arguments: JsonObject) -> dict[str, object]:
        """Make typed values of *arguments*, which fit the schema.

        Raises:
            BuildError: A type refuses its value; every refusal is named with its path.
        """
        builders = self._types[2]
        values: dict[str, object] = {}
        faults: list[str] = []
        for name, value in arguments.items():
            try:
                values[name] = builders[name](value)
            except BuildError as error:
                faults.append(f"/{name}: {error}")
        if faults:
            raise BuildError("; ".join(faults))
        for name, make in self._made_defaults.items():
            if name not in values:
                values[name] = make()
        return values

    def _check_types(self) -> None:
        try:
            _ = self._types
        except Misuse as problem:
            # A name may be defined further down in the file; it is looked up again at first use.
            if not isinstance(problem.__cause__, NameError):
                raise

    @functools.cached_property
    def _docstring(self) -> tuple[str, dict[str, str]]:
        function = _innermost(self._function)
        return parse_docstring(getattr(function, "__doc__", None))

    @functools.cached_property
    def _types(self) -> _Types:
        try:
            hints = typing.get_type_hints(_annotated(self._function), include_extras=True)
        except NameError as error:
            raise Misuse(
                f"tool {self.name!r} is annotated with {error.name!r}, which cannot be found: "
                "define it where the module can see it"
            ) from error
        except Exception as error:  # annotations in text are the caller's code, run here
            raise Misuse(
                f"tool {self.name!r} has an annotation that cannot be read: {_one_line(error)}"
            ) from error
        kinds = {
            name: with_field_info(hints.get(name, Any), parameter.default)
            for name, parameter in self._parameters.items()
        }
        try:
            return *read_annotations(kinds), kinds
        except (TypeError, NotImplementedError) as error:
            raise Misuse(
                f"tool {self.name!r}: {_culprit(kinds)} has no JSON Schema: {_one_line(error)}; "
                "use plain types, dataclasses, msgspec structs or pydantic models"
            ) from error

    @functools.cached_property
    def _made_defaults(self) -> dict[str, Callable[[], object]]:
        """Defaults that pydantic's ``Field(...)`` stands for."""
        return {
            name: functools.partial(one.default.get_default, call_default_factory=True)
            for name, one in self._parameters.items()
            if is_field_info(one.default) and not _is_required(one)
        }


def _culprit(kinds: dict[str, object]) -> str:
    """Which parameter cannot be read."""
    for name, kind in kinds.items():
        try:
            read_annotations({name: kind})
        except (TypeError, NotImplementedError):
            return f"the parameter {name!r}"
    return "what the parameters have in common"


def _innermost(function: Callable[..., object]) -> Callable[..., object]:
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    return function


def _annotated(function: Callable[..., object]) -> Callable[..., object]:
    function = _innermost(function)
    if inspect.isfunction(function) or inspect.ismethod(function):
        return function
    return cast("Callable[..., object]", type(function).__call__)


def _parameters_of(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise Misuse(
            f"tool {name!r} has no signature to read: wrap it in a function, or use "
            "Tool.from_schema"
        ) from error


def _is_method(function: Callable[..., object], parameters: list[inspect.Parameter]) -> bool:
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    in_class = bool(owner) and not owner.endswith("<locals>") and inspect.isfunction(function)
    return in_class and bool(parameters) and parameters[0].name in ("self", "cls")


def is_context(parameter: inspect.Parameter) -> bool:
    """Whether *parameter* is annotated with ``ToolContext``."""
    kind = parameter.annotation
    if isinstance(kind, str):
        # Read as text, for the name may stand behind TYPE_CHECKING only.
        return _CONTEXT_TEXT.search(kind) is not None
    return kind is ToolContext or get_origin(kind) is ToolContext


def _check_names(parameters: list[inspect.Parameter], name: str) -> None:
    for parameter in parameters:
        if parameter.kind in _UNNAMED:
            shape = _UNNAMED[parameter.kind].format(parameter.name)
            raise Misuse(
                f"tool {name!r} takes {shape}, which a model cannot give: name every parameter, "
                "or use Tool.from_schema"
            )
        if is_context(parameter):
            raise Misuse(f"tool {name!r}: the ToolContext has to be the first parameter")


def _is_required(parameter: inspect.Parameter) -> bool:
    if is_field_info(parameter.default):
        return bool(parameter.default.is_required())
    return parameter.default is _EMPTY


def _text_in(annotation: object) -> str:
    """The first plain text in an ``Annotated``, where many put descriptions."""
    extras = get_args(annotation)[1:] if hasattr(annotation, "__metadata__") else ()
    return next((item for item in extras if isinstance(item, str)), "")


def _describe(schema: JsonObject, text: str, default: object) -> JsonObject:
    described = dict(schema)
    if text and "description" not in described:
        described["description"] = text
    if default is _EMPTY or is_field_info(default):
        return described
    try:
        value, lossy = to_free_json(default)
    except UnserializableError:
        return described
    # ``x: int = None`` is common; null is no value of such a parameter, it is left out.
    if not lossy and (value is not None or _takes_null(schema)):
        described["default"] = value
    return described


def _takes_null(schema: JsonObject) -> bool:
    branches = schema.get("anyOf")
    if isinstance(branches, list):
        return {"type": "null"} in branches
    return not schema or schema.get("type") == "null"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[-200:]
