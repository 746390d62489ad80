"""The simulator as a separate process, so that its CPU is not counted."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["serving", "tool_calls_then_answer"]


def tool_calls_then_answer(calls: int) -> dict[str, object]:
    """Return a scenario: *calls* turns with one call of ``lookup`` each, then an answer."""
    turns: list[object] = [
        {"tool_calls": [{"name": "lookup", "arguments": {"key": f"k{turn}"}}]}
        for turn in range(calls)
    ]
    return {"replies": [*turns, {"text": "That is all."}]}


@contextmanager
def serving(scenario: Mapping[str, object]) -> Generator[str]:
    """Serve *scenario* on a free port; yields the base URL."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.json"
        file.write_text(json.dumps(scenario))
        command = [sys.executable, "-m", "upshot.sim", "--port", "0", "--scenario", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()
