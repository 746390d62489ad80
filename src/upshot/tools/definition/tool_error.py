"""ToolError, which a body may raise, and one-line texts of exceptions."""

from __future__ import annotations

import asyncio
import math
import re
from typing import Literal

from upshot.contract.base.enums import Effect, ErrorCode, Origin
from upshot.contract.base.json_values import clean_text
from upshot.contract.error import AgentError
from upshot.errors import Misuse

_DONE = (Effect.NONE, Effect.APPLIED, Effect.UNKNOWN)


class ToolError(Exception):
    """Raised by a tool to fail with a message for the model.

    Any other exception fails the call too; this one also says what can be done about it.

    Attributes:
        message: What went wrong, in one line.
        code: A word for the error, or None.
        retryable: Whether the same call may be made again. False blocks the tool for the rest of
            the turn.
        retry_after_s: Seconds to wait before that; None if it does not matter.
        effect: What the call changed outside in spite of the failure, if the tool knows: none,
            applied or unknown. With None, a tool that may write counts as unknown.

    Raises:
        Misuse: An argument has the wrong type. Raised inside a tool, it fails the call too.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
        effect: Effect | Literal["none", "applied", "unknown"] | None = None,
    ) -> None:
        message = str(message)
        super().__init__(message)
        if code is not None and not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # tools may be untyped
            raise Misuse(f"ToolError(code={code!r}): give a word, such as 'not_found', or None")
        if not isinstance(retryable, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # the same
            raise Misuse(f"ToolError(retryable={retryable!r}): give True or False")
        if retry_after_s is not None and seconds(retry_after_s) is None:
            raise Misuse(f"ToolError(retry_after_s={retry_after_s!r}): give seconds, or None")
        if effect is not None and effect not in _DONE:
            raise Misuse(f"ToolError(effect={effect!r}): give none, applied or unknown")
        self.message = message
        self.code: str | None = code or None
        self.retryable = retryable
        self.retry_after_s: float | None = seconds(retry_after_s)
        self.effect: Effect | None = None if effect is None else Effect(effect)

    @property
    def error(self) -> AgentError:
        """The same failure as an error value, for use outside a tool call."""
        return AgentError(
            ErrorCode(self.code or ErrorCode.INTERNAL),
            str(self),
            type=type(self).__name__,
            retryable=self.retryable,
            retry_after_s=self.retry_after_s,
            origin=Origin.TOOL,
        )

    def __repr__(self) -> str:
        fields = [repr(self.message)]
        if self.code is not None:
            fields.append(f"code={self.code!r}")
        if not self.retryable:
            fields.append("retryable=False")
        if self.retry_after_s is not None:
            fields.append(f"retry_after_s={self.retry_after_s:g}")
        if self.effect is not None:
            fields.append(f"effect={self.effect!r}")
        return f"{type(self).__name__}({', '.join(fields)})"


class NotDone(ToolError):
    """Raised by a tool that certainly did nothing: the effect of the call is none.

    Attributes:
        message: Why it did nothing, in one line.
        code: A word for the error, or None.
        retryable: Whether the same call may be made again.
        retry_after_s: Seconds to wait before that; None if it does not matter.
        effect: none.

    Raises:
        Misuse: An argument has the wrong type. Raised inside a tool, it fails the call too.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        retryable: bool = True,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(
            message,
            code=code,
            retryable=retryable,
            retry_after_s=retry_after_s,
            effect=Effect.NONE,
        )


def seconds(value: object) -> float | None:
    """Return *value* as seconds, or None if it is not a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


_MAX_CHARS = 2_000
_MARK = "Traceback (most recent call last):"
_BARS = " |+-\t"
_PLACE = re.compile(r'File "[^"]*", line \d+(?:, in \S+)?')
# The start of the exception's own line, in a traceback whose lines were joined into one.
_RAISED = re.compile(r"\b[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit)(?=:|\s*$)")
# Each line of an exception group's traceback starts with a bar.
_BAR = re.compile(r"^ *[|+](?:-\+)? ?")
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


def one_line(text: str) -> str:
    """Return *text* in one line of at most 2,000 characters, without any traceback."""
    if _MARK in text:
        text = without_traceback(text)
    line = clean_text(" ".join(text.split())) or "The tool failed without a message."
    return line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 3] + "..."


def named(error: BaseException) -> str:
    """Return the type of *error* and its message, if it has one; never raises."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # an exception from elsewhere may fail even here, and still needs a text
        text = ""
    text = without_traceback(text)
    return f"{name}: {text}" if text.strip() else name


def without_traceback(text: str) -> str:
    """Return the text before the tracebacks in *text*, and the end of the last traceback."""
    before, mark, after = text.partition(_MARK)
    if not mark:
        return text
    after = after.rpartition(_MARK)[2] if _MARK in after else after
    for chained in _CHAINED:
        before = before.partition(chained)[0]
    before = before.rstrip(_BARS + "\r\n").removesuffix("Exception Group").rstrip(_BARS + "\r\n")
    ending = _ending(after) if "\n" in after.strip() else _joined_ending(after)
    return f"{before} {ending}".strip()


def _ending(traceback: str) -> str:
    """Return the lines after the frames: the exception itself."""
    lines = [_BAR.sub("", line) for line in traceback.splitlines()]
    last = max((n for n, line in enumerate(lines) if line.lstrip().startswith('File "')), default=0)
    for place, line in enumerate(lines[last:], last):
        # The code of a frame, and the marks under it, are indented further than the exception.
        if line.strip() and not line.startswith(" "):
            return " ".join(one for one in lines[place:] if one.strip(_BARS))
    return ""


def _joined_ending(traceback: str) -> str:
    """Like ``_ending``, for a traceback whose lines were joined into one."""
    frames = list(_PLACE.finditer(traceback))
    rest = traceback[frames[-1].end() :] if frames else traceback
    raised = [found.start() for found in _RAISED.finditer(rest)]
    # The code of the last frame may name the exception, which is named again after it.
    return rest[raised[-1] :].strip() if raised else ""


def is_stop(error: BaseException) -> bool:
    """Whether *error* ends the program or the running task, and was not raised by a hook itself."""
    if isinstance(error, asyncio.CancelledError):
        # A CancelledError that a hook itself raises is an error like any other.
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit)
