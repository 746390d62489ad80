"""The log: durable facts of runs, in a file or in memory."""

from typing import TYPE_CHECKING

from upshot.journal.artifact_store import MemoryArtifactStore, Pruned
from upshot.journal.event_codec import Damage
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.open_journal import open_journal
from upshot.journal.run_list import RemovedRuns

if TYPE_CHECKING:
    from upshot.journal.sqlite.sqlite_journal import SqliteJournal

__all__ = [
    "Damage",
    "LeaseHolder",
    "MemoryArtifactStore",
    "MemoryJournal",
    "Pruned",
    "RemovedRuns",
    "SqliteJournal",
    "open_journal",
]


def __getattr__(name: str) -> object:
    # SQLite is loaded by those who keep a log in a file.
    if name == "SqliteJournal":
        from upshot.journal.sqlite.sqlite_journal import SqliteJournal

        return SqliteJournal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
