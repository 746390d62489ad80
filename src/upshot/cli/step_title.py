"""What a step of the log is called for people: its key is made for finding it again."""

from __future__ import annotations

import re

from ..runs.kin import child_of

__all__ = ["step_title"]

# "machine-1/", with the attempt.
_ENGINE = re.compile(r"(?:graph|machine)-\d+/")
# What an engine notes for itself: where it began, with which machine, how a wait is called.
_NOTE = re.compile(r"(?:graph|machine)-\d+/(?:start|machine|question-.*)|.*:enter|wait:.+#\d+")
# "draft#2~3": the second visit, its third try.
_PLACE = re.compile(r"(?P<name>.+?)(?:#(?P<visit>\d+))?(?:~(?P<tries>\d+))?")


def step_title(key: str) -> str:
    """The name of a step.

    Args:
        key: By which the log knows it.

    Returns:
        The state or node of an engine, with its visit and try where that is not the first; the id
        of a run inside; any other key as it is. "" for what an engine only notes for itself.
    """
    child = child_of(key)
    if child is not None:
        return "reported usage" if re.fullmatch(r"reported-\d+-\d+", child) else child
    if _NOTE.fullmatch(key):
        return ""
    engine = _ENGINE.match(key)
    if engine is None:
        return key
    return "/".join(_place(part) for part in key[engine.end() :].split("/"))


def _place(part: str) -> str:
    found = _PLACE.fullmatch(part)
    if found is None:
        return part
    visit, tries = found["visit"] or "1", found["tries"] or "1"
    again = f" {visit}" if visit != "1" else ""
    return f"{found['name']}{again}{f', try {tries}' if tries != '1' else ''}"
