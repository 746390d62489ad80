"""Copies of the board for branches, and merging them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.agent_spec import HANDOFF_STATE_KEY
from upshot.contract.base.enums import ErrorCode
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import decode
from upshot.contract.message import MAIN_CHANNEL, Message, MessageList
from upshot.errors import Misuse
from upshot.runs.engine_api.exceptions import Failed
from upshot.state.board import Board, Channels

Added: TypeAlias = tuple[str, tuple[Message, ...]]


class Change(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one node changed on its copy of the board. Compared by identity.

    Attributes:
        node: The node.
        messages: What it appended, by channel, in order.
        variables: What it set, as JSON.
    """

    node: str
    messages: tuple[Added, ...] = ()
    variables: JsonObject = {}


class BoardCopy(Board):
    """A copy of a board that shares everything with it until it is written to.

    Args:
        base: The board to copy.
        run: The run's own board, which warns of values that JSON cannot represent; None if *base*
            does that.

    Attributes:
        asked: The request for the next agent that works on it; "" means the last message.
    """

    def __init__(self, base: Board, *, run: Board | None = None) -> None:
        super().__init__()
        base.notice()
        self._channels = Channels(base._channels)
        self._variables = dict(base._variables)
        self._seeded = base._seeded
        self._on_loss = (run or base)._on_loss
        # The request for agents inside a ForEach, until a message is added.
        self.asked: str = getattr(base, "asked", "")
        self._own_channels: set[str] = set()
        self._added: list[Added] = []
        self._set: JsonObject = {}

    def extend(self, messages: Iterable[Message], channel: str = MAIN_CHANNEL) -> None:
        """Add *messages* at the end of *channel*."""
        added = tuple(messages)
        if isinstance(channel, str) and channel not in self._own_channels:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            self._own_channels.add(channel)
            # Copied at the first write, because the base and the other branches still use theirs.
            self._channels[channel] = MessageList(self._channels[channel])
        super().extend(added, channel)
        if added:
            self._added.append((channel, added))
            if channel == MAIN_CHANNEL:
                self.asked = ""

    def lend(self, name: str, value: Json) -> None:
        """Set the variable *name* without counting it as a change."""
        self._lent.pop(name, None)
        self._variables[name] = value

    def changes(self) -> dict[str, object]:
        """Return what was changed, as the value of a step; the host converts it to JSON."""
        self.notice()
        form: dict[str, object] = {}
        if self._set:
            form["set"] = self._set
        if self._added:
            form["add"] = self._added
        return form

    def settle(self, node: str, form: JsonObject) -> Change:
        """Set the variables to their logged values, so that this copy equals one read from the log.

        Args:
            node: The node that changed it.
            form: The value of ``changes``, as JSON.
        """
        variables: Any = form.get("set", {})
        # Lent, because the step's value has the change already; set would add a second one.
        for name, value in variables.items():
            self.lend(name, value)
        return Change(node=node, messages=tuple(self._added), variables=variables)

    def _write(self, name: str, value: Json) -> None:
        super()._write(name, value)
        self._set[name] = value


def read_change(node: str, form: JsonObject) -> Change:
    """Return the logged changes of *node*."""
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


Merge: TypeAlias = Callable[[list[Any]], Any] | str


class Branch(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One branch of a walk through a graph.

    Attributes:
        board: What its next node sees; it is not written to.
        story: The changes that led to it since the board that all branches came from. Each comes
            after the changes that its node saw.
    """

    board: Board
    story: tuple[Change, ...] = ()

    def after(self, change: Change, board: Board | None = None) -> Branch:
        """Return the branch after *change*; *board* contains the change already, if given."""
        if board is None:
            board = BoardCopy(self.board)
            apply(change, board)
        return Branch(board=board, story=(*self.story, change))

    def without(self, names: Collection[str]) -> Branch:
        """Return the branch without changes to these variables; for joining only."""
        if not names:
            return self
        story = (
            replace(change, variables={n: v for n, v in change.variables.items() if n not in names})
            for change in self.story
        )
        return Branch(board=self.board, story=tuple(story))


def join(
    base: Board, branches: Sequence[Branch], merges: Mapping[str, Merge], place: str
) -> Branch:
    """Merge several branches into one.

    Args:
        base: The board that all of them came from.
        branches: In the order that their messages must have.
        merges: How to merge a variable that more than one of them set, by name.
        place: Where they meet, for errors.

    Raises:
        Failed: More than one set a variable that has no merge; code conflict.
    """
    if len(branches) == 1:
        return branches[0]
    # The dict is an ordered set: changes that several branches share count once.
    story = list(dict.fromkeys(change for branch in branches for change in branch.story))
    merged = {
        name: _merge(name, writers, base=base, branches=branches, merges=merges, place=place)
        for name, writers in _conflicting_changes(branches).items()
    }
    if merged:
        story.append(Change(node=place, variables=to_free_json(merged)[0]))  # pyright: ignore[reportArgumentType]  # a mapping stays one
    board = BoardCopy(base)
    for change in story:
        apply(change, board)
    return Branch(board=board, story=tuple(story))


def _conflicting_changes(branches: Sequence[Branch]) -> dict[str, list[Change]]:
    """Return the last changes of each variable whose nodes did not see each other's change."""
    holders: dict[Change, list[int]] = {}
    last: dict[str, dict[int, Change]] = {}
    for number, branch in enumerate(branches):
        for change in branch.story:
            holders.setdefault(change, []).append(number)
            for name in change.variables:
                last.setdefault(name, {})[number] = change
    found: dict[str, list[Change]] = {}
    for name, by_branch in last.items():
        # If a branch with this change set the variable again, that node saw this change, so it is
        # superseded in all branches.
        writers = [
            change
            for change in dict.fromkeys(by_branch.values())
            if all(by_branch[number] is change for number in holders[change])
        ]
        if len(writers) > 1:
            found[name] = writers
    return found


def _merge(
    name: str,
    writers: Sequence[Change],
    *,
    base: Board,
    branches: Sequence[Branch],
    merges: Mapping[str, Merge],
    place: str,
) -> Json:
    merge = merges.get(name)
    if merge is None and name == HANDOFF_STATE_KEY:
        # As in a run: the first handoff counts.
        made = (change.variables[name] for change in writers)
        return next((one for one in made if one is not None), None)
    if merge is None:
        nodes = [change.node for change in writers]
        raise Failed(
            ErrorCode.CONFLICT,
            f"the branches that meet at {place!r} have each set the variable {name!r} "
            f"({', '.join(nodes)}): name a merge, Graph(merges={{{name!r}: ...}})",
            details={"key": name, "nodes": cast("Json", nodes)},
        )
    values = [change.variables[name] for change in writers]
    if not isinstance(merge, str):
        return merge(values)
    common = set(branches[0].story).intersection(*(branch.story for branch in branches[1:]))
    before = base.get(name)
    # Changes that all branches share were made before the fork, so they belong to the base.
    for change in branches[0].story:
        if change in common and name in change.variables:
            before = change.variables[name]
    try:
        return MERGES[merge](before, values)
    except Misuse as error:
        raise Misuse(f"the branches that meet at {place!r}, variable {name!r}: {error}") from error


def _add(base: Any, values: list[Any]) -> Any:
    """Sum up what each branch added, to numbers or lists."""
    if all(isinstance(value, list) for value in values):
        start = cast("list[Any]", base) if isinstance(base, list) else []
        # A list that does not start with the former one is new: all of it is added.
        tails = [value[len(start) :] if value[: len(start)] == start else value for value in values]
        return [*start, *(item for tail in tails for item in tail)]
    numbers = all(isinstance(value, int | float) for value in values)
    if not numbers or not isinstance(base, int | float | None):
        raise Misuse("the merge 'add' is for numbers and lists: name another one")
    start_at = base or 0
    return start_at + sum(value - start_at for value in values)


def _update(base: Any, values: list[Any]) -> Any:
    """Return one mapping of all; if two have the same key, the later wins."""
    if not all(isinstance(value, dict) for value in values):
        raise Misuse("the merge 'update' is for mappings: name another one")
    whole: dict[str, Any] = dict(cast("dict[str, Any]", base)) if isinstance(base, dict) else {}
    for value in values:
        whole.update(value)
    return whole


def _first(_: Any, values: list[Any]) -> Any:
    return values[0]


def _latest(_: Any, values: list[Any]) -> Any:
    return values[-1]


# The named merges; each gets the value before the fork and the values of the branches.
MERGES: dict[str, Callable[[Any, list[Any]], Any]] = {
    "add": _add,
    "update": _update,
    "first": _first,
    "last": _latest,
}
