"""A git repository, read only: nothing outside it and nothing untracked can be seen."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from upshot import Misuse, ToolError

__all__ = ["Repository", "find_repository"]

GIT_TIMEOUT_S = 30
MAX_FILE_BYTES = 2_000_000

# A repository may be a stranger's: its configuration must start no program, and git must neither
# write to it nor ask anybody anything.
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "--no-pager")
GIT_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


@dataclass(frozen=True)
class Repository:
    """A git repository with at least one commit.

    Attributes:
        root: Its top folder, resolved.
    """

    root: Path

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every tracked file that is there, by its path from the root, in order."""
        listed = self.git("ls-files", "-z").split("\0")
        return tuple(sorted(name for name in listed if name and self._inside(name) is not None))

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.root.name

    def git(self, *arguments: str, fine: tuple[int, ...] = (0,)) -> str:
        """What ``git`` prints.

        Args:
            arguments: Its own.
            fine: Exit codes that are no failure.

        Raises:
            ToolError: It fails, or takes longer than GIT_TIMEOUT_S.
        """
        try:
            done = subprocess.run(
                [*GIT, *arguments],
                cwd=self.root,
                env={**os.environ, **GIT_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=GIT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ToolError(f"git {arguments[0]} took over {GIT_TIMEOUT_S} s") from error
        if done.returncode not in fine:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise ToolError(said[0] if said else f"git {arguments[0]} failed", retryable=False)
        return done.stdout.decode("utf-8", "replace")

    async def head(self) -> str:
        """The commit that is checked out now."""
        process = await asyncio.create_subprocess_exec(
            *GIT,
            "rev-parse",
            "HEAD",
            cwd=self.root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return said.decode().strip()

    def text(self, name: str) -> str | None:
        """The text of a tracked file; None where it is binary, or over MAX_FILE_BYTES.

        Raises:
            ToolError: The repository tracks no such file.
        """
        path = self._inside(name) if name in self._tracked else None
        if path is None:
            raise ToolError(f"the repository tracks no file {name!r}", retryable=False)
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES or b"\0" in data[:8000]:
            return None
        return data.decode("utf-8", "replace")

    def size(self, name: str) -> int:
        """Bytes of a tracked file."""
        return (self.root / name).stat().st_size

    @cached_property
    def _tracked(self) -> frozenset[str]:
        return frozenset(self.files)

    def _inside(self, name: str) -> Path | None:
        """The real path of a file; None for what is no file, or leads out of the repository."""
        path = (self.root / name).resolve()
        return path if path.is_file() and path.is_relative_to(self.root) else None


def find_repository() -> Repository:
    """The repository to survey: DEMO_REPO, else the one round this folder, else this example's.

    Raises:
        Misuse: It is none, or has no commits or files.
    """
    named = os.environ.get("DEMO_REPO")
    places = [Path(named)] if named else [Path.cwd(), Path(__file__).parent]
    for place in places:
        top = _top(place)
        if top is not None:
            return _checked(Repository(top))
    where = named or "the folder of this example"
    raise Misuse(f"{where} is no git repository: name one, DEMO_REPO=path")


def _top(folder: Path) -> Path | None:
    """The root of the repository round *folder*, None where there is none."""
    try:
        said = subprocess.run(
            [*GIT, "rev-parse", "--show-toplevel"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        if folder.is_dir():
            raise Misuse("git is needed for this example: install it") from error
        return None
    except NotADirectoryError:
        return None
    top = said.stdout.strip()
    return Path(top).resolve() if said.returncode == 0 and top else None


def _checked(repository: Repository) -> Repository:
    try:
        repository.git("rev-parse", "--verify", "HEAD")
    except ToolError as error:
        raise Misuse(f"{repository.root} has no commits yet") from error
    if not repository.files:
        raise Misuse(f"{repository.root} tracks no files")
    return repository
