"""Works on the runs of an App, from the command line."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
from typing import Any

from rich.text import Text

from upshot.cli.loading import Target, check_path, choose
from upshot.cli.lookup import journal_of
from upshot.cli.terminal import Terminal
from upshot.cli.timeline import fit
from upshot.contract.base.words import clean
from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.fleet.notifier import notifying
from upshot.fleet.worker import Worker
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.sql.sql_journal import SqlJournal

_HEADING = ("run", "agent", "state", "why or who", "since (UTC)")
# Not all runs could be given back.
_NOT_CLEAN = 1
_HINT = ": define one, app = upshot.App(agents=[...], journal='runs.db')"


async def work_on_app(
    terminal: Terminal,
    *,
    target: str,
    journal: str,
    lists: bool,
    is_fed: bool,
    notify_url: str,
    console_url: str,
    **options: Any,
) -> int:
    """Take up the runs of the App of a file until a signal; gives the exit code.

    Args:
        terminal: Where to print.
        target: Which App of which file.
        journal: Where the runs are, "" where the App says, or the place of the command line.
        lists: Whether to print what is worked on and what is due, and end.
        is_fed: Whether to work on the runs that are named by the socket at the standard input.
        notify_url: Where to tell what waits for people, "" for nowhere.
        console_url: Where people reach the console, "" for nowhere.
        options: Those of ``Worker``.
    """
    chosen = Target(target)
    check_path(chosen.file)
    app = choose(chosen, "app", _app, hint=_HINT)
    app.journal = journal_of(app.journal, journal)
    try:
        if lists:
            return await _list(terminal, app)
        options["alone"] = _alone(target, journal, options)
        worker, loop = Worker(app, **options), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.stop)
        terminal.tell(f"working on {', '.join(app.agents)}, version {app.version}")
        feed = _feed() if is_fed else None
        async with notifying(app, notify_url, console_url):
            is_clean = await (worker.work() if feed is None else worker.work_on_each(feed))
        return 0 if is_clean else _NOT_CLEAN
    finally:
        await app.aclose()


def _alone(target: str, journal: str, options: dict[str, Any]) -> list[str]:
    """The command of a process that works on one run at a time."""
    own = [sys.executable, "-m", "upshot", "work", target, "--grace", str(options["grace_s"])]
    own += ["--park-over", str(options["park_over_s"])]
    return [*own, *(["--journal", journal] if journal else []), "--fed"]


def _feed() -> socket.socket:
    """The socket at the standard input, over which runs are named."""
    try:
        return socket.socket(fileno=os.dup(sys.stdin.fileno()))
    except OSError:
        raise Misuse(
            "--fed needs a socket as standard input, which a worker gives the processes that it "
            "starts: leave it out"
        ) from None


async def _list(terminal: Terminal, app: App) -> int:
    """Print the runs of the App that are worked on, and those that somebody has to take up."""
    journal = await app.open()
    holders = await journal.holders() if isinstance(journal, SqlJournal) else {}
    rows: list[tuple[str, ...]] = [_HEADING]
    for run in await app.runs("running", limit=None):
        if run.agent_id in app.agents and (holder := holders.get(run.run_id)) is not None:
            rows.append((run.run_id, clean(run.agent_id), "at work", _who(holder), _left(holder)))
    whys = [""] * len(rows)
    for one in await app.due():
        holder = holders.get(one.run_id)
        state, why = (
            ("died", "" if holder is None else _who(holder))
            if one.at is None
            else ("due", one.reason)
        )
        since = "" if one.at is None else f"{one.at:%Y-%m-%d %H:%M:%S}"
        rows.append((one.run_id, clean(one.agent_id), state, why, since))
        whys.append(await app.why_left(one))
    if len(rows) == 1:
        terminal.tell("no run is due, and none is worked on")
        return 0
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[Text] = []
    for cells, why in zip(rows, whys, strict=True):
        line = " ".join(map(fit, cells, widths)).rstrip()
        lines.append(Text(line, no_wrap=True, overflow="crop"))
        # As long as it is.
        lines += [Text(f"  left here: {clean(why)}")] if why else []
    terminal.say_rows(lines)
    return 0


def _who(holder: LeaseHolder) -> str:
    """The process that has a run, or had it."""
    return f"{holder.pid}@{clean(holder.host)}" if holder.pid > 0 else ""


def _left(holder: LeaseHolder) -> str:
    """Until when it has the run."""
    left_s = holder.lease_s
    return "" if left_s is None or not 0 < left_s < math.inf else f"{left_s:.0f} s left"


def _app(value: object) -> App | None:
    return value if isinstance(value, App) else None
