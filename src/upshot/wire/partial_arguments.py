"""Arguments of a call that come value by value, each with the path to its place."""

from __future__ import annotations

import re
from typing import Final, cast

from ..contract import Json, JsonObject
from .document import as_text

__all__ = ["PartialArguments"]

_STEP: Final = re.compile(
    r"\.(?P<name>[^.\[\]'\"]+)|\[(?P<index>[0-9]{1,9})\]"
    r"|\[(?:'(?P<single>(?:[^'\\]|\\.)*)'|\"(?P<double>(?:[^\"\\]|\\.)*)\")\]"
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_MAX_STEPS: Final = 100


class PartialArguments:
    """Arguments while they are being written.

    A text may come in pieces: the next piece for the same path is added to it while the last one
    said that it goes on. A path that names no place is passed over, and so is an index that leaves
    a gap: a value goes where the next one would.

    Attributes:
        value: The arguments so far.

    Source:
        https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling,
        "Stream function call arguments"; read November 2025.
    """

    __slots__ = ("_open_path", "value")

    def __init__(self) -> None:
        self.value: JsonObject = {}
        self._open_path = ""

    def add(self, piece: JsonObject) -> None:
        """Put one value, or one piece of a text, into its place."""
        path = as_text(piece.get("jsonPath"))
        steps = _to_steps(path)
        if not steps:
            return
        value = _value_of(piece)
        _put(self.value, steps, value, grows=path == self._open_path)
        self._open_path = path if piece.get("willContinue") else ""


def _to_steps(path: str) -> list[str | int]:
    """The names and indexes in *path*, none where it is no path from the root."""
    steps: list[str | int] = []
    place = 1
    while path.startswith("$") and place < len(path):
        found = _STEP.match(path, place)
        if found is None or len(steps) == _MAX_STEPS:
            return []
        place = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            quoted = found["single"] if found["single"] is not None else found["double"]
            steps.append(found["name"] or _ESCAPE.sub(r"\1", quoted or ""))
    return steps


def _value_of(piece: JsonObject) -> Json:
    names = ("stringValue", "numberValue", "boolValue")
    return next((piece[name] for name in names if piece.get(name) is not None), None)


def _put(root: JsonObject, steps: list[str | int], value: Json, *, grows: bool) -> None:
    holder: Json = root
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if following is None:
            old = _get(holder, step)
            if grows and isinstance(old, str) and isinstance(value, str):
                value = old + value
            _set(holder, step, value)
            return
        inner = _get(holder, step)
        wanted = list if isinstance(following, int) else dict
        if not isinstance(inner, wanted):
            inner = cast("Json", wanted())
            _set(holder, step, inner)
        holder = inner


def _get(holder: Json, step: str | int) -> Json:
    if isinstance(holder, dict):
        return holder.get(str(step))
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        return holder[step]
    return None


def _set(holder: Json, step: str | int, value: Json) -> None:
    if isinstance(holder, dict):
        holder[str(step)] = value
    elif isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        holder[step] = value
    elif isinstance(holder, list):
        holder.append(value)
