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
# Looked up once: a class of Python 3.11 is slow to give a member of its own.
_ASSISTANT = Role.ASSISTANT


class _Tainted(Protocol):
    """The state of a run, of which a board only needs this.

    Attributes:
        taint: The first untrusted content that reached the run, None for none.
    """

    @property
    def taint(self) -> object: ...


class Channels(dict[str, MessageList]):
    """Channels by name; one that is looked up is there from then on."""

    __slots__ = ()

    def __missing__(self, name: str) -> MessageList:
        made = self[name] = MessageList()
        return made


class Board:
    """Messages by channel and variables by name; every change is logged.

    What stands on it when the engine starts is the seed; what comes after is produced. Values are
    made JSON where they are set, and kept apart from what the caller holds. A list or mapping
    that was handed out may be changed in place: the board finds out before its next change, and
    logs the variable as it is then.

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
        # Copies of lists and mappings that were handed out, which their holders may change.
        self._lent: JsonObject = {}
        self._seeded: dict[str, int] = {}
        self._on_change = on_change
        self._is_handed_over = False
        self._again: Mapping[str, deque[Message]] = _NO_MESSAGES

    @classmethod
    def restore(cls, snapshot: BoardSnapshot) -> Board:
        """A board equal to the one that *snapshot* was taken of."""
        board = cls()
        for channel, messages in snapshot.channels.items():
            board._channels[channel] = MessageList(messages)
        board._variables = {name: _copy(one) for name, one in snapshot.variables.items()}
        board._seeded = dict(snapshot.seeded)
        board.compacted = snapshot.compacted
        return board

    def apart(self) -> Board:
        """A board equal to this one, which also has to tell what JSON could not hold here."""
        board = Board.restore(self.snapshot())
        board._losses = self._losses
        return board

    def begin_again(self) -> None:
        """Have what was produced on it so far appended again without a trace, in its order.

        Until a message is appended again, ``so_far``, ``last_produced`` and ``open_calls`` go by
        it, so that an engine which reads its place there repeats what it did.
        """
        self._again = {
            channel: deque(messages[self._seeded.get(channel, 0) :])
            for channel, messages in self._channels.items()
        }

    def end_again(self) -> None:
        """Take all that stands on the board as appended, whatever was not appended again."""
        self._again = _NO_MESSAGES

    @property
    def is_again(self) -> bool:
        """Whether messages of the main channel are still to be appended again."""
        return bool(self._again.get(MAIN_CHANNEL))

    def append(self, message: Message, channel: str = MAIN_CHANNEL) -> None:
        """Add *message* at the end of *channel*.

        Raises:
            Misuse: It is no Message, or the channel no text.
        """
        self.extend((message,), channel)

    def extend(self, messages: Iterable[Message], channel: str = MAIN_CHANNEL) -> None:
        """Add *messages* at the end of *channel*, as one change."""
        added = tuple(messages)
        if channel is not MAIN_CHANNEL and not isinstance(channel, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"a channel is named by a text, got {channel!r:.60}")
        for message in added:
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
                raise Misuse(f"a board takes Message values, not {type(message).__name__}")
        # What was changed in place until now came before these messages, and is logged before them.
        if self._lent:
            self.notice()
        if self._again:
            added = self._without_known(added, channel)
        if self._is_handed_over:
            self._part()
        if self._run is not None and self._run.taint is not None:
            added = tuple(map(mark_tainted, added))
        self._channels[channel].extend(added)
        if self._on_change is not None and added:
            self._on_change(BoardChanged(channel=channel, messages=added))

    def messages(self, channel: str = MAIN_CHANNEL) -> MessageList:
        """The messages of *channel* as they are now, in order."""
        return self._channels[channel].so_far()

    def sent(self) -> Sequence[Message]:
        """The messages of the main channel as models are sent them."""
        messages = self.messages()
        return messages if self.compacted is None else self.compacted.sent(messages)

    def so_far(self) -> MessageList:
        """The messages of the main channel up to where the engine has come again."""
        main = self._channels[MAIN_CHANNEL]
        return main.so_far(len(main.items) - len(self._again.get(MAIN_CHANNEL, ())))

    def count(self, channel: str = MAIN_CHANNEL) -> int:
        """How many messages stand on *channel*."""
        return len(self._channels.get(channel, ()))

    def channels(self) -> tuple[str, ...]:
        """The names of the channels that hold messages, in order of their first use."""
        return tuple(name for name, messages in self._channels.items() if messages)

    def get(self, name: str, default: Json = None) -> Json:
        """The variable *name*, *default* where it was never set."""
        value = self._variables.get(name, default)
        if not isinstance(value, list | dict) or name not in self._variables:
            return value
        lent = self._lent.get(name)
        if lent is None:
            # Who gets it may change it in place, which `notice` can tell only beside the former
            # value.
            lent = self._lent[name] = _copy(value)
        return lent

    def set(self, name: str, value: Json) -> None:
        """Set the variable *name* to a JSON value.

        What JSON cannot hold is replaced, NaN by null and lone surrogates by U+FFFD, and a
        warning of the run says so.

        Raises:
            Misuse: It has no JSON form at all; the message names the variable.
        """
        self.put(name, value if is_plain(value) else self._to_json(name, value))

    def put(self, name: str, value: Json) -> None:
        """Set the variable *name* to what is JSON and nobody else holds."""
        # A copy that was handed out is one of the former value: what is done to it counts no more.
        if self._lent:
            self._lent.pop(name, None)
        self._write(name, value)

    def has(self, name: str) -> bool:
        """Whether the variable *name* was ever set."""
        return name in self._variables

    def shows(self, name: str, value: Json) -> bool:
        """Whether the variable *name* is set, and to *value*."""
        return name in self._variables and self._variables[name] == value

    def copy_of(self, name: str) -> Json:
        """The variable *name* as a copy of one's own; None where it was never set."""
        return _copy(self._variables.get(name))

    def variables(self) -> JsonObject:
        """All variables, as ``get`` gives them."""
        return {name: self.get(name) for name in self._variables}

    def copies(self) -> JsonObject:
        """All variables, as copies of one's own."""
        if self._lent:
            self.notice()
        return {name: _copy(value) for name, value in self._variables.items()}

    def notice(self) -> None:
        """Make a change of what was changed in place since it was handed out.

        Raises:
            Misuse: It has no JSON form any more; the message names the variable.
        """
        if not self._lent:
            return
        for name, lent in [*self._lent.items()]:
            # What is the same is so in most cases, and told at the speed of C.
            if _is_same(lent, self._variables.get(name)):
                continue
            try:
                value, lossy = to_free_json(lent)
            except UnserializableError as error:
                del self._lent[name]
                raise _no_json(name, error) from error
            if value != self._variables.get(name):
                self._tell_loss(name, lossy)
                self._write(name, value)

    def snapshot(self) -> BoardSnapshot:
        """The board as it is now; later changes do not reach it."""
        return BoardSnapshot(
            channels={name: tuple(self._channels[name]) for name in self.channels()},
            variables=self.copies(),
            seeded=dict(self._seeded),
            compacted=self.compacted,
        )

    def hand_over(self) -> Board:
        """What stands here as a board of its own, which later changes of this one never reach."""
        board = Board()
        board._channels, board._variables = self._channels, self._variables
        board._seeded, board.compacted = self._seeded, self.compacted
        # Shared until one of the two is written to, since most runs do not go on after this.
        self._is_handed_over = True
        return board

    def _part(self) -> None:
        """Leave what was handed over, with what encoders have kept of it, to who has it."""
        self._is_handed_over = False
        self._channels = Channels((name, said.copy()) for name, said in self._channels.items())
        self._variables = self._variables.copy()
        self._seeded = self._seeded.copy()

    def facts(self) -> list[BoardChanged]:
        """The changes of which the log can fold the board again: first its seed, then the rest."""
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
        """What is on the board now is the seed."""
        if self._is_handed_over:
            self._part()
        self._seeded = {name: len(said.items) for name, said in self._channels.items()}

    def seeded(self, channel: str = MAIN_CHANNEL) -> tuple[Message, ...]:
        """What stood on *channel* when the engine started."""
        return tuple(self._channels[channel].items[: self._seeded.get(channel, 0)])

    def produced(self) -> tuple[Message, ...]:
        """The messages of the main channel since then, in order."""
        return tuple(self._channels[MAIN_CHANNEL].items[self._seeded.get(MAIN_CHANNEL, 0) :])

    def last_produced(self) -> Message | None:
        """The last message of ``so_far`` that was produced, None without one."""
        main = self._channels[MAIN_CHANNEL].items
        count = len(main)
        if self._again:
            count -= len(self._again.get(MAIN_CHANNEL, ()))
        return main[count - 1] if count > self._seeded.get(MAIN_CHANNEL, 0) else None

    def answer(self) -> str | None:
        """Text of the last produced assistant message on the main channel, None without one.

        A reply that the provider paused and went on with is one text.
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
        """Calls of the last produced reply of ``so_far`` that have no tool message yet.

        A confused model may use one id twice: then the tool's name tells the calls apart.
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
        """Make a change that the log already has."""
        if isinstance(change, Compacted):
            self.compacted = change
            return
        if self._is_handed_over:
            self._part()
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
        """From now on tell every change to *on_change*; None ends that.

        Args:
            on_change: Told of it.
            on_loss: Told what JSON could not hold of a value: what is meant, and the places in
                it. What was lost before is told at once.
            run: Knows whether untrusted words have reached the run: then messages are marked.
        """
        self._on_change, self._on_loss = on_change, on_loss
        self._run = run
        if on_loss is not None:
            for name, lossy in self._losses:
                on_loss(name, lossy)
            self._losses = ()

    def adopt(self, other: BoardRole) -> None:
        """Take over what *other*, an engine's own board, has more than this one."""
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
            # Engines copy the messages that they are given and add theirs: only these are new.
            self.extend(messages[common:], channel)
        for name, value in snapshot.variables.items():
            if not self.shows(name, value):
                self.set(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Board) and self.snapshot() == other.snapshot()

    # It changes, so it is no key.
    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]  # as Python does

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(messages)}" for name, messages in self._channels.items())
        return f"Board({{{sizes}}}, variables={list(self._variables)})"

    def _write(self, name: str, value: Json) -> None:
        """Set a variable to what is JSON and nobody else holds."""
        if self._is_handed_over:
            self._part()
        self._variables[name] = value
        if self._on_change is not None:
            self._on_change(BoardChanged(variables={name: value}))

    def _to_json(self, name: str, value: object) -> Json:
        try:
            form, lossy = to_free_json(value)
        except UnserializableError as error:
            raise _no_json(name, error) from error
        self._tell_loss(name, lossy)
        return form

    def _tell_loss(self, name: str, lossy: tuple[str, ...]) -> None:
        if not lossy:
            return
        # The place of a value that is replaced as a whole adds nothing to its name.
        told = f"variable {name!r}", tuple("" if path == "/" else path for path in lossy)
        if self._on_loss is None:
            self._losses = [*self._losses, told]
        else:
            self._on_loss(*told)

    def _without_known(self, added: tuple[Message, ...], channel: str) -> tuple[Message, ...]:
        known = self._again.get(channel, deque[Message]())
        left = list(added)
        # Outcomes of one reply stood in another order where some of them had to wait for people.
        while any(_is_one_of(message, known) for message in left):
            # What stands between was appended in a step that is not done again.
            again = known.popleft()
            found = next((at for at, one in enumerate(left) if _is_again(one, again)), None)
            if found is not None:
                del left[found]
        if left:
            # From here on it is another story, or goes beyond what stands here.
            known.clear()
        return tuple(left)


def _is_one_of(message: Message, known: Iterable[Message]) -> bool:
    return any(_is_again(message, one) for one in known)


def _is_again(message: Message, known: Message) -> bool:
    """Whether *message* is *known*, appended again.

    A tool message is that of its call: a note may stand beside the outcome in one and not in the
    other.
    """
    if message.role is Role.TOOL and message.role is known.role:
        return message.tool_call_id == known.tool_call_id
    return _is_equal(message, known)


def _is_equal(message: Message, known: Message) -> bool:
    """Whether they are the same, but for the mark of what came before them."""
    return message == known or without_mark(message) == without_mark(known)


def _copy(value: Json) -> Json:
    """A copy of a JSON value that shares nothing that could be changed."""
    if isinstance(value, dict):
        return {name: _copy(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value


def _is_same(lent: Json, known: Json) -> bool:
    try:
        return lent == known
    except RecursionError:
        # It was made to hold itself, which is told where it is made JSON.
        return False


def _no_json(name: str, error: UnserializableError) -> Misuse:
    return Misuse(f"the variable {name!r} cannot be set: {error}")
