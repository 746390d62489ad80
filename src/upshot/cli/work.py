"""Works on the runs of an App, from the command line."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from rich.text import Text

from upshot.cli.loading import Target, check_path, choose
from upshot.cli.lookup import new_journal
from upshot.cli.terminal import Terminal, clean
from upshot.cli.timeline import fit
from upshot.fleet.app import App
from upshot.fleet.worker import Worker

_HEADING = ("run", "agent", "conversation", "why", "since (UTC)")
# Not all runs could be given back.
_NOT_CLEAN = 1
_HINT = ": define one, app = upshot.App(agents=[...], journal='runs.db')"


async def work_on_app(
    terminal: Terminal, *, target: str, journal: str, lists: bool, run_id: str, **options: Any
) -> int:
    """Take up the runs of the App of a file until a signal; gives the exit code.

    Args:
        terminal: Where to print.
        target: Which App of which file.
        journal: Where the runs are, "" where the App says.
        lists: Whether to print what is due, and end.
        run_id: The only run to work on, "" for all that are due.
        options: Those of ``Worker``.
    """
    chosen = Target(target)
    check_path(chosen.file)
    app = choose(chosen, "app", _app, hint=_HINT)
    if journal:
        app.journal = new_journal(journal)
    async with app:
        if lists:
            return await _list(terminal, app)
        options["alone"] = _alone(target, journal, options)
        worker, loop = Worker(app, **options), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.stop)
        terminal.tell(f"working on {', '.join(app.agents)}, version {app.version}")
        is_clean = await (worker.work_on(run_id) if run_id else worker.work())
        return 0 if is_clean else _NOT_CLEAN


def _alone(target: str, journal: str, options: dict[str, Any]) -> list[str]:
    """The command that works on one run alone."""
    own = [sys.executable, "-m", "upshot", "work", target, "--grace", str(options["grace_s"])]
    return [*own, *(["--journal", journal] if journal else []), "--run"]


async def _list(terminal: Terminal, app: App) -> int:
    """Print the runs of the App that somebody has to take up now."""
    rows: list[tuple[str, ...]] = [_HEADING]
    for one in await app.due():
        since = "" if one.at is None else f"{one.at:%Y-%m-%d %H:%M:%S}"
        rows.append((one.run_id, clean(one.agent_id), clean(one.conversation), one.reason, since))
    if len(rows) == 1:
        terminal.tell("no run is due")
        return 0
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (" ".join(map(fit, cells, widths)).rstrip() for cells in rows)
    terminal.say_rows(Text(line, no_wrap=True, overflow="crop") for line in lines)
    return 0


def _app(value: object) -> App | None:
    return value if isinstance(value, App) else None
