"""Keeps the secrets of a run out of its log, its events and its result.

The engine, the model and the tools work with the real values. The log has a mark for each, which
only a run with the same secrets can replace again. Events and results shown to users have ``***``.
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
"""The option of run_started with the number of secrets; more would reveal something."""

# Events that stream pieces, where a secret may be split, and the field with the text.
_PIECES: dict[type, str] = {TextDelta: "text", ReasoningDelta: "text", ToolCallDelta: "arguments"}


class MaskedError(Exception):
    """Replaces an exception if its message or one in its chain contains a secret.

    Its message is the masked traceback of that exception and its chain.
    """


class Redaction:
    """Masks the secrets of one run.

    Args:
        texts: The secrets.
        name: The prefix of the marks in the log.
    """

    def __init__(self, texts: Sequence[str], *, name: str) -> None:
        self._for_users = Secrets(texts, names=True)
        self._for_log = Secrets(in_order(texts), mark=marks_of(name), names=True)
        self._withheld: dict[tuple[object, type, int], Event] = {}

    def show(self, value: V) -> V:
        """Return *value* masked for users."""
        return self._for_users.mask(value)

    def write(self, value: V) -> V:
        """Return *value*, such as an event, masked for the log."""
        return self._for_log.mask(value)

    def show_result(self, result: AgentResult[Any]) -> AgentResult[Any]:
        """Return *result* masked for users. An output that contains a secret becomes plain JSON."""
        plain = to_free_json(result.output)[0]
        masked = self._for_users.mask(plain)
        if masked != plain:
            result = msgspec.structs.replace(result, output=masked)
        if result.local is not None:
            own = Local(**{**result.local.values, "raw": self._mask_exception(result.raw)})
            result = msgspec.structs.replace(result, local=own)
        return self._for_users.mask(result)

    def _mask_exception(self, raw: object) -> object:
        """Return *raw*, replaced if it or its chain is an exception that contains a secret."""
        if not isinstance(raw, BaseException):
            return raw
        words = "".join(traceback.format_exception(raw))
        masked = self._for_users.mask_text(words)
        if masked == words:
            return raw
        return MaskedError(masked).with_traceback(raw.__traceback__)

    def hold(self, delta: Event, reply: object = None) -> Event | None:
        """Withhold the end of a piece if a secret may start there.

        Args:
            delta: The piece.
            reply: The reply it belongs to; several may stream at the same time.

        Returns:
            The piece that may be shown now, with text withheld before; None for nothing yet.
        """
        field = _PIECES.get(type(delta))
        if field is None:
            return delta
        key = (reply, type(delta), getattr(delta, "index", 0))
        before = self._withheld.pop(key, None)
        text: str = getattr(delta, field)
        if before is not None:
            text = getattr(before, field) + text
        kept = self._for_users.open_end(text)
        if kept:
            self._withheld[key] = msgspec.structs.replace(delta, **{field: text[-kept:]})
            text = text[:-kept]
        return msgspec.structs.replace(delta, **{field: text}) if text else None

    def release(self, reply: object = None) -> Iterable[Event]:
        """Return what was withheld of *reply*, which is complete; None means all replies."""
        keys = [key for key in self._withheld if reply is None or key[0] is reply]
        return [self._withheld.pop(key) for key in keys]

    def break_off(self, text: str, reply: object = None) -> str:
        """Return the part of *text* that was shown; *text* is the whole of an abandoned *reply*.

        The withheld text is dropped, because it may be most of a secret.
        """
        kept = [one.text for one in self.release(reply) if isinstance(one, TextDelta)]
        return text.removesuffix("".join(kept))


def name_marks() -> str:
    """Return a random prefix for the marks of a new log.

    It is random and never shown to a model: a model that could guess it could write marks, and
    secrets would be inserted in their place.
    """
    return random.token_hex(6)


def lift(texts: Sequence[str], started: RunStarted) -> Secrets | None:
    """Return the Secrets whose ``mask`` replaces the marks of a log by the secrets.

    Args:
        texts: The secrets, in any order.
        started: The run's first event.

    Returns:
        None if the log has no marks, or if *texts* are not the secrets of that run.
    """
    name = marks_for(texts, started)
    return Secrets(in_order(texts), mark=marks_of(name), names=True).lifted() if name else None


def lift_secrets(
    secrets: Sequence[str] = (), *, hides_others: bool = True
) -> Callable[[Event], Event]:
    """Return a function that puts the secrets back into a log, for ``states(..., read=)``.

    Args:
        secrets: The secrets of the run, in any order.
        hides_others: Whether marks become ``***`` if the secrets are missing or wrong. If false,
            the marks stay, so that they can be read again.

    Returns:
        A function that must be called with the events of one run, in order from the first.
    """
    reads: list[Callable[[Any], Any] | None] = [None]

    def read(event: Event) -> Event:
        if isinstance(event, RunStarted):
            lifted = lift(secrets, event)
            hide = masking_reader((), event) if hides_others else None
            reads[0] = hide if lifted is None else lifted.mask
        found = reads[0]
        return event if found is None else found(event)

    return read


def masking_reader(texts: Sequence[str], started: RunStarted) -> Callable[[Any], Any] | None:
    """Return a function that masks secrets in values read from a log, before they are shown.

    Args:
        texts: The secrets that the log was read with, in any order.
        started: The run's first event.

    Returns:
        None if the run has no secrets. If *texts* are not its secrets, marks are hidden instead.
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
    """Whether the log of the run that *started* contains marks for secrets."""
    return started is not None and MARKS_OPTION in started.options


def marks_for(texts: Iterable[str], started: RunStarted) -> str:
    """Return the prefix of the marks for *texts* in the log of the run that *started*.

    Returns:
        "" if the log has no marks, or if the number of secrets differs: then a mark would stand for
        the wrong secret.
    """
    name, given = started.options.get(MARKS_OPTION), in_order(texts)
    known = started.options.get(COUNT_OPTION, len(given))
    return name if given and known == len(given) and isinstance(name, str) else ""


def in_order(texts: Iterable[str]) -> tuple[str, ...]:
    """Return *texts* without duplicates, in the order in which marks are numbered: longest first.

    The order of a set differs between processes.
    """
    return tuple(sorted(set(texts), key=lambda text: (-len(text), text)))
