"""ToolCall: what a model asks to be done."""

from __future__ import annotations

from .value import JsonObject, Tagged, Value

__all__ = ["ToolCall", "ToolSpec"]


class ToolCall(Tagged, frozen=True, kw_only=False):
    """One call of a tool, as the model asked for it.

    Attributes:
        id: The provider's id of the call; the outcome names it again.
        name: The tool's name as the model wrote it.
        arguments: JSON text as it came, or a mapping.
        signature: The provider's opaque proof of the reasoning behind the call.
        provider: Whose signature it is; it is dropped for any other provider.
    """

    id: str
    name: str
    arguments: str | JsonObject = {}
    signature: str | None = None
    provider: str = ""


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool as it is offered to a model.

    Attributes:
        name: What the model calls it by.
        description: What it does, for the model.
        parameters: JSON Schema of the arguments, an object schema.
        strict: Whether the provider shall hold the model to the schema; None is its default.
    """

    name: str
    description: str = ""
    parameters: JsonObject = {}
    strict: bool | None = None
