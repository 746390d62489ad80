"""Question: what a parked run waits for, as it is shown to the person who answers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

from ..contract import Effect, Pending, PendingApproval, PendingQuestion, encode
from .figures import clean_lines, moment

__all__ = ["show_question"]

_INDENT = "   "
_STYLES = {Effect.READ: "green", Effect.WRITE: "yellow", Effect.DESTRUCTIVE: "red"}


def show_question(number: int, pending: Pending, *, width: int) -> Iterator[Text]:
    """The lines that show what is asked, whole: nobody may say yes to what was cut off.

    Args:
        number: Its number in the run.
        pending: What is asked.
        width: Of the terminal, in columns.
    """
    if isinstance(pending, PendingApproval):
        yield Text.assemble(
            (f"{number}. {_plain(pending.tool_name)}", "bold"),
            "  ",
            (str(pending.effect), _STYLES.get(pending.effect, "")),
            (f"  {_plain(pending.call_id)}", "dim"),
        )
        for name, value in pending.arguments.items():
            yield from _field(_plain(name), encode(value).decode(), width)
        if pending.reason:
            yield from _field("why", pending.reason, width)
    else:
        is_question = isinstance(pending, PendingQuestion)
        text = pending.question if is_question else pending.description
        head = Text.assemble((f"{number}. question", "bold"), (f"  {_plain(pending.id)}", "dim"))
        yield head
        yield from _field("asks", text, width)
        if is_question and pending.choices:
            yield from _field("choices", ", ".join(pending.choices), width)
    if pending.run_id:
        yield from _field("asked by", _plain(pending.run_id), width)
    if pending.asked_at is not None:
        expires = pending.expires_at
        until = "" if expires is None else f", until {moment(expires)}"
        yield Text(f"{_INDENT}asked {moment(pending.asked_at)}{until}", "dim")


def _field(name: str, value: str, width: int) -> Iterator[Text]:
    label = f"{_INDENT}{name}: "
    room = max(20, width - len(_INDENT) - 2)
    lines = [
        part
        for line in clean_lines(value).expandtabs().splitlines() or [""]
        for part in textwrap.wrap(line, room, drop_whitespace=False) or [""]
    ]
    if len(lines) == 1 and len(label) + len(lines[0]) <= width:
        yield Text.assemble((label, "dim"), lines[0])
        return
    yield from (
        Text(part, "dim") for part in textwrap.wrap(label, width, subsequent_indent=_INDENT)
    )
    for line in lines:
        yield Text(f"{_INDENT}  {line}")


def _plain(text: str) -> str:
    return " ".join(clean_lines(text).split())
