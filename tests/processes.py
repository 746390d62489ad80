"""Processes that tests start: none outlives its test by much, whatever it waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import AnyStr

__all__ = ["LOADED", "run_to_its_kill", "watched"]

MAX_S = 60
LOADED = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
"""What some Pythons need to start; for processes started without our environment."""


def watched(process: subprocess.Popen[AnyStr]) -> subprocess.Popen[AnyStr]:
    """Kill *process* after a minute, which ends every read from it and wait for it."""
    timer = threading.Timer(MAX_S, process.kill)
    timer.daemon = True
    timer.start()
    return process


def run_to_its_kill(program: Path, *arguments: Path) -> None:
    """Run a Python *program* that ends by killing itself, with this project's source."""
    source = Path(__file__).resolve().parents[1] / "src"
    done = subprocess.run(
        [sys.executable, program, *arguments],
        env={**os.environ, "PYTHONPATH": str(source)},
        timeout=MAX_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
