"""The subcommands about a whole journal: salvage, tables, health, search index."""

from __future__ import annotations

import time
from typing import Any

import click

from upshot.cli.listing import make_journal, salvage_journal, show_health
from upshot.cli.lookup import existing_journal
from upshot.cli.options import JOURNAL, JSON, PATH, Group, flag, run_command
from upshot.cli.terminal import Terminal
from upshot.contract.base.words import count
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.journal.sql.search_rows import SqlSearch

__all__ = ["health", "index", "journal", "salvage"]

_REPORT_S = 2.0


@click.command(short_help="Save what can be read of a damaged log.")
@click.argument("journal", metavar="JOURNAL", type=PATH)
@click.argument("new_path", metavar="NEW", type=PATH)
@JSON
def salvage(**options: Any) -> int:
    """Copy what can be read of a damaged JOURNAL into a NEW one; the damaged one is only read.

    It keeps the events of each run before the first one that is lost.
    """
    return run_command(salvage_journal, **options)


@click.group(cls=Group, short_help="Manage a journal in PostgreSQL.")
def journal() -> None:
    """Manage a journal in a PostgreSQL database."""


@journal.command(short_help="Create its tables.")
@click.argument("url", metavar="URL")
def init(url: str) -> int:
    """Create the tables of a journal in a PostgreSQL database, or upgrade them to this version.

    URL is postgresql://user@host:port/database. Its user needs permission to create a schema; the
    users that work on runs need only use it.
    """
    return run_command(make_journal, url=url)


@click.command(short_help="Show whether a journal can be used.")
@JOURNAL
@JSON
def health(**options: Any) -> int:
    """Show whether a journal can be written, which processes work on its runs, and what is due.

    The exit code is 1 if it cannot be written.
    """
    return run_command(show_health, **options)


@click.command(short_help="Make the search index of a journal, or drop it.")
@flag("--drop", "Drop it; searches read the logs again.")
@JOURNAL
@JSON
def index(**options: Any) -> int:
    """Make a search index of a journal, which finds runs by any text in arguments and outputs.

    Workers keep it up to date. If this ends early, they go on; or run it again, which adds the runs
    that are missing.
    """
    return run_command(_index_journal, **options)


async def _index_journal(terminal: Terminal, *, journal: str, drop: bool) -> int:
    """Make or drop a search index, and print what it has."""
    async with open_journal(existing_journal(journal), create=False) as log:
        if not isinstance(log, SqlSearch):
            raise Misuse(f"{journal} has no search index: name a journal in a file or a database")
        if drop:
            was_there = await log.drop_search_index()
            done = "dropped the search index" if was_there else "there is no search index"
            terminal.answer({"dropped": was_there}, done)
            return 0
        await log.make_search_index()
        report_at = time.monotonic() + _REPORT_S
        while await log.index_runs():
            if time.monotonic() > report_at and not terminal.as_json:
                report_at = time.monotonic() + _REPORT_S
                state = await log.search_index()
                if state is not None:
                    terminal.report(f"{state.runs} of {state.runs + state.left} runs")
        state = await log.search_index()
    if state is None:
        raise Misuse("another process has dropped the search index")
    later = f", and will have {state.left} more" if state.left else ""
    terminal.answer(state._asdict(), f"the search index has {count(state.runs, 'run')}{later}")
    return 0
