"""The callable of a tool, of a function or of a raw schema."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.tools.definition.annotations import copy_json
from upshot.tools.definition.signature import Signature, is_context


class Body(Protocol):
    """A tool's work, apart from everything that is decided about it."""

    @property
    def description(self) -> str:
        """What it says of itself."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of its arguments, an object schema."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether it runs on the event loop, else in a thread."""
        ...

    @property
    def wants_context(self) -> bool:
        """Whether it takes a ``ToolContext`` first."""
        ...

    def build(self, arguments: JsonObject) -> dict[str, object]:
        """Make the typed values of valid arguments.

        Raises:
            BuildError: A type refuses what the schema let pass.
        """
        ...

    def start(self, values: dict[str, object], context: ToolContext[object] | None) -> object:
        """Run it, or make its coroutine; *context* may be None for one that takes none."""
        ...


class FunctionBody:
    """A Python function, whose schema is read from its signature and docstring.

    Attributes:
        function: What is called.
        signature: What it says of its parameters; read when first needed.
        is_async: Whether it is a coroutine function.
    """

    # No dataclass: making one takes longer than the rest of the module, in every start-up.
    __slots__ = ("function", "is_async", "signature")

    def __init__(self, function: Callable[..., object], signature: Signature) -> None:
        self.function: Callable[..., object] = function
        self.signature: Signature = signature
        self.is_async: bool = is_async(function)

    @property
    def description(self) -> str:
        """The text of its docstring."""
        return self.signature.description

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema made of its signature."""
        return self.signature.schema

    @property
    def wants_context(self) -> bool:
        """Whether its first parameter is annotated with ``ToolContext``."""
        return self.signature.wants_context

    def build(self, arguments: JsonObject) -> dict[str, object]:
        """Make the typed values; what is absent is left to the function's own defaults."""
        return self.signature.build(arguments)

    def start(self, values: dict[str, object], context: ToolContext[object] | None) -> object:
        """Call the function."""
        if self.signature.wants_context:
            return self.function(context, **values)
        return self.function(**values)

    def bind(self, owner: object) -> FunctionBody:
        """The body whose function is the method of *owner*."""
        method = cast("Callable[..., object]", self.function.__get__(owner))  # type: ignore[attr-defined]
        return FunctionBody(method, self.signature.bound())


class SchemaBody:
    """A callable that takes its arguments as one JSON object, described by a given schema.

    Attributes:
        call: Called with the arguments, or with a context and the arguments.
        description: What the schema's author says of it.
        parameters: JSON Schema of the arguments.
        wants_context: Whether *call* takes a ``ToolContext`` first.
        is_async: Whether *call* is a coroutine function.
    """

    __slots__ = ("call", "description", "is_async", "parameters", "wants_context")

    def __init__(
        self,
        call: Callable[..., object],
        description: str,
        parameters: JsonObject,
        *,
        wants_context: bool,
        is_async: bool,
    ) -> None:
        self.call: Callable[..., object] = call
        self.description: str = description
        self.parameters: JsonObject = parameters
        self.wants_context: bool = wants_context
        self.is_async: bool = is_async

    def build(self, arguments: JsonObject) -> dict[str, object]:
        """The arguments as they are, as a copy that the callable may change."""
        return cast("dict[str, object]", copy_json(arguments))

    def start(self, values: dict[str, object], context: ToolContext[object] | None) -> object:
        """Call it."""
        return self.call(context, values) if self.wants_context else self.call(values)


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling *function* gives a coroutine; sees through partials and ``__call__``."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    call = getattr(type(function), "__call__", None)  # noqa: B004  # the method itself is looked at
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
    """The body of a tool that is described by a schema.

    Args:
        name: The tool's name, for messages.
        description: What it does.
        parameters: JSON Schema of an object; copied, so that later changes do not reach it.
        call: Takes the arguments as one dict, with a ``ToolContext`` before them if it is
            annotated so.

    Raises:
        Misuse: One of them cannot be used.
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
    """A schema from outside, or that of any object where it cannot be used.

    Args:
        name: The tool's name.
        parameters: JSON Schema of an object, if it is one.
    """
    try:
        return _read_schema(name, parameters)
    except Misuse:
        # Its author reads the arguments anyway; one bad tool must not cost all others,
        # and a provider would refuse the whole request.
        return {"type": "object"}


def _read_schema(name: str, parameters: object) -> JsonObject:
    if not isinstance(parameters, Mapping):
        raise Misuse(
            f"the schema of tool {name!r} is {parameters!r:.100}: give a JSON Schema of an object, "
            '{"type": "object"} where nothing is known'
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
        # Arguments are always an object, and providers take no list here.
        schema["type"] = kind = "object"
    if kind != "object":
        raise Misuse(f"the schema of tool {name!r} has to describe an object, not {kind!r:.100}")
    if not _is_plain(schema):
        from upshot.tools.arguments.argument_check import ArgumentCheck

        # What is wrong in it is best told where it is written, and not in a call.
        ArgumentCheck(name, schema).validator  # noqa: B018
    return schema


def _read_call(name: str, call: object) -> Callable[..., object]:
    if not callable(call):
        raise Misuse(f"tool {name!r}: call is {call!r:.100}; give a function of the arguments")
    if inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
        raise Misuse(f"tool {name!r} is a generator: return one value, such as a list")
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        # Some builtins have none to look at.
        return call
    try:
        signature.bind(*[None] * (2 if takes_context(call) else 1))
    except TypeError as error:
        raise Misuse(
            f"tool {name!r}: call takes {signature}; it is given one dict of arguments, with a "
            "first parameter annotated ToolContext that before them"
        ) from error
    return call


def _is_plain(schema: Json) -> bool:
    """Whether *schema* is right for sure; others are read by a library that is slow to load."""
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
