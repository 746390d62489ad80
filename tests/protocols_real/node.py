"""Node and the packages that are installed beside the environment."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
PACKAGES = BIN.parent / "node" / "node_modules"
# Newer than what some systems have.
NODE = str(BIN / "node")

needs_node = pytest.mark.skipif(
    not PACKAGES.is_dir(), reason="make protocols installs the packages"
)


class Script:
    """A script of this folder that does what it is told: a line of JSON in, and one out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, *words: Any) -> dict[str, Any]:
        """Have it do something; gives what it knows then.

        Raises:
            AssertionError: It found a fault, or went away.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert line, f"the script went away at {words}"
        now = json.loads(line)
        assert now["faults"] == [], now["faults"]
        return now


@asynccontextmanager
async def script(name: str) -> AsyncGenerator[Script]:
    """Run a script; it is given the folder of the packages."""
    process = await asyncio.create_subprocess_exec(
        NODE,
        str(Path(__file__).parent / name),
        str(PACKAGES),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        yield Script(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
