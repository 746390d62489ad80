"""The callable of a tool: a function with its signature, or a callable with a given schema."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, get_args, get_origin

from upshot.contract.base.checks import check_no_generator
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.tools.definition.annotations import (
    Builder,
    BuildError,
    copy_json,
    is_field_info,
    read_annotations,
    with_field_info,
)

# A docstring without any of these is plain text, so griffe need not be loaded.
_SECTIONS = re.compile(
    r"^\s*(:param|:return|:raise|\w[\w ]*:\s*$|-{3,}\s*$)", re.MULTILINE | re.IGNORECASE
)
_OPTIONS = {"warnings": False}


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Read a docstring in Google, NumPy or Sphinx style.

    Returns:
        The text before the first section, and the description of each parameter. Sections
        about results and errors are for readers of the code and are dropped. Never raises.
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


class FunctionBody:
    """A Python function whose schema is read from its signature and docstring.

    What can never work is refused at definition. The rest is read at first use, so a tool that is
    never offered costs next to nothing.

    Attributes:
        function: The function that is called.
        is_async: Whether it is a coroutine function.
        is_method: Whether it is a method without its ``self``.
        wants_context: Whether the first parameter is a ``ToolContext``.
    """

    def __init__(self, function: Callable[..., object], name: str) -> None:
        """Read the parameters.

        Args:
            function: A function, plain or async, or any callable.
            name: The tool's name, for messages.

        Raises:
            Misuse: A parameter cannot be passed by name, or has no JSON Schema.
        """
        self.function: Callable[..., object] = function
        self.is_async: bool = is_async(function)
        self._name = name
        parameters = _parameters_of(function, name)
        self.is_method: bool = _is_method(function, parameters)
        if self.is_method:
            del parameters[0]
        self.wants_context: bool = bool(parameters) and is_context(parameters[0])
        if self.wants_context:
            del parameters[0]
        _check_names(parameters, name)
        # Types are read now, so that a mistake is reported where it was made. The docstring needs
        # a parser, so it is read only when the tool is described to a model.
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._check_types()

    @functools.cached_property
    def description(self) -> str:
        """The text of the docstring before its sections; "" without a docstring."""
        return self._docstring[0]

    @functools.cached_property
    def parameters(self) -> JsonObject:
        """An object schema of all parameters that allows no other names.

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
        """Turn *arguments*, which match the schema, into typed values.

        Absent ones are left to the function's own defaults.

        Raises:
            BuildError: A type refuses its value. The message lists every refusal with its path.
        """
        builders = self._types[2]
        values: dict[str, object] = {}
        faults: list[str] = []
        for name, value in arguments.items():
            build = builders.get(name)
            try:
                values[name] = value if build is None else build(value)
            except BuildError as error:
                faults.append(f"/{name}: {error}")
        if faults:
            raise BuildError("; ".join(faults))
        for name, make in self._field_defaults.items():
            if name not in values:
                values[name] = make()
        return values

    def start(self, values: dict[str, object], context: ToolContext[object] | None) -> object:
        """Call the function."""
        if self.wants_context:
            return self.function(context, **values)
        return self.function(**values)

    def bind(self, owner: object) -> FunctionBody:
        """Return the body with the function bound to *owner*."""
        method = cast("Callable[..., object]", self.function.__get__(owner))  # type: ignore[attr-defined]
        bound = object.__new__(FunctionBody)
        # Everything that was read from the function holds for the method too.
        bound.__dict__.update(self.__dict__, function=method, is_method=False)
        return bound

    def _check_types(self) -> None:
        try:
            _ = self._types
        except Misuse as problem:
            # The name may be defined further down in the file; it is looked up again at first use.
            if not isinstance(problem.__cause__, NameError):
                raise

    @functools.cached_property
    def _docstring(self) -> tuple[str, dict[str, str]]:
        function = _innermost(self.function)
        return parse_docstring(getattr(function, "__doc__", None))

    @functools.cached_property
    def _types(self) -> _Types:
        try:
            hints = typing.get_type_hints(_annotated_function(self.function), include_extras=True)
        except NameError as error:
            raise Misuse(
                f"tool {self._name!r} is annotated with {error.name!r}, which is not defined: "
                "define or import it at the top of the module"
            ) from error
        except Exception as error:  # annotations in text are the caller's code, run here
            raise Misuse(
                f"tool {self._name!r} has an annotation that cannot be read: {_one_line(error)}"
            ) from error
        kinds = {
            name: with_field_info(hints.get(name, Any), parameter.default)
            for name, parameter in self._parameters.items()
        }
        try:
            return *read_annotations(kinds), kinds
        except (TypeError, NotImplementedError) as error:
            raise Misuse(
                f"tool {self._name!r}: {_find_culprit(kinds)} has no JSON Schema: "
                f"{_one_line(error)}; use plain types, dataclasses, msgspec structs or "
                "pydantic models"
            ) from error

    @functools.cached_property
    def _field_defaults(self) -> dict[str, Callable[[], object]]:
        """Defaults that come from pydantic's ``Field(...)``, as functions that make them."""
        return {
            name: functools.partial(one.default.get_default, call_default_factory=True)
            for name, one in self._parameters.items()
            if is_field_info(one.default) and not _is_required(one)
        }


def _find_culprit(kinds: dict[str, object]) -> str:
    """Return which parameter cannot be read, for a message."""
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


def _annotated_function(function: Callable[..., object]) -> Callable[..., object]:
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
        # Read as text, because the name may be imported only under TYPE_CHECKING.
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
            raise Misuse(f"tool {name!r}: the ToolContext must be the first parameter")


def _is_required(parameter: inspect.Parameter) -> bool:
    if is_field_info(parameter.default):
        return bool(parameter.default.is_required())
    return parameter.default is _EMPTY


def _text_in(annotation: object) -> str:
    """Return the first plain text in an ``Annotated``, a common place for descriptions."""
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
    # ``x: int = None`` is common, but null is not a valid value there: no default is shown.
    if not lossy and (value is not None or _allows_null(schema)):
        described["default"] = value
    return described


def _allows_null(schema: JsonObject) -> bool:
    branches = schema.get("anyOf")
    if isinstance(branches, list):
        return {"type": "null"} in branches
    return not schema or schema.get("type") == "null"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[-200:]


@dataclass(frozen=True, slots=True)
class SchemaBody:
    """A callable that takes its arguments as one JSON object, with a given schema.

    Attributes:
        function: Called with the arguments, or with a context and the arguments.
        description: The description that came with the schema.
        parameters: JSON Schema of the arguments.
        wants_context: Whether a ``ToolContext`` is passed first.
        is_async: Whether it is a coroutine function.
    """

    function: Callable[..., object]
    description: str
    parameters: JsonObject
    wants_context: bool
    is_async: bool

    def build(self, arguments: JsonObject) -> dict[str, object]:
        """Return a copy of the arguments, which the callable may change."""
        return cast("dict[str, object]", copy_json(arguments))

    def start(self, values: dict[str, object], context: ToolContext[object] | None) -> object:
        """Call the function."""
        return self.function(context, values) if self.wants_context else self.function(values)


Body: TypeAlias = FunctionBody | SchemaBody
"""The callable of a tool with its schema, apart from all options."""


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling *function* returns a coroutine; looks into partials and ``__call__``."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    call = getattr(type(function), "__call__", None)  # noqa: B004  # the method itself is needed
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def takes_context(function: Callable[..., object]) -> bool:
    """Whether the first parameter of *function* is annotated with ``ToolContext``."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(is_context(parameter) for parameter in list(parameters)[:1])


_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS = ("minimum", "maximum")


def read_body(name: str, description: object, parameters: object, call: object) -> SchemaBody:
    """Make the body of a tool that is described by a schema.

    Args:
        name: The tool's name, for messages.
        description: The description for the model.
        parameters: JSON Schema of an object; copied, so later changes do not affect it.
        call: Takes the arguments as one dict, after a ``ToolContext`` if its first parameter
            is annotated so.

    Raises:
        Misuse: One of them is unusable.
    """
    if not isinstance(description, str):
        raise Misuse(f"tool {name!r}: description is {description!r:.100}; give a text")
    schema = _read_schema(name, parameters)
    function = _read_call(name, call)
    return SchemaBody(
        function,
        description,
        schema,
        wants_context=takes_context(function),
        is_async=is_async(function),
    )


def usable_schema(name: str, parameters: object) -> JsonObject:
    """Return a schema from outside, or the schema of any object if it is unusable.

    Args:
        name: The tool's name.
        parameters: Should be the JSON Schema of an object.
    """
    try:
        return _read_schema(name, parameters)
    except Misuse:
        # The author of the schema checks the arguments anyway. One bad tool must not cost all the
        # others, and a provider would refuse the whole request.
        return {"type": "object"}


def _read_schema(name: str, parameters: object) -> JsonObject:
    if not isinstance(parameters, Mapping):
        raise Misuse(
            f"the schema of tool {name!r} is {parameters!r:.100}: give a JSON Schema of an object, "
            '{"type": "object"} if nothing is known'
        )
    try:
        copy, lossy = to_free_json(cast("object", parameters))
    except UnserializableError as error:
        raise Misuse(f"the schema of tool {name!r} is not JSON: {error}") from error
    if lossy:
        raise Misuse(f"the schema of tool {name!r} is not JSON at {lossy[0]}")
    schema = cast("JsonObject", copy)
    kind = schema.get("type", "object")
    if isinstance(kind, list) and "object" in kind:
        # Arguments are always an object, and providers accept no list here.
        schema["type"] = kind = "object"
    if kind != "object":
        raise Misuse(f"the schema of tool {name!r} must describe an object, not {kind!r:.100}")
    if not _is_plain(schema):
        from upshot.tools.arguments.argument_check import ArgumentCheck

        # A fault in the schema is best reported here, not at the first call.
        ArgumentCheck(name, schema).validator  # noqa: B018
    return schema


def _read_call(name: str, call: object) -> Callable[..., object]:
    if not callable(call):
        raise Misuse(f"tool {name!r}: call is {call!r:.100}; give a function of the arguments")
    check_no_generator(call, name)
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        # Some builtins have no signature.
        return call
    try:
        signature.bind(*[None] * (2 if takes_context(call) else 1))
    except TypeError as error:
        raise Misuse(
            f"tool {name!r}: call takes {signature}; it must accept one dict of arguments, after a "
            "ToolContext if its first parameter is annotated so"
        ) from error
    return call


def _is_plain(schema: Json) -> bool:
    """Whether *schema* is certainly valid; others go to a library that is slow to load."""
    if not isinstance(schema, dict):
        return False
    return all(_is_plain_word(word, value) for word, value in schema.items())


def _is_plain_word(word: str, value: Json) -> bool:
    match word:
        case "type":
            return isinstance(value, str) and value in _TYPES
        case "title" | "description":
            return isinstance(value, str)
        case "default":
            return True
        case "enum":
            return isinstance(value, list) and bool(value)
        case "required":
            return _are_names(value)
        case "properties":
            return isinstance(value, dict) and all(map(_is_plain, value.values()))
        case "items":
            return _is_plain(value)
        case "additionalProperties":
            return isinstance(value, bool) or _is_plain(value)
        case _:
            return _is_plain_number(word, value)


def _are_names(value: Json) -> bool:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return False
    return len(set(cast("list[str]", value))) == len(value)


def _is_plain_number(word: str, value: Json) -> bool:
    if isinstance(value, bool):
        return False
    if word in _SIZES:
        return isinstance(value, int) and value >= 0
    return word in _BOUNDS and isinstance(value, int | float)
