"""Removes runs from a log, or moves them into an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from upshot.cli.lookup import existing_journal, find_run
from upshot.cli.terminal import Terminal
from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.words import clean, count
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.journal.retention import plan_retention, read_retention, unknown_effects
from upshot.journal.run_list import RemovedRuns

_MAX_SHOWN = 20


async def prune_runs(
    terminal: Terminal,
    *,
    wanted: Sequence[str],
    journal: str,
    older_than_days: int | None,
    conversation: str,
    config: str,
    effects: bool,
    dry_run: bool,
) -> int:
    """Remove runs, and print what was removed and what stays."""
    if bool(wanted) + (older_than_days is not None) + bool(conversation) + bool(config) != 1:
        raise Misuse(
            "say which runs to remove: name them, or give --older-than DAYS, --conversation ID or "
            "--config FILE"
        )
    if config:
        if effects:
            raise Misuse("--effects cannot be given with --config: effects end with their keys")
        return await _prune_by_rules(terminal, config, journal, dry_run=dry_run)
    before = None
    if older_than_days is not None:
        before = SYSTEM_CLOCK.now() - timedelta(days=older_than_days)
    async with open_journal(existing_journal(journal), create=False) as log:
        run_ids = [await find_run(log, one) for one in wanted]
        unknown = {} if before is None or effects else await unknown_effects(log)
        removed = await log.remove_runs(
            run_ids,
            ended_before=before,
            keep=unknown,
            conversation=conversation,
            effects=effects,
            dry_run=dry_run,
        )
    _print(terminal, removed, dry_run=dry_run)
    stay = sum(reason in unknown.values() for reason in removed.kept.values())
    if stay and not terminal.as_json:
        verb = "stays" if stay == 1 else "stay"
        terminal.report(
            f"{count(stay, 'run')} with an unknown effect {verb}: settle it with upshot effects "
            "settle, or give --effects to remove it too"
        )
    return 0


async def _prune_by_rules(terminal: Terminal, config: str, journal: str, *, dry_run: bool) -> int:
    """Remove the runs that are older than the rules of a file allow."""
    retention = read_retention(config)
    async with open_journal(existing_journal(journal), create=False) as log:
        plan = await plan_retention(log, retention, SYSTEM_CLOCK.now())
        removed = await log.remove_runs(
            ended_before=plan.ended_before, keep=plan.keep, dry_run=dry_run
        )
    for number, rule in enumerate(retention.rules if not terminal.as_json else ()):
        old, young = count(plan.old[number], "run"), plan.young[number]
        terminal.say(clean(f"rule {number + 1} ({rule}): {old} older, {young} kept"))
    _print(terminal, removed, dry_run=dry_run)
    return 0


def _print(terminal: Terminal, removed: RemovedRuns, *, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    outputs = count(removed.artifacts, "stored output")
    terminal.answer(
        removed,
        f"{verb} {count(len(removed.run_ids), 'run')} and {outputs} ({removed.size_bytes} bytes)",
    )
    _print_kept(terminal, removed.kept)


async def archive_old_runs(
    terminal: Terminal,
    *,
    place: str,
    journal: str,
    older_than_days: int | None,
    config: str,
    restore: str,
    dry_run: bool,
) -> int:
    """Move old runs into an archive, or bring one back; print what was moved.

    Returns:
        The exit code: 1 if the archive has other runs with the ids of some, which stay.
    """
    if (older_than_days is not None) + bool(config) + bool(restore) != 1:
        raise Misuse(
            "say which runs to archive: give --older-than DAYS or --config FILE; or bring one back "
            "with --restore RUN"
        )
    from upshot.journal.archive import ArchiveFiles, archive_runs, restore_file

    async with open_journal(existing_journal(journal), create=False) as log:
        if restore:
            files = ArchiveFiles(place)
            path = files.path_of(restore)
            if not files.has(path):
                raise Misuse(f"the archive {place} has no run {restore}: give its whole id")
            run_id = await restore_file(files, path, log, in_order=True)
            terminal.answer({"run_id": run_id}, f"{run_id} is in the log again")
            return 0
        before, keep = SYSTEM_CLOCK.now(), dict[str, str]()
        if config:
            before, keep, *_ = await plan_retention(log, read_retention(config), before)
        else:
            before -= timedelta(days=older_than_days or 0)
        archived = await archive_runs(log, place, ended_before=before, keep=keep, dry_run=dry_run)
    runs = count(len(archived.run_ids), "run")
    done = f"archived {runs} in {place} ({archived.size_bytes} bytes)"
    sentence = f"would archive {runs} in {place}" if dry_run else done
    stay = count(len(archived.kept), "ended run")
    terminal.answer(archived, f"{sentence}; {stay} kept" if archived.kept else sentence)
    _print_kept(terminal, archived.kept)
    return 1 if archived.conflicts else 0


def _print_kept(terminal: Terminal, kept: Mapping[str, str]) -> None:
    for run_id, reason in [] if terminal.as_json else [*kept.items()][:_MAX_SHOWN]:
        terminal.report(clean(f"{run_id} stays: {reason}"))
    if len(kept) > _MAX_SHOWN and not terminal.as_json:
        terminal.report(f"{len(kept) - _MAX_SHOWN} more stay: --json lists them all")
