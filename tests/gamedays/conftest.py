"""Incidents caused with real processes; run by ``make gamedays``, because they take minutes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gamedays.game_day import GameDay

if "UPSHOT_GAMEDAYS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def day(tmp_path: Path) -> Iterator[GameDay]:
    """A folder with processes and a Prometheus that watches them."""
    with GameDay(tmp_path) as found:
        yield found
