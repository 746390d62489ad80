"""The lab of a site: experiments and their reports, and the datasets that its users collect.

Experiments are in a journal of their own, which is only read here: no worker resumes a run of it,
and nobody can answer, stop or fork one, since outside the lab its tools would be real.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from upshot.contract.base.structs import Moment
from upshot.contract.protocols import Journal
from upshot.contract.user import User
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.journal.postgres.urls import is_url
from upshot.lab.dataset import Case, Dataset, case_of
from upshot.lab.kept_reports import KeptExperiment, experiments, kept_report
from upshot.lab.report import Report
from upshot.lab.report_page import ReportNodes, report_page
from upshot.runs.plan import Where
from upshot.serve import replies
from upshot.serve.permissions import Missing, Need, Refused, may_use_lab

# How many cases a part of a report has, so that a page never draws for long.
_CASES = 50
# How many runs are added to a dataset at once, and how many cases it may have.
_MOST_RUNS = 1_000
_MOST_CASES = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_SUFFIX = ".jsonl"
_MOST_REPORTS = 4


class SiteLab:
    """What a site shows of the lab.

    Args:
        where: The journal of the experiments; None if the site shows none. It may be made later.
        folder: The folder of the datasets; None if the site keeps none.
    """

    def __init__(self, where: Where | None, folder: str | os.PathLike[str] | None) -> None:
        self._where = where or None
        self._folder = Path(folder) if folder else None
        self._opened: Journal | None = None
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        # Reports as they are drawn, by name and end.
        self._drawn: dict[tuple[str, Moment | None], ReportNodes] = {}

    def is_shown_to(self, user: User) -> bool:
        """Whether a user sees the lab."""
        return self._exists and may_use_lab(user)

    @property
    def keeps_datasets(self) -> bool:
        """Whether runs can be added to datasets."""
        return self._folder is not None

    @property
    def _exists(self) -> bool:
        return self._where is not None or self._folder is not None

    async def aclose(self) -> None:
        """Close the journal."""
        self._opened = None
        await self._stack.aclose()

    async def overview(self, user: User) -> replies.LabPage:
        """Return the experiments and the datasets.

        Raises:
            Missing: The site has no lab.
            Refused: The user may not see it.
        """
        self.check(user)
        journal = await self._journal()
        return replies.LabPage(
            experiments=() if journal is None else await experiments(journal),
            datasets=await asyncio.to_thread(self._datasets),
            keeps_datasets=self.keeps_datasets,
        )

    async def part(self, user: User, name: str, after: int) -> replies.ReportPart:
        """Return a part of a report as nodes: its head and the first cases, or further cases.

        Raises:
            Missing: There is no such experiment, or it has no report yet.
            Refused: The user may not see it.
        """
        entry = await self._entry(user, name)
        drawn = self._drawn.get((name, entry.ended_at))
        if drawn is None:
            drawn = ReportNodes(await self._report(entry), has_links=True)
            while len(self._drawn) >= _MOST_REPORTS:
                self._drawn.pop(next(iter(self._drawn)))
            self._drawn[name, entry.ended_at] = drawn
        # The intervals of a large report take seconds.
        head = [] if after else await asyncio.to_thread(drawn.head)
        end = after + _CASES
        return replies.ReportPart(
            name=name,
            nodes=[*head, *drawn.cases(after, end)],
            next=end if end < len(drawn.order) else None,
        )

    async def file(self, user: User, name: str) -> str:
        """Return a report as a file that needs nothing else.

        Raises:
            Missing: There is no such experiment, or it has no report yet.
            Refused: The user may not see it.
        """
        report = await self._report(await self._entry(user, name))
        return await asyncio.to_thread(report_page, report)

    async def run_of(self, user: User, run_id: str, need: Need) -> RunHandle | None:
        """Return the handle of a run of an experiment; None if there is none that the user may see.

        Raises:
            Refused: The user wants more than to see it.
        """
        if not self.is_shown_to(user):
            return None
        journal = await self._journal()
        if journal is None or not await journal.runs(run_id=run_id):
            return None
        if need != "see":
            raise Refused(
                f"{run_id[:80]!r} is a run of the lab, which is only read here: outside the lab "
                "its tools would be real"
            )
        return RunHandle(run_id, journal)

    async def add(
        self, user: User, name: str, journal: Journal, runs: Sequence[str], filters: dict[str, Any]
    ) -> replies.CasesAdded:
        """Add runs to a dataset, which is made if there is none; known cases stay as they are.

        Args:
            user: The user.
            name: The dataset.
            journal: The journal of the App.
            runs: The ids of runs that the user may see.
            filters: Those of ``Dataset.from_journal``; used if *runs* is empty.

        Raises:
            Missing: The site keeps no datasets.
            Refused: The user may not add to them.
            Misuse: The name is not allowed, no run fits, or the dataset would be too large.
        """
        path = self._path_of(user, name)
        if runs:
            made = [await case_of(run_id, journal) for run_id in runs[:_MOST_RUNS]]
            cases = [case for case in made if case is not None]
        else:
            cases = [*await Dataset.from_journal(journal, limit=_MOST_RUNS, **filters)]
        if not cases:
            raise Misuse("no run fits that has started")
        async with self._lock:
            return await asyncio.to_thread(_extend, path, name, cases)

    def read(self, user: User, name: str) -> bytes:
        """Return the file of a dataset.

        Raises:
            Missing: There is no such dataset.
            Refused: The user may not see it.
        """
        path = self._path_of(user, name)
        if not path.is_file():
            raise Missing(f"there is no dataset {name[:80]!r}")
        return path.read_bytes()

    def _path_of(self, user: User, name: str) -> Path:
        self.check(user)
        if self._folder is None:
            raise Missing("this site keeps no datasets: give datasets= or --datasets a folder")
        if not _NAME.fullmatch(name):
            raise Misuse(
                f"a dataset's name has letters, digits, '.', '_' and '-', got {name[:80]!r}"
            )
        return self._folder / f"{name.removesuffix(_SUFFIX)}{_SUFFIX}"

    def check(self, user: User) -> None:
        """Raise Missing if the site has no lab, and Refused if the user may not see it."""
        if not self._exists:
            raise Missing("this site shows no lab: give lab= or --lab the journal of experiments")
        if not may_use_lab(user):
            raise Refused("that takes the role 'view' for the runs of all tenants")

    async def _entry(self, user: User, name: str) -> KeptExperiment:
        self.check(user)
        journal = await self._journal()
        found = () if journal is None else await experiments(journal)
        entry = next((one for one in found if one.name == name), None)
        if entry is None:
            raise Missing(f"there is no experiment {name[:80]!r}")
        return entry

    async def _report(self, entry: KeptExperiment) -> Report:
        journal = await self._journal()
        report = None if journal is None else await kept_report(journal, entry.name)
        if report is None:
            raise Missing(f"the experiment {entry.name!r} has no report yet: it has not ended")
        return report

    async def _journal(self) -> Journal | None:
        """Return the journal of the experiments; None as long as it has not been made."""
        where = self._where
        if self._opened is not None or where is None:
            return self._opened
        is_file = isinstance(where, str | os.PathLike) and not is_url(str(where))
        if is_file and str(where) != "memory:" and not Path(str(where)).exists():
            return None
        async with self._lock:
            if self._opened is None:
                block = open_journal(where, create=False)
                self._opened = await self._stack.enter_async_context(block)
        return self._opened

    def _datasets(self) -> tuple[replies.DatasetLine, ...]:
        if self._folder is None or not self._folder.is_dir():
            return ()
        lines: list[replies.DatasetLine] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found = Dataset.read(path)
            except (Misuse, ValueError) as error:
                lines.append(replies.DatasetLine(name=path.stem, fault=str(error)))
            else:
                lines.append(replies.DatasetLine(name=path.stem, cases=len(found)))
        return tuple(lines)


def _extend(path: Path, name: str, cases: Iterable[Case]) -> replies.CasesAdded:
    before = Dataset.read(path) if path.exists() else Dataset(name.removesuffix(_SUFFIX), ())
    after = before.with_cases(cases)
    if len(after) > _MOST_CASES:
        raise Misuse(f"{name} would have {len(after)} cases: at most {_MOST_CASES} are allowed")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".part")
    after.write(written)
    written.replace(path)
    added = len(after) - len(before)
    return replies.CasesAdded(path=str(path), added=added, cases=len(after))
