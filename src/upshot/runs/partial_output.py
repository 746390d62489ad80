"""The part of a run's answer that has arrived: the value of ``LiveRun.partial``.

A JSON text that breaks off is completed by closing what is open. Its last string is kept as far as
it came; a number, a key or a word that may continue is left out. If the type does not accept that
value, the last open element is left out, then the object or list around it, and so on outwards. So
the value is the largest prefix of the answer that is valid for the type, whatever kind of type
that is, and its validators see no other values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from upshot.contract.base.structs import Json, path_of
from upshot.contract.events import AttemptStarted, Event, RunSettled
from upshot.contract.model_calls import ModelReplied, ModelRetried, ModelStarted, TextDelta
from upshot.runs.plan import OutputType

# A string as far as it came, without half an escape or half a surrogate pair.
_STRING = re.compile(
    r'"(?:[^"\\]+|\\(?:[^u]|u(?![dD][89abAB])[0-9a-fA-F]{4}'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}))*"
)
_SPACE = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[-+.\w]+")
# The first line of a Markdown fence, also if it may continue.
_FENCE = re.compile(r"\s*```[^\n]*(?:\n|$)")
_CLOSING = {"{": "}", "[": "]"}


class PartialOutput:
    """Follows the events of a run, and returns what they contain of its answer.

    Args:
        output: The type of the answer.
    """

    def __init__(self, output: OutputType) -> None:
        self._output = output
        # None before a model call starts: a reader that came later lacks the start of the reply.
        self._pieces: list[str] | None = None
        self._is_whole = False
        self._json = _OpenJson()
        self._read = 0
        self._value: Any = None

    def add(self, event: Event) -> None:
        """Process the next event of the run; those of child runs are ignored."""
        apply = _APPLY.get(type(event))
        if apply is not None and not path_of(event):
            apply(self, event)

    def value(self) -> Any:
        """Return what is known of the answer; None if nothing is."""
        pieces = self._pieces
        if not pieces or self._read == len(pieces):
            return self._value
        self._read = len(pieces)
        text = "".join(pieces)
        if self._output.is_text:
            self._value = text or None
        else:
            self._value = self._parse(text) if self._is_whole else self._parse_open(text)
        return self._value

    def _parse(self, text: str) -> Any:
        """Return a whole answer; None if it is not of the type."""
        try:
            return self._output.build(self._output.parse(text))
        except Exception:
            # Boundary: a caller that watches an answer gets none of the type's own exceptions.
            return None

    def _parse_open(self, text: str) -> Any:
        fence = _FENCE.match(text)
        values = self._json.values(text if fence is None else text[fence.end() :])
        if self._output.is_schema:
            return next(values, None)
        for value in values:
            try:
                return self._output.build(value)
            except Exception:  # Boundary: see _parse.
                continue
        return None

    def _begin(self, _: Event) -> None:
        self._pieces, self._json, self._is_whole = [], _OpenJson(), False
        self._read, self._value = 0, None

    def _model_started(self, event: ModelStarted) -> None:
        # A call that repairs arguments or makes a summary is no answer.
        if not event.purpose:
            self._begin(event)

    def _text_delta(self, event: TextDelta) -> None:
        if self._pieces is not None:
            self._pieces.append(event.text)

    def _run_settled(self, event: RunSettled) -> None:
        error = event.result.error
        if error is not None and error.guardrail:
            self._begin(event)

    def _model_replied(self, event: ModelReplied) -> None:
        if event.purpose:
            return
        response = event.response
        self._begin(event)
        # A reply with calls is not an answer yet.
        if response.error is None and not response.tool_calls and response.content:
            self._pieces, self._is_whole = [response.content], True


_APPLY: dict[type[Any], Callable[[PartialOutput, Any], None]] = {
    AttemptStarted: PartialOutput._begin,  # pyright: ignore[reportPrivateUsage]
    ModelStarted: PartialOutput._model_started,  # pyright: ignore[reportPrivateUsage]
    ModelRetried: PartialOutput._begin,  # pyright: ignore[reportPrivateUsage]
    ModelReplied: PartialOutput._model_replied,  # pyright: ignore[reportPrivateUsage]
    RunSettled: PartialOutput._run_settled,  # pyright: ignore[reportPrivateUsage]
    TextDelta: PartialOutput._text_delta,  # pyright: ignore[reportPrivateUsage]
}


class _OpenJson:
    """Reads a growing JSON text; each call continues where the last one stopped."""

    def __init__(self) -> None:
        # The text before it consists of whole tokens.
        self._at = 0
        # The open objects and lists: the closing bracket, and the end of their last whole element.
        self._open: list[tuple[str, int]] = []
        # What a string would be there: a key of an object, or a value.
        self._is_key_next = False
        # The end of the whole value, 0 before it.
        self._end = 0

    def values(self, text: str) -> Iterator[Json]:
        """Yield the values that *text* begins with, the largest first; none if it is not JSON.

        Args:
            text: The text of the last call, or one that continues it.
        """
        self._scan(text)
        if self._end:
            yield from _decoded(text[: self._end])
            return
        closing = "".join(bracket for bracket, _ in reversed(self._open))
        rest = _STRING.match(text, self._at)
        if rest is not None and not self._is_key_next:
            yield from _decoded(f'{text[: rest.end()]}"{closing}')
        for depth in range(len(self._open), 0, -1):
            cut = self._open[depth - 1][1]
            yield from _decoded(text[:cut] + closing[len(self._open) - depth :])

    def _scan(self, text: str) -> None:
        """Read the whole tokens of *text* that are new."""
        while not self._end:
            self._at = _skip_space(text, self._at)
            first = text[self._at : self._at + 1]
            if first in _CLOSING:
                self._open.append((_CLOSING[first], self._at + 1))
                self._at, self._is_key_next = self._at + 1, first == "{"
            elif first in ("}", "]"):
                self._close(first)
            elif first in (",", ":"):
                self._at += 1
                is_object = bool(self._open) and self._open[-1][0] == "}"
                self._is_key_next = is_object and first == ","
            elif not first or not self._read_scalar(text):
                return

    def _close(self, bracket: str) -> None:
        if self._open:
            self._open.pop()
        self._at += 1
        self._end_value()

    def _read_scalar(self, text: str) -> bool:
        """Read a string, a number or a word; False if it may continue."""
        found = _STRING.match(text, self._at)
        if found is not None:
            end = found.end() + 1
            if text[found.end() : end] != '"':
                return False
        else:
            word = _WORD.match(text, self._at)
            # Text that is not JSON stops the reading here.
            if word is None or word.end() == len(text):
                return False
            end = word.end()
        self._at = end
        if not self._is_key_next:
            self._end_value()
        return True

    def _end_value(self) -> None:
        self._is_key_next = False
        if self._open:
            self._open[-1] = self._open[-1][0], self._at
        else:
            self._end = self._at


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _decoded(text: str) -> Iterator[Json]:
    """Yield the value of a JSON text, nothing if it is none."""
    try:
        yield msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
