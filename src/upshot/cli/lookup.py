"""Finds journals and runs; reads ids and inputs from the command line."""

from __future__ import annotations

import gc
import getpass
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from upshot.cli.terminal import Terminal
from upshot.contract.base.checks import nearest
from upshot.contract.base.structs import JsonObject
from upshot.contract.pending import Answer
from upshot.contract.protocols import Journal, RunSummary
from upshot.entry.answers import show_answer, unlogged_answers, with_placed_approvals
from upshot.entry.resume import with_settlements
from upshot.errors import Misuse
from upshot.journal.audit import add_act
from upshot.journal.lease_holder import RunHeld
from upshot.journal.opening import ARCHIVE, SQLITE_MEMORY
from upshot.journal.postgres.urls import safe_place
from upshot.runs.resumption import answered
from upshot.state.activity import Activity
from upshot.state.stored_events import seeds_of, states

DEFAULT_JOURNAL = ".upshot/runs.db"
LAST = "last"
MEMORY = "memory:"
# A similar id, and the last active run, are searched among this many of the newest.
_MAX_NAMED = 1_000
_MOMENTS = ("since", "until")
_NEVER = datetime.min.replace(tzinfo=UTC)


def user_name() -> str:
    """Return the name of the user of this process; "" if it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # The process's user has no name.
        return ""


def new_journal(where: str) -> str:
    """Return the place where a run may write its log."""
    if _is_no_path(where):
        return where
    if where == SQLITE_MEMORY:
        raise Misuse(f"{SQLITE_MEMORY} is SQLite's name for it: give --journal {MEMORY}")
    path = Path(where).absolute()
    if where == DEFAULT_JOURNAL:
        try:
            _make_folder(path.parent)
        except OSError as error:
            folder = Path(where).parent
            raise Misuse(
                f"the folder {folder} for the journal cannot be made: {error.strerror}: give "
                f"--journal FILE elsewhere, or --journal {MEMORY}, which keeps none"
            ) from error
    return str(path)


def _make_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")


def existing_journal(where: str) -> str:
    """Return the place of a log to read."""
    if where == MEMORY:
        raise Misuse("memory: keeps nothing: give the file of a journal, --journal FILE")
    if _is_no_path(where):
        return where
    path = Path(where).absolute()
    if path.is_dir():
        raise Misuse(f"{where} is a folder: give the file of a journal, --journal FILE")
    if not path.is_file():
        raise Misuse(f"there is no journal {where}: give the journal of the run, --journal FILE")
    return str(path)


async def find_run(journal: Journal, wanted: str, act: str = "") -> str:
    """Return the id of the run that *wanted* names.

    Args:
        journal: The journal.
        wanted: An id, the start of one, or "last".
        act: What is about to be done with the run, for the audit; "" for nothing that it notes.
    """
    run_id = await _find_run(journal, wanted)
    if act:
        await add_act(journal, act, run_id=run_id)
    return run_id


async def _find_run(journal: Journal, wanted: str) -> str:
    if wanted and await journal.runs(run_id=wanted):
        return wanted
    if wanted == LAST:
        newest = await journal.runs(parent_run_id="", limit=_MAX_NAMED)
        newest = newest or await journal.runs(limit=_MAX_NAMED)
        if newest:
            # Of several with the same time this is the first, which is the newest.
            return max(newest, key=lambda run: run.updated_at or run.started_at or _NEVER).run_id
    begun = [
        run.run_id
        for prefix in ((wanted, f"run-{wanted}") if wanted else ())
        for run in await journal.runs(prefix=prefix, limit=_MAX_NAMED)
    ]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise Misuse(f"several runs begin with {wanted}: {_some(begun)}")
    ids = [run.run_id for run in await journal.runs(limit=_MAX_NAMED)]
    if not ids:
        raise Misuse("the journal has no runs yet")
    near = nearest(wanted, ids, count=3, cutoff=0.5)
    hint = f"did you mean {_some(near)}?" if near else f"there are {_some(ids)}"
    raise Misuse(f"the journal has no run {wanted!r}: {hint}")


async def with_parents(journal: Journal, runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the runs, followed by their parent runs that are missing among them."""
    known = {run.run_id: run for run in runs}
    missing = {run.parent_run_id for run in known.values()} - known.keys() - {""}
    while missing:
        found = [run for one in missing for run in await journal.runs(run_id=one)]
        known.update({run.run_id: run for run in found})
        missing = {run.parent_run_id for run in found} - known.keys() - {""}
    return [*known.values()]


def left_behind(runs: Iterable[RunSummary]) -> frozenset[str]:
    """Return the open runs whose parent run has ended, so that nothing waits for their result."""
    known = {run.run_id: run for run in runs}
    left: set[str] = set()
    for run in known.values():
        outer = known.get(run.parent_run_id)
        seen = {run.run_id}
        while outer is not None and not outer.ended and outer.run_id not in seen:
            seen.add(outer.run_id)
            outer = known.get(outer.parent_run_id)
        if outer is not None and outer.ended and not run.ended:
            left.add(run.run_id)
    return frozenset(left)


def outermost(runs: Iterable[RunSummary], run_id: str) -> str:
    """Return the topmost parent run of *run_id* that the journal knows, or itself."""
    known = {run.run_id: run for run in runs}
    seen = {run_id}
    while run_id in known and known[run_id].parent_run_id in known.keys() - seen:
        run_id = known[run_id].parent_run_id
        seen.add(run_id)
    return run_id


async def read_activity(journal: Journal, run_id: str) -> Activity:
    """Read everything that the log has of a run."""
    activity = Activity()
    with uncollected():
        async for event, state in states(journal.events(run_id), seeds=seeds_of(journal)):
            activity.add(event, state)
    if activity.result is not None:
        result = await with_placed_approvals(activity.result, journal)
        activity.result = await with_settlements(result, journal)
    # Answers that were placed and that no session has read yet.
    for placed in await unlogged_answers(activity.state, run_id, journal):
        given, state = placed.answer, activity.state
        asked = None if isinstance(given, Answer) else state.asked.get(given.call_id)
        event = answered(show_answer(given, state.started, asked), state)
        activity.add(replace(event, run_id=run_id, seq=activity.state.seq))
    return activity


@contextmanager
def uncollected() -> Generator[None]:
    """Turn the garbage collector off: everything read is kept, so it would only cost a third of the
    time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_no_path(where: str) -> bool:
    return where == MEMORY or "://" in where or where.startswith(ARCHIVE)


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:3])
    return shown if len(ids) <= 3 else f"{shown} and {len(ids) - 3} more"


def command_line(*words: str, journal: str) -> str:
    """Return an ``upshot`` command to type, with the journal if it is not the default."""
    named = () if journal == DEFAULT_JOURNAL else ("--journal", safe_place(journal))
    return shlex.join(("upshot", *words, *named))


_RUN_ID = re.compile(r"\w[\w.:/-]{0,199}")


def check_run_id(run_id: str) -> None:
    """Check that a command line can name such a run; "" means that no id was chosen."""
    if run_id == LAST:
        raise click.UsageError(f"--run-id {LAST}: this names the last run: give another id")
    if run_id and not _RUN_ID.fullmatch(run_id):
        raise click.UsageError(
            f"--run-id {run_id!r}: give letters, digits and any of . _ - : / after the first, "
            "such as run-7"
        )


def read_inputs(given: Sequence[str]) -> JsonObject:
    """Return variables from ``NAME=VALUE``; a value that is not JSON is a string."""
    inputs: JsonObject = {}
    for item in given:
        name, sign, text = item.partition("=")
        if not (name and sign):
            raise click.UsageError(f"--input {item}: give a name and a value, such as n=3")
        try:
            inputs[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            inputs[name] = text
    return inputs


def standard_input() -> str:
    """Return all of stdin as text."""
    if sys.stdin is None:  # It was closed.
        raise click.UsageError("the request - reads stdin, which is closed")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def read_filters(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the filters that were typed, the moments among them read.

    Raises:
        Misuse: ``since`` or ``until`` is not a moment.
    """
    typed = {name: text for name, text in given.items() if text}
    moments = {name: read_moment(typed[name], f"--{name}") for name in _MOMENTS if name in typed}
    return {**typed, **moments}


def read_moment(text: str, option: str = "--at") -> datetime:
    """Return a typed moment; without a time zone it is in UTC.

    Raises:
        Misuse: It is not a moment.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Misuse(
            f"{option} is {text!r}: give a moment such as 2027-01-31T08:00 or "
            "2027-01-31T08:00+01:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def answer_each(
    terminal: Terminal,
    wanted: Sequence[str],
    act: Callable[[str], Awaitable[tuple[object, str, str]]],
) -> int:
    """Act on each of *wanted*, and print what was found; a fault of one does not stop the others.

    Args:
        terminal: Where to print. JSON is an object for one, and a list for several.
        wanted: What the command line names, at least one.
        act: Returns the value for JSON, its line, and a complaint, "" without one.

    Returns:
        The exit code: 2 if one could not be done, else 1 if there is a complaint.

    Raises:
        Misuse, RunHeld: There is only one, and it cannot be done.
    """
    values, codes = list[object](), {0}
    for one in wanted:
        try:
            value, line, complaint = await act(one)
        except (Misuse, RunHeld) as error:
            if len(wanted) == 1:
                raise
            terminal.report(f"upshot: {error}")
            codes.add(2)
            continue
        values.append(value)
        if not terminal.as_json:
            terminal.say(line)
        if complaint:
            terminal.report(complaint)
            codes.add(1)
    if terminal.as_json:
        terminal.answer(values[0] if len(wanted) == 1 else values)
    return max(codes)
