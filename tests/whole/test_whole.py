"""A few of the cases of ``make whole``, the same each time."""

from __future__ import annotations

from pathlib import Path

from tests.whole.__main__ import search


async def test_random_runs_are_told_as_they_were(tmp_path: Path) -> None:
    broken = await search(range(1, 13), str(tmp_path))
    assert not broken
