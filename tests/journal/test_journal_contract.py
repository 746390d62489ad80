from pathlib import Path

import pytest

from upshot.journal import MemoryJournal, SqliteJournal
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
