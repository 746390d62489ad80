"""Lists the effects of a journal, the unknown ones first, settles one, and prints receipts."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO, cast

from rich.text import Text

from upshot.cli.app_runs import app_of
from upshot.cli.listing import plain_table
from upshot.cli.lookup import (
    answer_each,
    command_line,
    existing_journal,
    find_run,
    read_moment,
    user_name,
)
from upshot.cli.report import UNKNOWN_STYLE
from upshot.cli.terminal import Terminal
from upshot.cli.timeline import fit
from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.structs import JsonObject
from upshot.contract.base.words import clean, count, duration
from upshot.contract.codec import encode
from upshot.contract.effects import EffectEntry
from upshot.contract.protocols import Journal
from upshot.effects.receipts import BrokenReceipts, check_receipts, receipts
from upshot.effects.settling import SHORT_ID_CHARS, find_effect, needs_ledger, settle
from upshot.errors import Misuse
from upshot.journal.opening import open_journal

_HEADING = ("id", "state", "effect", "run", "call", "started (UTC)", "settled")
# The first of the columns that move below the others if there is no room.
_PLACE = 3
_MAX_CHARS = 60


async def list_effects(
    terminal: Terminal,
    *,
    journal: str,
    unknown: bool,
    tool: str,
    key: str,
    wanted: str,
    limit: int,
) -> int:
    """Print the effects of a journal: the unknown ones first, each group newest first."""
    async with open_journal(existing_journal(journal), create=False) as log:
        found = await needs_ledger(log).effects(
            state="unknown" if unknown else None,
            tool=tool,
            key=key,
            run_id=await _run_id(log, wanted),
            # One extra shows whether there are more.
            limit=limit + 1 if limit else None,
        )
    shown = found[:limit] if limit else found
    if terminal.as_json:
        terminal.answer(shown)
        return 0
    if not shown:
        terminal.report("no effect is unknown" if unknown else "there are no such effects")
        return 0
    terminal.say_rows(_rows(shown, SYSTEM_CLOCK.now(), terminal.free_width))
    if len(found) > len(shown):
        terminal.report(f"there are more: --limit shows more than {limit}")
    if shown[0].state == "unknown":
        terminal.report("Settle what may have happened, once you have looked:")
        words = ("effects", "settle", _short_id(shown[0]), "--applied")
        terminal.hint(command_line(*words, journal=journal))
    return 0


async def settle_effects(
    terminal: Terminal,
    *,
    wanted: tuple[str, ...],
    journal: str,
    applied: bool,
    none: bool,
    by: str,
    note: str,
) -> int:
    """Settle unknown effects, and print their entries; exit with 1 if another settlement won.

    Raises:
        Misuse: There is no such unknown effect, or not exactly one of *applied* and *none* is set.
    """
    if applied == none:
        raise Misuse("say whether the effect was made: give one of --applied and --none")
    async with open_journal(existing_journal(journal), create=False) as log:
        ledger = needs_ledger(log)

        async def settle_one(named: str) -> tuple[object, str, str]:
            entry = await find_effect(ledger, named)
            known = await settle(ledger, entry.id, applied=applied, by=by or user_name(), note=note)
            line = clean(f"{known} was settled as {known.state}{_settled_text(known)}")
            is_so = (known.state == "applied") == applied
            return known, line, "" if is_so else "the first answer counts: yours was not used"

        return await answer_each(terminal, wanted, settle_one)


async def check_effect(terminal: Terminal, *, wanted: str, target: str, journal: str) -> int:
    """Ask an App's tools about an unknown effect; exit with 1 if it is still unknown.

    Raises:
        Misuse: There is no such unknown effect, or no such App.
    """
    app, _ = app_of(target, journal)
    async with app:
        entry = await find_effect(needs_ledger(await app.open()), wanted)
        found = await app.check(entry.id)
    known = found.effect
    terminal.answer(found, clean(f"{known} is {known.state}{_settled_text(known)}"))
    if not terminal.as_json:
        terminal.report(clean(found.said))
        if found.seen is not None:
            terminal.report(f"seen: {clean(encode(found.seen).decode())}")
    return 1 if known.state == "unknown" else 0


async def export_effects(
    terminal: Terminal, *, journal: str, since: str, verify: str, anchor: str
) -> int:
    """Print the receipts of effects, or check a file of them; exit with 1 if it is broken.

    Raises:
        Misuse: A file cannot be read or written, or *since* is not a moment.
    """
    if verify:
        if since:
            raise Misuse("--since and --verify exclude each other: a file has its own start")
        return _verify(terminal, verify, anchor)
    moment = read_moment(since, "--since") if since else None
    async with open_journal(existing_journal(journal), create=False) as log:
        ledger = needs_ledger(log)
        entries = await (ledger.effects(since=moment) if moment else ledger.effects())
    line: JsonObject = {}
    for line in receipts(entries, at=SYSTEM_CLOCK.now(), since=moment):
        terminal.put_json(encode(line))
    if anchor:
        with _open_file("--anchor", anchor, "a") as file:
            file.write(f"{encode(line).decode()}\n")
    return 0


def _verify(terminal: Terminal, path: str, anchor: str) -> int:
    with _open_file("--verify", path) as file:
        try:
            head = check_receipts(file)
        except BrokenReceipts as error:
            terminal.report(f"{path}: {error}")
            return 1
    if anchor:
        with _open_file("--anchor", anchor) as file:
            is_kept = any(f'"{head.digest}"' in line for line in file)
        if not is_kept:
            terminal.report(
                f"{path}: {anchor} has another head: lines were removed, or written again"
            )
            return 1
    terminal.say(f"{count(head.total, 'receipt')}, all as made", f"head {head.digest}")
    return 0


@contextmanager
def _open_file(option: str, path: str, mode: str = "r") -> Generator[TextIO]:
    try:
        with Path(path).open(mode, encoding="utf-8", errors="replace") as file:
            yield cast("TextIO", file)
    except OSError as error:
        raise Misuse(f"{option} {path} cannot be used: {error.strerror}") from None


async def _run_id(log: Journal, wanted: str) -> str:
    """Return the id of the run that *wanted* names, which may have been removed since."""
    if not wanted or await needs_ledger(log).effects(run_id=wanted, limit=1):
        return wanted
    return await find_run(log, wanted)


def _rows(entries: Sequence[EffectEntry], now: datetime, width: int | None) -> Iterator[Text]:
    """Yield a line for each effect; if wider than *width*, the last columns go below it."""
    cells = [_cells(entry, now) for entry in entries]
    lines = [*plain_table([_HEADING, *cells])]
    is_wide = width is not None and max(line.cell_len for line in lines) > width
    if is_wide:
        lines = [*plain_table([row[:_PLACE] for row in (_HEADING, *cells)])]
    yield lines[0]
    for entry, row, line in zip(entries, cells, lines[1:], strict=True):
        if entry.state == "unknown":
            line.stylize(UNKNOWN_STYLE)
        yield line
        if is_wide:
            below = ", ".join(filter(None, row[_PLACE:]))
            yield Text(f"  {fit(below, max(1, (width or 0) - 2)).rstrip()}", no_wrap=True)


def _cells(entry: EffectEntry, now: datetime) -> tuple[str, ...]:
    started = entry.started_at
    return (
        _short_id(entry),
        _state(entry, now),
        _cut(str(entry)),
        clean(entry.run_id),
        clean(entry.call_id),
        "" if started is None else f"{started:%Y-%m-%d %H:%M}",
        _cut(_settled_text(entry).strip()),
    )


def _state(entry: EffectEntry, now: datetime) -> str:
    """Return the state of an effect; for an unknown one also since when."""
    since = entry.ended_at or entry.started_at
    if entry.state != "unknown" or since is None:
        return entry.state
    return f"unknown for {duration((now - since).total_seconds())}"


def _settled_text(entry: EffectEntry) -> str:
    known = entry.settled
    if known is None:
        return ""
    return f" by {known.by or 'nobody named'}{f': {known.note}' if known.note else ''}"


def _cut(text: str) -> str:
    text = clean(text)
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 3]}..."


def _short_id(entry: EffectEntry) -> str:
    return entry.id[:SHORT_ID_CHARS]
