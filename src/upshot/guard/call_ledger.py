"""Which call of a run's log a framework means that makes a call anew.

Each call has an entry among the variables of the run's board, from before its tool starts: the
digest of what is asked, and the ids under which the framework has asked for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol, cast

import msgspec

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_calls import ToolCall
from upshot.runs.resumption import read_arguments
from upshot.tools.export import Conversation

_PREFIX = "call "


class Entry(msgspec.Struct):
    """A call of the run.

    Attributes:
        id: Its id in the log, unique in the run.
        tool: The tool.
        asks: Digests of the tool and arguments that were asked for; a second one is of arguments
            that a person has changed.
        ids: The framework's ids of it.
        turn: After how many words of the user it was first asked for.
    """

    id: str
    tool: str
    asks: list[str]
    ids: list[str]
    turn: int = 0


class Variables(Protocol):
    """What is needed of a board."""

    def variables(self) -> JsonObject:
        """All variables, by name."""
        ...

    def set(self, name: str, value: Json) -> None:
        """Set a variable."""
        ...


class CallLedger:
    """The calls of a run, in the order in which they were first asked for.

    Args:
        board: Of the run.
    """

    def __init__(self, board: Variables) -> None:
        self._board = board
        found = [
            (int(name.removeprefix(_PREFIX)), msgspec.convert(value, Entry))
            for name, value in board.variables().items()
            if name.startswith(_PREFIX)
        ]
        self._entries: list[Entry] = [entry for _, entry in sorted(found, key=lambda one: one[0])]

    def find(self, call: ToolCall, conversation: Conversation, *, writes: bool) -> Entry | None:
        """The entry of a call that was asked for before, None for a new one.

        Args:
            call: As the framework makes it now.
            conversation: What the framework has of the conversation.
            writes: Whether its tool may write. A read under another id is made anew.
        """
        asked, replies = digest_of(call), conversation.replies
        same = [one for one in self._entries if call.id in one.ids and asked in one.asks]
        if same:
            # Some models use one id again and again; what stands in earlier replies is not this.
            before = _count(call, asked, replies[:-1]) if replies else 0
            return same[before] if before < len(same) else None
        if not writes or replies is None:
            return None
        known = {one.id for reply in replies for one in reply}
        if call.id not in known:
            return None
        # The framework went on from a point before a call, so that its model has asked for it
        # again: the messages have a new id, and not the old one.
        lost = (one for one in self._entries if asked in one.asks and known.isdisjoint(one.ids))
        return next(lost, None)

    def find_waiting(self, call: ToolCall, waiting: Iterable[str]) -> Entry | None:
        """The entry of a call of this id that waits for a person, whatever its arguments."""
        ids = set(waiting)
        named = (one for one in self._entries if call.id in one.ids and one.tool == call.name)
        return next((one for one in named if one.id in ids), None)

    def enter(self, call: ToolCall, turn: int) -> Entry:
        """Make the entry of a new call."""
        taken = {one.id for one in self._entries}
        id, number = call.id, 1
        while id in taken:
            number += 1
            id = f"{call.id}~{number}"
        entry = Entry(id, call.name, [digest_of(call)], [call.id], turn)
        self._entries.append(entry)
        self._write(entry)
        return entry

    def note(self, entry: Entry, call: ToolCall) -> None:
        """Note under which id and with which arguments a call is asked for now."""
        asked = digest_of(call)
        if call.id in entry.ids and asked in entry.asks:
            return
        entry.ids = list(dict.fromkeys((*entry.ids, call.id)))
        entry.asks = list(dict.fromkeys((*entry.asks, asked)))
        self._write(entry)

    def _write(self, entry: Entry) -> None:
        self._board.set(
            f"{_PREFIX}{self._entries.index(entry) + 1}",
            cast("Json", msgspec.to_builtins(entry)),
        )


def digest_of(call: ToolCall) -> str:
    """Identifies what a call asks for: the tool and the arguments, in whichever order."""
    said = [call.name, read_arguments(call.arguments)]
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()


def _count(call: ToolCall, asked: str, replies: Iterable[tuple[ToolCall, ...]]) -> int:
    return sum(one.id == call.id and digest_of(one) == asked for reply in replies for one in reply)
