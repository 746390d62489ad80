from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from upshot.journal import MemoryJournal, PostgresJournal, SqliteJournal
from upshot.testing import JournalContract


class TestMemoryJournal(JournalContract):
    def make(self) -> MemoryJournal:
        return MemoryJournal()


class TestSqliteJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path):
        self.folder = tmp_path
        self.made = 0

    async def make(self) -> SqliteJournal:
        self.made += 1
        return await SqliteJournal.open(self.folder / f"{self.made}.db")


class TestPostgresJournal(JournalContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer):
        self.server = postgres

    async def make(self) -> PostgresJournal:
        return await PostgresJournal.open(self.server.url(self.server.new_journal()))
