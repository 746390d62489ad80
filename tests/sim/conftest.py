"""What the tests of the simulator share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.sim.client import Client, StillClock


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()
