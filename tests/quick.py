"""``python -m tests.quick [FILE...]``: the tests that a change most likely breaks, in a minute.

Without files it takes those that differ from the last commit, or those of the last commit if none
differ. The nearest tests come first: changed ones, those named like a changed module, those that
import one, those of its folder, and those that import what imports it. What does not fit into the
time is left out, and the last line says how many files that were: `make test` runs them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
IMPORT = re.compile(r"^ *from (upshot[.\w]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
LIMIT_S = 45.0
"""No test starts after so many seconds."""


def changed_files() -> list[str]:
    """The files that differ from the last commit, new ones too; else those of the last commit."""
    now = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    return now or _git("diff", "--name-only", "HEAD~1")


def nearest_tests(changed: Iterable[str], *, farthest: int = 4) -> list[str]:
    """The test files that concern *changed* paths, the nearest first; *farthest* is a rank."""
    paths = [Path(one) for one in changed if one.endswith(".py")]
    modules = {_module_of(one) for one in paths if one.parts[0] == "src"}
    users = _users_of(modules)
    ranked: list[tuple[int, str]] = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        place = test.relative_to(ROOT)
        if place.parts[1].endswith("_real"):
            continue
        rank = _rank(place, paths, modules, users)
        if rank is not None and rank <= farthest:
            ranked.append((rank, str(place)))
    return [place for _, place in sorted(ranked)]


def _rank(test: Path, changed: Sequence[Path], modules: set[str], users: set[str]) -> int | None:
    """How near a test is, 0 the nearest; None if it has nothing to do with the change."""
    if test in changed:
        return 0
    folder = "/".join(test.parts[1:-1])
    for module in modules:
        *package, name = module.split(".")[1:]
        if folder == "/".join(package) and test.stem.startswith(f"test_{name}"):
            return 1
    imported = _imported_by(test)
    if imported & modules:
        return 2
    if any(folder == "/".join(module.split(".")[1:-1]) for module in modules):
        return 3
    return 4 if imported & users else None


@cache
def _imported_by(test: Path) -> set[str]:
    """The modules of upshot that a test names in its imports."""
    found: set[str] = set()
    for module, several, one in IMPORT.findall((ROOT / test).read_text("utf-8")):
        names = re.findall(r"(\w+)(?: as \w+)?,?\n?", several or one)
        found |= {module, *(f"{module}.{name}" for name in names)}
    return found


def _users_of(modules: set[str]) -> set[str]:
    """The modules that import one of *modules*."""
    graph = _graph()
    known = [one for one in modules if one in graph.modules]
    return {user for one in known for user in graph.find_modules_that_directly_import(one)}


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("upshot")


def _module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")


def _git(*arguments: str) -> list[str]:
    said = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return said.stdout.split()


class Limit:
    """Ends a session of pytest when its time is over."""

    def __init__(self) -> None:
        self._until = time.monotonic() + LIMIT_S
        self.left: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """Note what is left when the loop has ended."""
        self._session = session
        return (yield)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Stop after a test if the time is over."""
        if time.monotonic() > self._until:
            ids = [item.nodeid for item in self._session.items]
            self.left = {one.split("::")[0] for one in ids[ids.index(nodeid) + 1 :]}
            self._session.shouldstop = "the time is over"


def main(arguments: Sequence[str]) -> int:
    """Run the nearest tests; returns the exit code of pytest, 0 if it was stopped by the limit."""
    tests = nearest_tests(arguments or changed_files())
    if not tests:
        print("no test concerns this change: `make test` runs them all")
        return 0
    limit = Limit()
    code = int(
        pytest.main(["-q", "-x", "-p", "no:xdist", "-m", "not slow", *tests], plugins=[limit])
    )
    if limit.left:
        print(f"{len(limit.left)} of {len(tests)} test files did not fit: `make test` runs them")
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return 0
    return 0 if code == pytest.ExitCode.INTERRUPTED and limit.left else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
