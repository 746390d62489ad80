"""A place for a gateway."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.gateway.kit import Place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Place]:
    """With a shop in this process."""
    async with Place(tmp_path).opened() as place:
        yield place


@pytest.fixture
def bare_place(tmp_path: Path) -> Place:
    """With no shop yet."""
    return Place(tmp_path)
