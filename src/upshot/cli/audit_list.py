"""Prints the audit of a journal: who saw, answered, settled and operated what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from upshot.cli.listing import plain_table
from upshot.cli.lookup import existing_journal, find_run, read_filters, read_moment
from upshot.cli.terminal import Terminal
from upshot.cli.timeline import fit
from upshot.contract.base.words import clean, count
from upshot.contract.codec import encode
from upshot.journal.audit import MOST_ROWS, AuditRow, needs_audit
from upshot.journal.opening import open_journal

_HEADING = ("when (UTC)", "who", "did", "what", "run")


async def list_audit(
    terminal: Terminal,
    *,
    journal: str,
    wanted: str,
    limit: int,
    lines: bool,
    remove_before: str,
    **filters: Any,
) -> int:
    """Print rows of the audit, newest first, or all of them as lines of JSON; or remove old ones.

    Args:
        terminal: The terminal to print on.
        journal: The journal.
        wanted: Only acts on this run; "" for all.
        limit: The most rows, 0 for all.
        lines: Whether to print a line of JSON for each row, and all rows.
        remove_before: Remove the rows before this moment instead; "" to print rows.
        filters: Further ones, those of ``AuditFilters``; "" for all.
    """
    found_by = read_filters(filters)
    async with open_journal(existing_journal(journal), create=False) as log:
        audit = needs_audit(log)
        if remove_before:
            removed = await audit.remove_audit(read_moment(remove_before, "--remove-before"))
            terminal.answer({"removed": removed}, f"removed {count(removed, 'row')}")
            return 0
        if wanted:
            found_by["run_id"] = await find_run(log, wanted)
        most = 0 if lines else limit
        found, place = list[AuditRow](), 0
        while most == 0 or len(found) < most:
            size = min(MOST_ROWS, most - len(found)) if most else MOST_ROWS
            page = await audit.audit(**found_by, limit=size, before=place)
            if lines:
                for row in page.rows:
                    terminal.put_json(encode(row))
            else:
                found += page.rows
            if (place := page.next or 0) == 0:
                break
    if not lines:
        _print(terminal, found, has_more=place > 0)
    return 0


def _print(terminal: Terminal, found: list[AuditRow], *, has_more: bool) -> None:
    if terminal.as_json:
        terminal.answer(found)
        return
    if not found:
        terminal.report("there are no such rows")
        return
    terminal.say_rows(_rows(found, terminal.free_width))
    if has_more:
        terminal.report(f"there are more: --limit shows more than {len(found)}")


def _rows(found: list[AuditRow], width: int | None) -> Iterator[Text]:
    """Yield two lines for each row: the act, and below it the arguments and the door."""
    lines = plain_table([_HEADING, *map(_cells, found)])
    yield next(lines)
    for row, line in zip(found, lines, strict=True):
        yield line
        arguments = "" if row.arguments is None else encode(row.arguments).decode()
        below = clean("  ".join(filter(None, (arguments, row.detail, row.door, row.address))))
        yield Text(f"  {fit(below, max(1, (width or 200) - 2)).rstrip()}", "dim", no_wrap=True)


def _cells(row: AuditRow) -> tuple[str, ...]:
    who = f"{row.user or 'an unnamed user'}{f' of {row.tenant}' if row.tenant else ''}"
    what = f"{row.tool} {row.subject}".strip()
    when = "" if row.at is None else f"{row.at:%Y-%m-%d %H:%M:%S}"
    return tuple(map(clean, (when, who, row.action, what, row.run_id)))
