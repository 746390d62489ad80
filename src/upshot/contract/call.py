"""ToolCall: what a model asks to be done."""

from __future__ import annotations

import math
from typing import cast

import msgspec

from ..errors import Misuse
from .free_json import UnserializableError, clean_text, to_free_json
from .value import Json, JsonObject, Tagged, Value, check_types, set_field

__all__ = ["ToolCall", "ToolSpec"]


class ToolCall(Tagged, frozen=True, kw_only=False):
    """One call of a tool, as the model asked for it.

    Raises:
        Misuse: The arguments hold what is no JSON at all, or another field is no text.

    Attributes:
        id: The provider's id of the call; the outcome names it again.
        name: The tool's name as the model wrote it.
        arguments: JSON text as it came, or a mapping. None counts as no arguments; other JSON,
            and what JSON has no number for, is kept as text, which the tool's gate refuses.
        signature: The provider's opaque proof of the reasoning behind the call.
        provider: Whose signature it is; it is dropped for any other provider.
    """

    id: str
    name: str
    arguments: str | JsonObject = {}
    signature: str | None = None
    provider: str = ""

    def __post_init__(self) -> None:
        check_types(self, "id", "name", "signature", "provider")
        for field in ("id", "name"):
            text: str = getattr(self, field)
            if not text.isascii():
                set_field(self, field, clean_text(text))
        if self.arguments != {}:
            set_field(self, "arguments", _settled(self.arguments))
        elif type(self.arguments) is not dict:
            set_field(self, "arguments", {})


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


def _settled(arguments: object) -> str | JsonObject:
    """*arguments* as JSON text or an object; a model may send anything, and that is a value."""
    if arguments is None:
        return {}
    if isinstance(arguments, bytes | bytearray):
        arguments = arguments.decode("utf-8", "replace")
    if isinstance(arguments, str):
        return clean_text(arguments)
    try:
        plain, lossy = to_free_json(arguments)
    except UnserializableError as error:
        return _too_deep(arguments, error)
    root: list[Json] = [plain]
    # Null would count as absent, and a default run in place of what was meant.
    restored = [_restore(root, path) for path in lossy]
    if isinstance(plain, dict) and not any(restored):
        return plain
    # Loaded here, for hardly any call comes by.
    import json

    return json.dumps(root[0], ensure_ascii=False, separators=(",", ":"))


def _too_deep(arguments: object, error: UnserializableError) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, RecursionError):
        raise Misuse(f"ToolCall(arguments=): {error}") from error


def _restore(root: list[Json], path: str) -> bool:
    """Put NaN where a number became null; returns whether it did."""
    text = path if path != "/" or isinstance(root[0], dict) else ""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")]
    holder: Json = root
    # The text before the first slash is empty, and stands for the root.
    for place, step in enumerate(["0", *steps[1:]]):
        if isinstance(holder, list):
            key, known = int(step), True
        else:
            key, known = step, isinstance(holder, dict) and step in holder
        if not known:
            # It was the key that could not be kept.
            return False
        held = cast("dict[str | int, Json]", holder)
        if place == len(steps) - 1 and held[key] is None:
            held[key] = math.nan
            return True
        holder = held[key]
    return False
