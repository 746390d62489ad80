"""The log: durable facts of runs, in a file or in memory."""

from typing import TYPE_CHECKING

from .artifacts import MemoryArtifactStore
from .damage import Damage
from .holder import Holder
from .memory import MemoryJournal
from .place import open_journal
from .retention import Pruned

if TYPE_CHECKING:
    from .sqlite import SqliteJournal

__all__ = [
    "Damage",
    "Holder",
    "MemoryArtifactStore",
    "MemoryJournal",
    "Pruned",
    "SqliteJournal",
    "open_journal",
]


def __getattr__(name: str) -> object:
    # SQLite is loaded by those who keep a log in a file.
    if name == "SqliteJournal":
        from .sqlite import SqliteJournal

        return SqliteJournal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
