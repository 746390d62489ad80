"""Command lines that a person can type to go on from here."""

from __future__ import annotations

import shlex

from .run_lookup import DEFAULT_JOURNAL

__all__ = ["command_line"]


def command_line(*words: str, journal: str) -> str:
    """An ``upshot`` command as it can be typed, with the journal where it is not the default."""
    named = () if journal == DEFAULT_JOURNAL else ("--journal", journal)
    return shlex.join(("upshot", *words, *named))
