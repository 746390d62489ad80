"""The lease of this process on the runs that it holds."""

from __future__ import annotations

import msgspec

from upshot.journal.lease_holder import LEASE_S, MARGIN_S, RENEW_S, boot_s, this_process
from upshot.journal.sql.connection import Connection, WriteConnection

_HELD = "SELECT CAST(run_id AS TEXT) FROM runs WHERE holder = ?"
_EPOCH = "SELECT epoch FROM runs WHERE run_id = ?"
# How soon a failed renewal is retried.
_AGAIN_S = 0.5


class OwnLease:
    """The lease of this process on all runs that it holds in one journal.

    It is measured from before it was sent, and is valid once committed. The writer's thread renews
    it; the event loop checks it.

    Attributes:
        is_held: Whether it has to be renewed.
        until: When it ends, on the clock of ``boot_s``.
        safe_until: From then on no work may be started under it.
        tables: The version of the journal's tables when it was sent, 0 for unknown.
    """

    __slots__ = ("_next_s", "_sent_s", "is_held", "safe_until", "tables", "until")

    def __init__(self) -> None:
        self.is_held: bool = False
        self.until: float = 0.0
        self.safe_until: float = 0.0
        self.tables: int = 0
        self._sent_s: float | None = None
        self._next_s = 0.0

    @property
    def due_s(self) -> float | None:
        """Seconds until it has to be renewed; None if this process holds no run."""
        return max(0.0, self._next_s - boot_s()) if self.is_held else None

    def keep(self, connection: WriteConnection) -> None:
        """Record in the transaction of a claim that this process is alive."""
        if boot_s() > self._next_s:
            self._send(connection)
        self.is_held = True

    def begin_renewal(self) -> None:
        """Note that a renewal starts; if it fails, it is retried soon."""
        self._next_s = boot_s() + _AGAIN_S

    def renew(self, connection: WriteConnection) -> frozenset[str]:
        """Renew it in a transaction if this process holds any runs; returns those runs."""
        held = frozenset(run_id for (run_id,) in connection.execute(_HELD, (this_holder(),)))
        if held:
            self._send(connection)
        self.is_held = bool(held)
        return held

    def _send(self, connection: WriteConnection) -> None:
        self._sent_s = boot_s()
        self.tables = connection.keep_lease(this_holder())

    def commit(self) -> None:
        """Apply the renewal that the committed transaction sent."""
        if self._sent_s is not None:
            self.until, self._next_s = self._sent_s + LEASE_S, self._sent_s + RENEW_S
            self.safe_until, self._sent_s = self.until - MARGIN_S, None


def this_holder() -> str:
    """Return this process in the form of a run's row."""
    return msgspec.json.encode(this_process()).decode()


def claimed_epoch(connection: Connection, run_id: str) -> int:
    """Return the epoch of a run's last claim, 0 for none."""
    row = connection.execute(_EPOCH, (run_id,)).fetchone()
    return row[0] if row else 0
