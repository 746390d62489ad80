"""The cost of importing upshot, in fresh interpreters."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from bench.interleave import ROUNDS

__all__ = ["start_up"]

BASE = "import asyncio, msgspec, decimal"
OURS = f"""{BASE}
from upshot import Agent, run, tool
@tool(effect="read")
def look(key: str) -> str:
    "Look a key up."
    return key
agent = Agent("a", model="openai:gpt-5", tools=[look])"""


def start_up() -> None:
    """CPU of the import and of an agent with one tool, against the libraries under it."""
    spent: dict[str, list[float]] = {OURS: [], BASE: []}
    # Installed packages have been compiled, so that is done before the first round.
    _cpu_s(OURS)
    for _ in range(ROUNDS):
        for code, times in spent.items():
            times.append(_cpu_s(code))
    ours, base = (statistics.median(spent[code]) for code in (OURS, BASE))
    print(
        f"import upshot and make an agent with one tool\n  upshot {ours * 1e3:.1f} ms, "
        f"asyncio + msgspec + decimal {base * 1e3:.1f} ms CPU: {ours / base:.2f}x (aim <= 1.5x)"
    )


def _cpu_s(code: str) -> float:
    timed = f"import time\nbegun = time.process_time()\n{code}\nprint(time.process_time() - begun)"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", timed], capture_output=True, text=True, check=True, env=env
    )
    return float(done.stdout)
