"""Copies of a board on which nodes work, and what they changed, as one mergeable value."""

from __future__ import annotations

from collections.abc import Iterable
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
    """A board of one's own that shares all it was copied from until it is written to.

    Args:
        base: What it is a copy of.
        run: The run's own board, which warns of what JSON cannot hold; None where *base* knows it.

    Attributes:
        asked: What an agent is asked that works on it next; "" is the last message.
    """

    def __init__(self, base: Board, *, run: Board | None = None) -> None:
        super().__init__()
        base.notice()
        self._channels = dict(base._channels)
        self._variables = dict(base._variables)
        self._seeded = base._seeded
        self._on_loss = (run or base)._on_loss
        # What agents inside of a ForEach are asked, until somebody has said something.
        self.asked: str = getattr(base, "asked", "")
        self._own_channels: set[str] = set()
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
            if channel == MAIN_CHANNEL:
                self.asked = ""

    def lend(self, name: str, value: Json) -> None:
        """Set the variable *name* without it being a change."""
        self._lent.pop(name, None)
        self._variables[name] = value

    def changes(self) -> dict[str, object]:
        """What was changed, as the value of a step; the host makes it JSON."""
        self.notice()
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
        for name, value in variables.items():
            self.lend(name, value)
        return Change(node=node, messages=tuple(self._added), variables=variables)

    def _write(self, name: str, value: Json) -> None:
        super()._write(name, value)
        self._set[name] = value


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
