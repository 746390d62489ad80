"""Finding a journal, and a run in it."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from ..contract import Journal, RunSummary
from ..errors import Misuse
from .story import Story

__all__ = [
    "DEFAULT_JOURNAL",
    "LAST",
    "MEMORY",
    "existing_journal",
    "find_run",
    "left_behind",
    "new_journal",
    "outermost",
    "read_story",
    "uncollected",
]

DEFAULT_JOURNAL = ".upshot/runs.db"
LAST = "last"
MEMORY = "memory:"


def new_journal(where: str) -> str:
    """Where a run may write its log.

    Args:
        where: A path, "memory:" or a URL; the folder of the default path is made, with a
            .gitignore in it, since a log holds whatever the tools saw.

    Returns:
        The same, a path made absolute, so that a change of folder does not lose it.

    Raises:
        Misuse: That folder cannot be made, or nothing be written in it.
    """
    if _is_no_path(where):
        return where
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
    """Where a log is that shall be read.

    Raises:
        Misuse: There is none.
    """
    if where == MEMORY:
        raise Misuse("memory: keeps nothing: give the file of a journal, --journal FILE")
    if _is_no_path(where):
        return where
    path = Path(where).absolute()
    if path.is_dir():
        raise Misuse(f"{where} is a folder: give the file of a journal, --journal FILE")
    if not path.is_file():
        raise Misuse(f"there is no journal {where}: give the one of the run, --journal FILE")
    return str(path)


async def find_run(journal: Journal, wanted: str) -> str:
    """The id of the run that *wanted* names.

    Args:
        journal: Where to look.
        wanted: Its id, a beginning of it that no other has, or "last": the newest that no
            other run has started.

    Raises:
        Misuse: There is none, or several.
    """
    runs = await journal.runs()
    ids = [run.run_id for run in runs]
    if wanted in ids:
        return wanted
    if not ids:
        raise Misuse("the journal has no runs yet")
    if wanted == LAST:
        return next((run.run_id for run in runs if not run.parent_run_id), ids[0])
    begun = [run_id for run_id in ids if run_id.startswith((wanted, f"run-{wanted}"))]
    if wanted and len(begun) == 1:
        return begun[0]
    if wanted and begun:
        raise Misuse(f"several runs begin with {wanted}: {_some(begun)}")
    near = get_close_matches(wanted, ids, 3, cutoff=0.5)
    hint = f"did you mean {_some(near)}?" if near else f"there are {_some(ids)}"
    raise Misuse(f"the journal has no run {wanted!r}: {hint}")


def left_behind(runs: Iterable[RunSummary]) -> frozenset[str]:
    """The runs that are open while one round them has ended, so that nobody there waits for them.

    Args:
        runs: All that a journal has.
    """
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
    """The run round *run_id* that no other is round, as far as a journal knows; else itself.

    Args:
        runs: All that the journal has.
        run_id: The run inside.
    """
    known = {run.run_id: run for run in runs}
    seen = {run_id}
    while run_id in known and known[run_id].parent_run_id in known.keys() - seen:
        run_id = known[run_id].parent_run_id
        seen.add(run_id)
    return run_id


async def read_story(journal: Journal, run_id: str) -> Story:
    """Read all that the log has of a run."""
    story = Story()
    with uncollected():
        async for event in journal.events(run_id):
            story.add(event)
    return story


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the garbage collector away: all that is read stays, and it would look for a third of
    the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_no_path(where: str) -> bool:
    return where == MEMORY or "://" in where


def _some(ids: list[str]) -> str:
    shown = ", ".join(ids[:3])
    return shown if len(ids) <= 3 else f"{shown} and {len(ids) - 3} more"
