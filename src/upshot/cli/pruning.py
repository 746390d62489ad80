"""Removes runs from a journal, and saves what can be read of a damaged one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from upshot.cli.lookup import existing_journal, find_run
from upshot.cli.terminal import Terminal, clean, count
from upshot.clock import SYSTEM_CLOCK
from upshot.contract.codec import encode
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.journal.run_list import RemovedRuns

_MAX_SHOWN = 20


async def prune_runs(
    wanted: Sequence[str],
    terminal: Terminal,
    *,
    journal: str,
    older_than_days: int | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Remove runs, and print what was removed and what stays."""
    if bool(wanted) == (older_than_days is not None):
        raise Misuse("say which runs to remove: name them, or give --older-than DAYS")
    before = None
    if older_than_days is not None:
        before = SYSTEM_CLOCK.now() - timedelta(days=older_than_days)
    async with open_journal(existing_journal(journal), create=False) as log:
        run_ids = [await find_run(log, one) for one in wanted]
        removed = await log.remove_runs(run_ids, ended_before=before, dry_run=dry_run)
    if as_json:
        terminal.put_json(encode(removed))
    else:
        _tell(removed, terminal, dry_run=dry_run)
    return 0


def salvage_journal(journal: str, new_path: str, terminal: Terminal, *, as_json: bool) -> int:
    """Copy what can be read of a damaged journal into a new one, and print what was lost."""
    from upshot.journal.sqlite.salvage import salvage_file

    salvaged = salvage_file(existing_journal(journal), str(Path(new_path).absolute()))
    if as_json:
        terminal.put_json(encode(salvaged))
        return 0
    terminal.say(
        f"{new_path} has {count(salvaged.runs, 'run')} with {count(salvaged.events, 'event')} and "
        f"{count(salvaged.artifacts, 'stored output')}"
    )
    for damage in salvaged.damages[:_MAX_SHOWN]:
        terminal.tell(clean(f"run {damage.run_id} ends after event {damage.sound_to}"))
    return 0


def _tell(removed: RemovedRuns, terminal: Terminal, *, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    outputs = count(removed.artifacts, "stored output")
    terminal.say(
        f"{verb} {count(len(removed.run_ids), 'run')} and {outputs} ({removed.size_bytes} bytes)"
    )
    for run_id, reason in [*removed.kept.items()][:_MAX_SHOWN]:
        terminal.tell(clean(f"{run_id} stays: {reason}"))
