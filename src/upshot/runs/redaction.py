"""Keeps the secrets of a run out of its log, its events and its result.

The engine, the model and the tools work with the real values. The log holds a mark for each,
which only a run with the same secrets can read back; what is shown holds none.
"""

from __future__ import annotations

import secrets as random
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.secrets import FORMS, MARKS_OPTION, Secrets, marks_of
from upshot.contract.base.structs import Local
from upshot.contract.events import Event, RunStarted
from upshot.contract.model_calls import ReasoningDelta, TextDelta, ToolCallDelta
from upshot.contract.result import AgentResult

V = TypeVar("V")

COUNT_OPTION = "secrets_given"
"""Where run_started keeps how many secrets there were; anything more would tell of them."""

# What comes in pieces, in which a secret may be cut in two, and the field that has it.
_PIECES: dict[type, str] = {TextDelta: "text", ReasoningDelta: "text", ToolCallDelta: "arguments"}


class MaskedError(Exception):
    """Stands for an exception whose words, or those of its chain, hold a secret.

    Its message is the traceback of that exception and of its chain, masked.
    """


class Redaction:
    """Masks the secrets of one run.

    Args:
        texts: The secrets.
        name: What the marks in the log begin with.
    """

    def __init__(self, texts: Sequence[str], *, name: str) -> None:
        self._shown = Secrets(texts, names=True)
        self._logged = Secrets(in_order(texts), mark=marks_of(name), names=True)
        self._held: dict[tuple[object, type, int], Event] = {}

    def show(self, value: V) -> V:
        """*value* as people may see it."""
        return self._shown.mask(value)

    def write(self, value: V) -> V:
        """*value*, such as an event, as it may be written down."""
        return self._logged.mask(value)

    def show_result(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """*result* as people may see it; an output with a secret in it becomes plain JSON."""
        plain = to_free_json(result.output)[0]
        masked = self._shown.mask(plain)
        if masked != plain:
            result = msgspec.structs.replace(result, output=masked)
        if result.local is not None:
            own = Local(**{**result.local.values, "raw": self._show_raised(result.raw)})
            result = msgspec.structs.replace(result, local=own)
        return self._shown.mask(result)

    def _show_raised(self, raw: object) -> object:
        """*raw*, unless it is an exception that tells a secret, or one in its chain does."""
        if not isinstance(raw, BaseException):
            return raw
        words = "".join(traceback.format_exception(raw))
        masked = self._shown.mask_text(words)
        if masked == words:
            return raw
        return MaskedError(masked).with_traceback(raw.__traceback__)

    def hold(self, delta: Event, reply: object = None) -> Event | None:
        """Keep the end of a piece back that may be the beginning of a secret.

        Args:
            delta: The piece.
            reply: What it is a piece of; others may come piece by piece at the same time.

        Returns:
            What may be shown now of it and of what was kept back before; None for nothing yet.
        """
        field = _PIECES.get(type(delta))
        if field is None:
            return delta
        key = (reply, type(delta), getattr(delta, "index", 0))
        before = self._held.pop(key, None)
        text: str = getattr(delta, field)
        if before is not None:
            text = getattr(before, field) + text
        kept = self._shown.open_end(text)
        if kept:
            self._held[key] = msgspec.structs.replace(delta, **{field: text[-kept:]})
            text = text[:-kept]
        return msgspec.structs.replace(delta, **{field: text}) if text else None

    def release(self, reply: object = None) -> Iterable[Event]:
        """What was kept back of *reply*, None for all, and will not be gone on with."""
        keys = [key for key in self._held if reply is None or key[0] is reply]
        return [self._held.pop(key) for key in keys]

    def break_off(self, text: str, reply: object = None) -> str:
        """What was shown of *text*, all of a *reply* that is not gone on with.

        What was kept back is let go: it may be the most of a secret.
        """
        kept = [one.text for one in self.release(reply) if isinstance(one, TextDelta)]
        return text.removesuffix("".join(kept))


def name_marks() -> str:
    """A name for the marks of a new log.

    A model that could guess it could have the secrets put where it likes, so it is random, and no
    model ever sees it.
    """
    return random.token_hex(6)


def lift(texts: Sequence[str], started: RunStarted) -> Secrets | None:
    """What reads events back as they were before they were written down.

    Args:
        texts: The secrets, in any order.
        started: Its first event.

    Returns:
        Whose ``mask`` puts the secrets back; None where there is nothing to put back, or where
        they are not those that the run *started* had.
    """
    name = marks_for(texts, started)
    return Secrets(in_order(texts), mark=marks_of(name), names=True).lifted() if name else None


def lift_secrets(
    secrets: Sequence[str] = (), *, hides_others: bool = True
) -> Callable[[Event], Event]:
    """Make a function that puts the secrets back into a log, for ``states(..., read=)``.

    Args:
        secrets: Those that the run had, in any order.
        hides_others: Whether ``***`` stands in the place of each where they are not given, or
            others are. If not, the marks stay, so that the same is read again.

    Returns:
        A function that takes the events of one run in order, from the first on.
    """
    reads: list[Callable[[Any], Any] | None] = [None]

    def read(event: Event) -> Event:
        if isinstance(event, RunStarted):
            lifted = lift(secrets, event)
            hide = shown_by((), event) if hides_others else None
            reads[0] = hide if lifted is None else lifted.mask
        found = reads[0]
        return event if found is None else found(event)

    return read


def shown_by(texts: Sequence[str], started: RunStarted) -> Callable[[Any], Any] | None:
    """What hides the secrets of a log that was read, in what is shown of it.

    Args:
        texts: The secrets that were given to read it, in any order.
        started: Its first event.

    Returns:
        None where the run has no secrets. Where others are given, the marks are hidden.
    """
    name, count = started.options.get(MARKS_OPTION), started.options.get(COUNT_OPTION)
    if not isinstance(name, str):
        return None
    if marks_for(texts, started):
        return Secrets(texts, names=True).mask
    number = count if isinstance(count, int) else 0
    mark = marks_of(name)
    marks = [mark(one, form) for one in range(1, number + 1) for form in range(FORMS)]
    return Secrets(marks, names=True).mask


def has_marks(started: RunStarted | None) -> bool:
    """Whether marks stand for secrets in the log of the run that *started*."""
    return started is not None and MARKS_OPTION in started.options


def marks_for(texts: Iterable[str], started: RunStarted) -> str:
    """What the marks begin with that stand for *texts* in the log of the run that *started*.

    Returns:
        "" where the log has none, or where there are more or fewer of them than there were: a mark
        would be taken for another secret.
    """
    name, given = started.options.get(MARKS_OPTION), in_order(texts)
    known = started.options.get(COUNT_OPTION, len(given))
    return name if given and known == len(given) and isinstance(name, str) else ""


def in_order(texts: Iterable[str]) -> tuple[str, ...]:
    """*texts*, each once, in the one order in which marks are numbered: the longest first.

    A set has another order in each process.
    """
    return tuple(sorted(set(texts), key=lambda text: (-len(text), text)))
