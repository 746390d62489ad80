"""Lookup: asks another tool whether a call took effect."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from upshot.contract.base.checks import Allowed, check_argument, kind_of
from upshot.contract.base.structs import Json, JsonObject
from upshot.errors import Misuse

if TYPE_CHECKING:
    from upshot.tools.definition.tool_options import Condition

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


_NAME = Allowed("the name of a tool", fits=_is_name)

CallTool: TypeAlias = Callable[[str, JsonObject], Awaitable[Json]]
"""Calls a tool by name and returns its value."""


class Lookup:
    """Asks another tool whether a call took effect: ``verify=Lookup(...)``.

    The other tool belongs to the same agent and declares ``effect="read"``. It is called without
    approval, its results are not shown to a model, and its context has no dependencies. If it
    fails, the effect stays unknown and a warning is logged.

    Attributes:
        tool: The name of that tool.
        arguments: The arguments to call it with. ``{name}`` in a text is replaced by an argument of
            the call, which keeps its type if the text is nothing else.
        found: A condition in CEL: true if the call took effect, false if it did not. It can use
            the fields of the tool's value (``result`` if that is not an object) and the arguments
            of the call, which win over fields of the same name. A text that contains JSON is
            decoded first.
    """

    __slots__ = ("arguments", "found", "tool")

    def __init__(
        self, tool: str, arguments: JsonObject | None = None, *, found: str | Condition
    ) -> None:
        """Name the tool, and the condition on its value that shows that the call took effect.

        Raises:
            Misuse: *found* cannot be parsed, the extra ``cel`` is not installed, or an argument has
                the wrong type.
        """
        check_argument("tool of a Lookup", tool, _NAME)
        if not isinstance(arguments, dict | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"arguments of a Lookup must be a mapping, got {kind_of(arguments)}")
        if isinstance(found, str):
            from upshot.tools.definition.cel import compile_condition

            found = compile_condition(found)
        self.tool: str = tool
        self.arguments: JsonObject = arguments or {}
        self.found: Condition = found

    def __repr__(self) -> str:
        return f"Lookup({self.tool!r}, {self.arguments!r}, found={self.found.text!r})"

    @property
    def reads(self) -> set[str]:
        """The arguments of the call that appear in the arguments of the lookup."""
        return set(_FIELD.findall(msgspec.json.encode(self.arguments).decode()))

    async def ask(self, given: JsonObject, call: CallTool) -> bool:
        """Return whether a call took effect.

        Args:
            given: The arguments of that call.
            call: Calls the tool.

        Raises:
            ConditionError: The condition cannot be evaluated.
            Exception: Whatever *call* raises.
        """
        value = await call(self.tool, cast("JsonObject", _fill(self.arguments, given)))
        return self.found.holds({**_condition_names(value), **given})


def _fill(value: Json, given: JsonObject) -> Json:
    """Fill arguments into ``{name}`` in *value*; if it is the whole text, the type is kept."""
    if isinstance(value, dict):
        return {name: _fill(one, given) for name, one in value.items()}
    if isinstance(value, list):
        return [_fill(one, given) for one in value]
    if not isinstance(value, str):
        return value
    if (whole := _FIELD.fullmatch(value)) is not None:
        return _argument(whole[1], given)
    return _FIELD.sub(lambda found: _in_text(found[1], given), value)


def _argument(name: str, given: JsonObject) -> Json:
    if name not in given:
        raise Misuse(f"the call has no argument {name!r}")
    return given[name]


def _in_text(name: str, given: JsonObject) -> str:
    value = _argument(name, given)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise Misuse(
        f"the argument {name!r} is {kind_of(value)}: only a text or a number can be put into a text"
    )


def _condition_names(value: Json) -> JsonObject:
    """Return the names that a condition can use, from a tool's value."""
    if isinstance(value, str):
        # A text that is not JSON, or nested too deeply, stays a text.
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(value)
    return value if isinstance(value, dict) else {"result": value}
