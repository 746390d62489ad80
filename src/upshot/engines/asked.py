"""Asked: what agents inside a graph or machine are asked where nobody says it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..contract import Json, Message, Role

__all__ = ["ask_about", "asked_in"]


def asked_in(messages: Sequence[Message], feedback: str, *, otherwise: str = "") -> str:
    """The text of the last message; what a decider wants changed follows what was asked.

    Args:
        messages: Those of the main channel.
        feedback: Why this attempt is made, "" for the first. It is the last that was seeded,
            and alone it would say what to change in a task that is not told.
        otherwise: What was asked where no message says it.
    """
    last = messages[-1] if messages else None
    if last is None:
        return otherwise
    if not feedback or last.role is not Role.USER or last.text != feedback:
        return last.text
    before = messages[-2].text if len(messages) > 1 else otherwise
    return f"{before}\n\n{feedback}" if before else feedback


def ask_about(item: Json, text: str) -> str:
    """What an agent is asked that works on *item*, where *text* is all that was said."""
    written = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    return f"{text}\n\n{written}" if text else written
