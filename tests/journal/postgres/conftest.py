from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.postgres import PostgresServer
from upshot.journal import PostgresJournal


@pytest.fixture
def url(postgres: PostgresServer, database: str) -> str:
    """The URL of an empty journal."""
    return postgres.url(database)


@pytest.fixture
async def journal(url: str) -> AsyncIterator[PostgresJournal]:
    opened = await PostgresJournal.open(url)
    yield opened
    await opened.aclose()
