"""Board: the named message channels and variables that an engine works on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol

from upshot.contract.base.enums import Role
from upshot.contract.base.json_values import UnserializableError, is_plain, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.events import BoardChanged
from upshot.contract.message import (
    MAIN_CHANNEL,
    Message,
    MessageList,
    mark_tainted,
    without_mark,
)
from upshot.contract.protocols import Board as BoardRole
from upshot.contract.run_control import BoardSnapshot, Compacted
from upshot.contract.tool_calls import ToolCall
from upshot.errors import Misuse

_NO_MESSAGES: Mapping[str, deque[Message]] = {}
# Module constant: in Python 3.11, looking a member up on its enum class is slow.
_ASSISTANT = Role.ASSISTANT


class _Tainted(Protocol):
    """The part of a run's state that a board needs.

    Attributes:
        taint: The first untrusted content that reached the run, None for none.
    """

    @property
    def taint(self) -> object: ...


class Channels(dict[str, MessageList]):
    """Channels by name; looking one up creates it."""

    __slots__ = ()

    def __missing__(self, name: str) -> MessageList:
        made = self[name] = MessageList()
        return made


class Board:
    """Messages by channel and variables by name; every change is logged.

    Its content when the engine starts is the seed; everything later is produced. Values become JSON
    when they are set, and share nothing with the caller's objects. A list or mapping that ``get``
    returned may be changed in place: the board notices before its next change, and logs the
    variable's new value.

    Args:
        on_change: Called with a BoardChanged for every change; None for a board without a log.

    Attributes:
        compacted: What replaces older messages of the main channel for models; None for nothing.
    """

    compacted: Compacted | None = None
    _on_loss: Callable[[str, tuple[str, ...]], None] | None = None
    _losses: Sequence[tuple[str, tuple[str, ...]]] = ()
    _run: _Tainted | None = None

    def __init__(self, *, on_change: Callable[[BoardChanged], None] | None = None) -> None:
        self._channels: Channels = Channels()
        self._variables: JsonObject = {}
        # Copies of lists and mappings that were returned, which callers may change in place.
        self._lent: JsonObject = {}
        self._seeded: dict[str, int] = {}
        self._on_change = on_change
        self._is_handed_over = False
        self._again: Mapping[str, deque[Message]] = _NO_MESSAGES

    @classmethod
    def restore(cls, snapshot: BoardSnapshot) -> Board:
        """Return a board equal to the one that *snapshot* was made from."""
        board = cls()
        for channel, messages in snapshot.channels.items():
            board._channels[channel] = MessageList(messages)
        board._variables = {name: _copy(one) for name, one in snapshot.variables.items()}
        board._seeded = dict(snapshot.seeded)
        board.compacted = snapshot.compacted
        return board

    def apart(self) -> Board:
        """Return a copy of this board, which also reports values that JSON cannot represent."""
        board = Board.restore(self.snapshot())
        board._losses = self._losses
        return board

    def begin_again(self) -> None:
        """Ignore appends that repeat what was produced so far, in order.

        Until a message is appended again, ``so_far``, ``last_produced`` and ``open_calls`` do not
        include it. So an engine that finds its place by them repeats what it did.
        """
        self._again = {
            channel: deque(messages[self._seeded.get(channel, 0) :])
            for channel, messages in self._channels.items()
        }

    def end_again(self) -> None:
        """Treat all messages as appended again, also those that were not."""
        self._again = _NO_MESSAGES

    @property
    def is_again(self) -> bool:
        """Whether messages of the main channel still have to be appended again."""
        return bool(self._again.get(MAIN_CHANNEL))

    def append(self, message: Message, channel: str = MAIN_CHANNEL) -> None:
        """Add *message* at the end of *channel*.

        Raises:
            Misuse: It is not a Message, or the channel is not a string.
        """
        self.extend((message,), channel)

    def extend(self, messages: Iterable[Message], channel: str = MAIN_CHANNEL) -> None:
        """Add *messages* at the end of *channel*, as one change."""
        added = tuple(messages)
        if channel is not MAIN_CHANNEL and not isinstance(channel, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"a channel name must be a string, got {channel!r:.60}")
        for message in added:
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise Misuse(f"a board takes Message values, not {type(message).__name__}")
        # In-place changes were made before these messages, so log them first.
        if self._lent:
            self.notice()
        if self._again:
            added = self._without_known(added, channel)
        if self._is_handed_over:
            self._unshare()
        if self._run is not None and self._run.taint is not None:
            added = tuple(map(mark_tainted, added))
        self._channels[channel].extend(added)
        if self._on_change is not None and added:
            self._on_change(BoardChanged(channel=channel, messages=added))

    def messages(self, channel: str = MAIN_CHANNEL) -> MessageList:
        """Return the current messages of *channel*, in order."""
        return self._channels[channel].so_far()

    def sent(self) -> Sequence[Message]:
        """Return the messages of the main channel as models get them."""
        messages = self.messages()
        return messages if self.compacted is None else self.compacted.sent(messages)

    def so_far(self) -> MessageList:
        """Return the messages of the main channel up to the point that the engine reached again."""
        main = self._channels[MAIN_CHANNEL]
        return main.so_far(len(main.items) - len(self._again.get(MAIN_CHANNEL, ())))

    def count(self, channel: str = MAIN_CHANNEL) -> int:
        """Return the number of messages on *channel*."""
        return len(self._channels.get(channel, ()))

    def channels(self) -> tuple[str, ...]:
        """Return the names of channels with messages, in order of their first use."""
        return tuple(name for name, messages in self._channels.items() if messages)

    def get(self, name: str, default: Json = None) -> Json:
        """Return the variable *name*, *default* if it was never set."""
        value = self._variables.get(name, default)
        if not isinstance(value, list | dict) or name not in self._variables:
            return value
        lent = self._lent.get(name)
        if lent is None:
            # The caller may change it in place; `notice` compares it with the stored value.
            lent = self._lent[name] = _copy(value)
        return lent

    def set(self, name: str, value: Json) -> None:
        """Set the variable *name* to a JSON value.

        What JSON cannot represent is replaced, NaN by null and lone surrogates by U+FFFD, with a
        warning.

        Raises:
            Misuse: It has no JSON form at all; the message names the variable.
        """
        self.put(name, value if is_plain(value) else self._to_json(name, value))

    def put(self, name: str, value: Json) -> None:
        """Set the variable *name* to a JSON value that nothing else refers to."""
        # A copy returned before has the old value; later changes to it are ignored.
        if self._lent:
            self._lent.pop(name, None)
        self._write(name, value)

    def has(self, name: str) -> bool:
        """Whether the variable *name* was ever set."""
        return name in self._variables

    def shows(self, name: str, value: Json) -> bool:
        """Whether the variable *name* is set to *value*."""
        return name in self._variables and self._variables[name] == value

    def copy_of(self, name: str) -> Json:
        """Return a copy of the variable *name*; None if it was never set."""
        return _copy(self._variables.get(name))

    def variables(self) -> JsonObject:
        """Return all variables, as ``get`` returns them."""
        return {name: self.get(name) for name in self._variables}

    def copies(self) -> JsonObject:
        """Return copies of all variables."""
        if self._lent:
            self.notice()
        return {name: _copy(value) for name, value in self._variables.items()}

    def notice(self) -> None:
        """Log variables that were changed in place since ``get`` returned them.

        Raises:
            Misuse: One has no JSON form any longer; the message names the variable.
        """
        if not self._lent:
            return
        for name, lent in [*self._lent.items()]:
            # Most are unchanged, which this comparison finds out at the speed of C.
            if _is_same(lent, self._variables.get(name)):
                continue
            try:
                value, lossy = to_free_json(lent)
            except UnserializableError as error:
                del self._lent[name]
                raise _no_json(name, error) from error
            if value != self._variables.get(name):
                self._report_loss(name, lossy)
                self._write(name, value)

    def snapshot(self) -> BoardSnapshot:
        """Return the current content of the board, unaffected by later changes."""
        return BoardSnapshot(
            channels={name: tuple(self._channels[name]) for name in self.channels()},
            variables=self.copies(),
            seeded=dict(self._seeded),
            compacted=self.compacted,
        )

    def hand_over(self) -> Board:
        """Return a board with this content, unaffected by later changes of this one."""
        board = Board()
        board._channels, board._variables = self._channels, self._variables
        board._seeded, board.compacted = self._seeded, self.compacted
        # Shared until one of the two is written to, which rarely happens after this.
        self._is_handed_over = True
        return board

    def _unshare(self) -> None:
        """Copy the shared content; the other board keeps the original, with its encoder caches."""
        self._is_handed_over = False
        self._channels = Channels(
            (name, messages.copy()) for name, messages in self._channels.items()
        )
        self._variables = self._variables.copy()
        self._seeded = self._seeded.copy()

    def facts(self) -> list[BoardChanged]:
        """Return changes that recreate the board: first the seed, then the rest."""
        variables = self.copies() if self._variables else {}
        made: list[BoardChanged] = []
        for channel, messages in self._channels.items():
            if count := self._seeded.get(channel):
                made.append(
                    BoardChanged(
                        channel=channel,
                        messages=tuple(messages.items[:count]),
                        variables=variables,
                        seeded=True,
                    )
                )
                variables = {}
        if not made:
            made.append(BoardChanged(variables=variables, seeded=True))
        for channel, messages in self._channels.items():
            if later := tuple(messages.items[self._seeded.get(channel, 0) :]):
                made.append(BoardChanged(channel=channel, messages=later))
        return made

    def mark_seeded(self) -> None:
        """Mark the current content as the seed."""
        if self._is_handed_over:
            self._unshare()
        self._seeded = {name: len(messages.items) for name, messages in self._channels.items()}

    def seeded(self, channel: str = MAIN_CHANNEL) -> tuple[Message, ...]:
        """Return the messages on *channel* when the engine started."""
        return tuple(self._channels[channel].items[: self._seeded.get(channel, 0)])

    def produced(self) -> tuple[Message, ...]:
        """Return the later messages of the main channel, in order."""
        return tuple(self._channels[MAIN_CHANNEL].items[self._seeded.get(MAIN_CHANNEL, 0) :])

    def last_produced(self) -> Message | None:
        """Return the last produced message of ``so_far``, None without one."""
        main = self._channels[MAIN_CHANNEL].items
        count = len(main)
        if self._again:
            count -= len(self._again.get(MAIN_CHANNEL, ()))
        return main[count - 1] if count > self._seeded.get(MAIN_CHANNEL, 0) else None

    def answer(self) -> str | None:
        """Return the text of the last produced assistant message on the main channel, or None.

        A reply that the provider paused and continued is one text.
        """
        main = self._channels[MAIN_CHANNEL].items
        first = self._seeded.get(MAIN_CHANNEL, 0)
        for place in range(len(main) - 1, first - 1, -1):
            if main[place].role is _ASSISTANT:
                text = main[place].text
                begun = place
                while begun > first and main[begun - 1].paused:
                    begun -= 1
                    text = main[begun].text + text
                return text or None
        return None

    def open_calls(self) -> list[ToolCall]:
        """Return the calls of the last produced reply of ``so_far`` without a tool message.

        A confused model may use an id twice; then the tool's name tells the calls apart.
        """
        answers: dict[tuple[str | None, str], int] = {}
        calls: list[ToolCall] = []
        main = self._channels[MAIN_CHANNEL].items
        count = len(main)
        if self._again:
            count -= len(self._again.get(MAIN_CHANNEL, ()))
        for place in range(count - 1, self._seeded.get(MAIN_CHANNEL, 0) - 1, -1):
            message = main[place]
            if message.role is not _ASSISTANT:
                key = message.tool_call_id, message.name
                answers[key] = answers.get(key, 0) + 1
                continue
            if not answers:
                return list(message.tool_calls)
            for call in message.tool_calls:
                if answers.get((call.id, call.name)):
                    answers[call.id, call.name] -= 1
                else:
                    calls.append(call)
            break
        return calls

    def apply(self, change: BoardChanged | Compacted) -> None:
        """Apply a change that is already in the log."""
        if isinstance(change, Compacted):
            self.compacted = change
            return
        if self._is_handed_over:
            self._unshare()
        self._channels[change.channel].extend(change.messages)
        for name, value in change.variables.items():
            self._lent.pop(name, None)
            self._variables[name] = value

    def watch(
        self,
        on_change: Callable[[BoardChanged], None] | None,
        on_loss: Callable[[str, tuple[str, ...]], None] | None = None,
        run: _Tainted | None = None,
    ) -> None:
        """From now on pass every change to *on_change*; None ends that.

        Args:
            on_change: Called with each change.
            on_loss: Called with what JSON could not represent: a description of the value, and the
                paths in it. Earlier losses are passed at once.
            run: Knows whether the run is tainted; if it is, messages are marked.
        """
        self._on_change, self._on_loss = on_change, on_loss
        self._run = run
        if on_loss is not None:
            for name, lossy in self._losses:
                on_loss(name, lossy)
            self._losses = ()

    def adopt(self, other: BoardRole) -> None:
        """Copy everything from *other*, an engine's own board, that this one lacks."""
        if other is self:
            return
        snapshot = other.snapshot()
        for channel, messages in snapshot.channels.items():
            mine = self._channels[channel]
            common = 0
            while common < min(len(mine), len(messages)) and _is_equal(
                mine[common], messages[common]
            ):
                common += 1
            # Engines copy the messages they get and add theirs: only those are new.
            self.extend(messages[common:], channel)
        for name, value in snapshot.variables.items():
            if not self.shows(name, value):
                self.set(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Board) and self.snapshot() == other.snapshot()

    # Mutable, so it has no hash.
    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]  # as Python does

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(messages)}" for name, messages in self._channels.items())
        return f"Board({{{sizes}}}, variables={list(self._variables)})"

    def _write(self, name: str, value: Json) -> None:
        """Set a variable to a JSON value that nothing else refers to."""
        if self._is_handed_over:
            self._unshare()
        self._variables[name] = value
        if self._on_change is not None:
            self._on_change(BoardChanged(variables={name: value}))

    def _to_json(self, name: str, value: object) -> Json:
        try:
            form, lossy = to_free_json(value)
        except UnserializableError as error:
            raise _no_json(name, error) from error
        self._report_loss(name, lossy)
        return form

    def _report_loss(self, name: str, lossy: tuple[str, ...]) -> None:
        if not lossy:
            return
        # A path of "/" means the whole value and adds nothing to its name.
        place = f"variable {name!r}", tuple("" if path == "/" else path for path in lossy)
        if self._on_loss is None:
            self._losses = [*self._losses, place]
        else:
            self._on_loss(*place)

    def _without_known(self, added: tuple[Message, ...], channel: str) -> tuple[Message, ...]:
        known = self._again.get(channel, deque[Message]())
        left = list(added)
        # The order of one reply's outcomes may differ if some of them had to wait for people.
        while any(_is_one_of(message, known) for message in left):
            # Messages in between were appended in a step that does not run again.
            again = known.popleft()
            found = next((at for at, one in enumerate(left) if _repeats(one, again)), None)
            if found is not None:
                del left[found]
        if left:
            # From here on the engine does something new.
            known.clear()
        return tuple(left)


def _is_one_of(message: Message, known: Iterable[Message]) -> bool:
    return any(_repeats(message, one) for one in known)


def _repeats(message: Message, known: Message) -> bool:
    """Whether *message* is *known*, appended again.

    Tool messages are compared by call id only, because one of the two may have a note added to the
    outcome.
    """
    if message.role is Role.TOOL and message.role is known.role:
        return message.tool_call_id == known.tool_call_id
    return _is_equal(message, known)


def _is_equal(message: Message, known: Message) -> bool:
    """Whether they are equal, ignoring the mark for untrusted content before them."""
    return message == known or without_mark(message) == without_mark(known)


def _copy(value: Json) -> Json:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {name: _copy(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value


def _is_same(lent: Json, known: Json) -> bool:
    try:
        return lent == known
    except RecursionError:
        # It contains itself; the conversion to JSON will report that.
        return False


def _no_json(name: str, error: UnserializableError) -> Misuse:
    return Misuse(f"the variable {name!r} cannot be set: {error}")
