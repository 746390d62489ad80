"""Places that an App may have its journal in."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from upshot.journal import open_journal


@pytest.fixture(params=["memory", "file", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    """An empty journal of each kind."""
    places = {"memory": "memory:", "file": tmp_path / "j.db"}
    if request.param not in places:
        server = request.getfixturevalue("postgres")
        places["postgres"] = server.url(request.getfixturevalue("database"))
    async with open_journal(places[request.param]) as opened:
        yield opened
