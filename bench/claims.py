"""The cost of an effect's identity: the same run with and without ``once=``."""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path

import upshot
from bench.interleave import measure, show

__all__ = ["claims"]

STEPS = 100
AIM, AIM_BYTES, AIM_FAR = 1.05, 300, 1.1
FAR = 1_000_000
_NUMBERS = itertools.count()


@upshot.tool(effect="write")
async def refund(order_id: str, cents: int = 900) -> dict[str, str]:
    """Refund an order."""
    return {"id": f"re_{order_id}"}


ONCE = refund.but(once="order_id")


def claims() -> None:
    """CPU and bytes of a call with an identity, and of a claim among a million others."""
    with tempfile.TemporaryDirectory() as folder:
        plain, once, far = (Path(folder) / f"{name}.db" for name in ("plain", "once", "far"))
        figures = measure({"with once=": _runs(ONCE, once), "without": _runs(refund, plain)})
        show("identity of an effect, SQLite", figures, per=STEPS, unit="call", aim=AIM)
        calls = _count(once)
        more = (_size(once) - _size(plain)) / calls
        print(f"  {more:.0f} bytes more a call (aim <= {AIM_BYTES})")
        # Made by one run, so that the tables exist.
        measure({"": _runs(ONCE, far)}, rounds=1)
        _fill(far)
        figures = measure({"beside a million": _runs(ONCE, far), "beside few": _runs(ONCE, once)})
        show("a claim, SQLite", figures, per=STEPS, unit="call", aim=AIM_FAR)


def _runs(tool: upshot.Tool, path: Path) -> Callable[[], Coroutine[None, None, None]]:
    async def run() -> None:
        first = next(_NUMBERS) * STEPS
        script = [
            upshot.ToolCall(f"call_{number}", "refund", {"order_id": f"order-{number:06d}"})
            for number in range(first, first + STEPS)
        ]
        model = upshot.ScriptedModel([*script, "Done."])
        agent = upshot.Agent("clerk", model=model, tools=[tool])
        budget = upshot.Budget(max_turns=None)
        result = await upshot.run(agent, "Refund.", journal=str(path), budget=budget)
        assert len(result.tool_outcomes) == STEPS, result.error

    return run


def _count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM effects").fetchone()[0]


def _size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    return os.path.getsize(path)


def _fill(path: Path) -> None:
    """Add effects of runs that have ended, with ids in random order."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO effects (id, started_at, ended_at, run_no, call, state, name, key) "
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "SELECT randomblob(16), i, i, NULL, i, 1, 'refund', '{\"id\":' || i || '}' FROM n",
            (FAR,),
        )
        connection.commit()
