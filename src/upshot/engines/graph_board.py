"""Copies of a board on which nodes work, and what they changed, as one mergeable value."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, TypeAlias, cast

import msgspec

from ..contract import (
    MAIN_CHANNEL,
    Conversation,
    Json,
    JsonObject,
    Message,
    decode,
)
from ..runs import Board

__all__ = ["BoardCopy", "Change", "apply", "read_change"]

Added: TypeAlias = tuple[str, tuple[Message, ...]]


class Change(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one node changed on its copy of the board. Two are the same only if identical.

    Attributes:
        node: Which one.
        messages: What it appended, by channel, in order.
        variables: What it set, as JSON.
    """

    node: str
    messages: tuple[Added, ...] = ()
    variables: JsonObject = {}


class BoardCopy(Board):
    """A board of one's own that shares all it was copied from until it is written to."""

    def __init__(self, base: Board) -> None:
        super().__init__()
        self._channels = dict(base._channels)
        self._variables = dict(base._variables)
        self._seeded = base._seeded
        self._own_channels: set[str] = set()
        self._own_values: set[str] = set()
        self._added: list[Added] = []
        self._set: JsonObject = {}

    def extend(self, messages: Iterable[Message], channel: str = MAIN_CHANNEL) -> None:
        """Add *messages* at the end of *channel*."""
        added = tuple(messages)
        if channel not in self._own_channels:
            self._own_channels.add(channel)
            self._channels[channel] = Conversation(self._conversation(channel))
        super().extend(added, channel)
        if added:
            self._added.append((channel, added))

    def get(self, name: str, default: Json = None) -> Json:
        """The variable *name*; a list or mapping is a copy, which others do not see change."""
        value = self._variables.get(name, default)
        if isinstance(value, list | dict) and name in self._variables:
            if name not in self._own_values:
                value = self._variables[name] = deepcopy(value)
                self._own_values.add(name)
            return value
        return value

    def set(self, name: str, value: Json) -> None:
        """Set the variable *name* to a JSON value."""
        super().set(name, value)
        self._own_values.add(name)
        self._set[name] = value

    def lend(self, name: str, value: Json) -> None:
        """Set the variable *name* without it being a change."""
        self._variables[name] = value

    def variables(self) -> JsonObject:
        """All variables, a copy."""
        return {name: self.get(name) for name in self._variables}

    def changes(self) -> dict[str, object]:
        """What was changed, as the value of a step; the host makes it JSON."""
        form: dict[str, object] = {}
        if self._set:
            form["set"] = self._set
        if self._added:
            form["add"] = self._added
        return form

    def settle(self, node: str, form: JsonObject) -> Change:
        """Take the variables as the log has them, so that it is as if it had been read from it.

        Args:
            node: Who changed it.
            form: What ``changes`` gave here, made JSON.
        """
        variables = cast("JsonObject", form.get("set", {}))
        self._variables.update(variables)
        return Change(node=node, messages=tuple(self._added), variables=variables)


def read_change(node: str, form: JsonObject) -> Change:
    """What the log says that *node* changed."""
    added = cast("list[tuple[str, Any]]", form.get("add", ()))
    return Change(
        node=node,
        messages=tuple(
            (channel, tuple(decode(msgspec.json.encode(message), Message) for message in messages))
            for channel, messages in added
        ),
        variables=cast("JsonObject", form.get("set", {})),
    )


def apply(change: Change, board: Board) -> None:
    """Make *change* on *board*."""
    for channel, messages in change.messages:
        board.extend(messages, channel)
    for name, value in change.variables.items():
        board.set(name, value)
