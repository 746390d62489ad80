"""Sentence: what went wrong, in one line that a model can read."""

from __future__ import annotations

import re

from ..contract import clean_text

__all__ = ["named", "one_line", "without_traceback"]

_MAX_CHARS = 2_000
_MARK = "Traceback (most recent call last):"
_BARS = " |+-\t"
_PLACE = re.compile(r'File "[^"]*", line \d+(?:, in \S+)?')
# The first words of what was raised, where the lines of a traceback were joined to one.
_RAISED = re.compile(r"\b[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit)(?=:|\s*$)")
# Of a group of exceptions each line begins with a bar.
_BAR = re.compile(r"^ *[|+](?:-\+)? ?")
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


def one_line(text: str) -> str:
    """*text* in one line, at most 2,000 characters, without any traceback."""
    if _MARK in text:
        text = without_traceback(text)
    line = clean_text(" ".join(text.split())) or "The tool failed without a message."
    return line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 3] + "..."


def named(error: BaseException) -> str:
    """The kind of *error*, and what it says where it says anything; never raises."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # somebody else's exception may fail even here, and has to be told
        text = ""
    text = without_traceback(text)
    return f"{name}: {text}" if text.strip() else name


def without_traceback(text: str) -> str:
    """What *text* says before its tracebacks, and what the last of them ends with."""
    before, mark, after = text.partition(_MARK)
    if not mark:
        return text
    after = after.rpartition(_MARK)[2] if _MARK in after else after
    for chained in _CHAINED:
        before = before.partition(chained)[0]
    before = before.rstrip(_BARS + "\r\n").removesuffix("Exception Group").rstrip(_BARS + "\r\n")
    said = _ending(after) if "\n" in after.strip() else _joined_ending(after)
    return f"{before} {said}".strip()


def _ending(traceback: str) -> str:
    """The lines after the frames: what was raised."""
    lines = [_BAR.sub("", line) for line in traceback.splitlines()]
    last = max((n for n, line in enumerate(lines) if line.lstrip().startswith('File "')), default=0)
    for place, line in enumerate(lines[last:], last):
        # The code of a frame, and the marks under it, stand further in than what was raised.
        if line.strip() and not line.startswith(" "):
            return " ".join(one for one in lines[place:] if one.strip(_BARS))
    return ""


def _joined_ending(traceback: str) -> str:
    """The same of lines that were joined to one before."""
    frames = list(_PLACE.finditer(traceback))
    rest = traceback[frames[-1].end() :] if frames else traceback
    raised = [found.start() for found in _RAISED.finditer(rest)]
    # The code of the last frame may name what it raises; it is told once more after it.
    return rest[raised[-1] :].strip() if raised else ""
