"""What a tool runs: its body, and what the body asks for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Protocol, cast

from ..contract import JsonObject
from .annotation import copy_json
from .context import ToolContext
from .signature import Signature, is_context

__all__ = ["Body", "FunctionBody", "SchemaBody", "is_async", "takes_context"]


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
