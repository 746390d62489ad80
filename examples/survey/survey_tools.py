"""The tools of the survey: each reads one repository, is bounded, and changes nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec
from languages import language_of
from repository import Repository

from upshot import Tool, ToolContext, ToolError, tool

__all__ = ["CALENDAR_LINE_CHARS", "Survey"]

MAX_LANGUAGES = 8
MAX_READ_LINES = 200
MAX_READ_CHARS = 8_000
MAX_LINE_CHARS = 160
MAX_YEARS = 10
# A line of the calendar with its end; all are alike, so that a reader can count in lines.
CALENDAR_LINE_CHARS = 44
POLL_S = 0.2

Limit = Annotated[int, msgspec.Meta(ge=1, le=50)]
JsonObject = dict[str, Any]


class Survey:
    """What can be found out about one repository.

    Attributes:
        tools: All of its tools.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.tools: list[Tool] = [
            self.git_facts,
            self.list_files,
            self.count_by_language,
            self.grep,
            self.read_file,
            self.commit_calendar,
            self.wait_for_commit,
        ]

    @tool(effect="read", idempotent=True)
    def git_facts(self) -> JsonObject:
        """Say how long the repository's history is, by how many people, and when it began."""
        days = self._repository.git("log", "--format=%cs").split()
        authors = set(self._repository.git("log", "--format=%ae").splitlines())
        shallow = self._repository.git("rev-parse", "--is-shallow-repository").strip() == "true"
        return {
            "name": self._repository.name,
            "branch": self._repository.git("rev-parse", "--abbrev-ref", "HEAD").strip(),
            "commits": len(days),
            "authors": len(authors),
            "first_day": min(days),
            "last_day": max(days),
            "tags": len(self._repository.git("tag").split()),
            "history": "cut off: a shallow clone" if shallow else "whole",
        }

    @tool(effect="read", idempotent=True)
    def list_files(self, pattern: str = "*", limit: Limit = 20) -> JsonObject:
        """List tracked files, the largest first.

        Args:
            pattern: Of their paths, such as "src/*.py"; * also matches slashes.
            limit: How many are listed; all that match are counted.
        """
        sizes = {
            name: self._repository.size(name)
            for name in self._repository.files
            if fnmatchcase(name, pattern)
        }
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:limit]
        return {
            "files": len(sizes),
            "bytes": sum(sizes.values()),
            "largest": [{"file": name, "bytes": sizes[name]} for name in largest],
        }

    @tool(effect="read", idempotent=True)
    def count_by_language(self, context: ToolContext, limit: Limit = 5) -> JsonObject:
        """Count files and lines of text by language.

        Args:
            limit: How many of the longest files are named.
        """
        files: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        longest: list[tuple[int, str]] = []
        for place, name in enumerate(self._repository.files):
            if place % 500 == 499:
                context.progress(f"{place + 1:,} of {len(self._repository.files):,} files")
            text = self._repository.text(name)
            if text is None:
                continue
            number = len(text.splitlines())
            files[language_of(name)] += 1
            lines[language_of(name)] += number
            longest.append((number, name))
        return {
            "files": sum(files.values()),
            "lines": sum(lines.values()),
            "languages": _shares(files, lines),
            "longest": [
                {"file": name, "language": language_of(name), "lines": number}
                for number, name in sorted(longest, key=lambda pair: (-pair[0], pair[1]))[:limit]
            ],
        }

    @tool(effect="read", idempotent=True)
    def grep(self, pattern: str, files: str = "*", limit: Limit = 20) -> JsonObject:
        """Count the lines of tracked text files that match.

        Args:
            pattern: An extended regular expression, as of POSIX.
            files: Of the paths that are searched, such as "src/*.py".
            limit: How many files are listed; all matches are counted.
        """
        said = self._repository.git(
            "grep", "-c", "-I", "-z", "-E", "-e", pattern, "--", files, fine=(0, 1)
        )
        counts = Counter({name: int(n) for name, n in _pairs(said)})
        return {
            "matches": counts.total(),
            "files": len(counts),
            "most": [{"file": name, "matches": n} for name, n in counts.most_common(limit)],
        }

    @tool(effect="read", idempotent=True)
    def read_file(self, path: str, first_line: int = 1, lines: int = 40) -> JsonObject:
        """Read some lines of a tracked text file; what stands beyond 160 characters is left out.

        Args:
            path: From the root of the self._repository.
            first_line: Where to begin, from 1.
            lines: How many, at most 200.
        """
        text = self._repository.text(path)
        if text is None:
            raise ToolError(f"{path} is binary, or too large to read", retryable=False)
        whole = text.splitlines()
        begin = max(1, first_line)
        part = whole[begin - 1 : begin - 1 + min(max(1, lines), MAX_READ_LINES)]
        return {
            "path": path,
            "first_line": begin,
            "lines": len(part),
            "lines_in_all": len(whole),
            "text": "\n".join(line[:MAX_LINE_CHARS] for line in part)[:MAX_READ_CHARS],
        }

    @tool(effect="read", idempotent=True)
    def commit_calendar(self, days: int = 365) -> str:
        """List commits and their authors for each day, the newest first, one line a day.

        Args:
            days: How many, back from the day of the last commit.
        """
        last = date.fromisoformat(self._repository.git("log", "-1", "--format=%cs").strip())
        number = min(max(1, days), 366 * MAX_YEARS)
        since = last - timedelta(days=number)
        log = self._repository.git("log", f"--since={since} 00:00", "--format=%cs %ae")
        return _calendar(log.splitlines(), last, number)

    @tool(effect="read", repeatable=True, timeout_s=1.0)
    async def wait_for_commit(self) -> JsonObject:
        """Wait until somebody commits, to see whether the repository is being worked on now."""
        before = now = await self._repository.head()
        while now == before:
            await asyncio.sleep(POLL_S)
            now = await self._repository.head()
        return {"commit": now, "before": before}


def _shares(files: Counter[str], lines: Counter[str]) -> list[JsonObject]:
    """Languages by lines, with their share; what is rare is put together."""
    total = max(1, lines.total())
    rows: list[JsonObject] = []
    for language, number in lines.most_common(MAX_LANGUAGES):
        share = f"{100 * number / total:.1f} %"
        rows.append(
            {"language": language, "files": files[language], "lines": number, "share": share}
        )
    return rows


def _pairs(said: str) -> Iterable[tuple[str, str]]:
    """Names and counts as ``git grep -c -z`` prints them."""
    for line in said.splitlines():
        name, zero, number = line.rpartition("\0")
        if zero:
            yield name, number


def _calendar(commits: Iterable[str], last: date, days: int) -> str:
    """One line of CALENDAR_LINE_CHARS a day, from *last* back; commits are "day author"."""
    number: Counter[str] = Counter()
    authors: dict[str, set[str]] = {}
    for commit in commits:
        day, _, author = commit.partition(" ")
        number[day] += 1
        authors.setdefault(day, set()).add(author)
    lines: list[str] = []
    for back in range(days):
        day = last - timedelta(days=back)
        people = len(authors.get(day.isoformat(), ()))
        commits_of_day = number[day.isoformat()]
        lines.append(f"{day} {day:%a}  commits {commits_of_day:>5}  authors {people:>4}")
    return "".join(f"{line}\n" for line in lines)
