"""The list of conversations is read a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from upshot.contract import AgentResult, Request, RunSettled, RunStarted
from upshot.journal import open_journal
from upshot.journal.run_list import RunQuery
from upshot.journal.sql.conversations import list_conversations

_START = datetime(2026, 1, 1, tzinfo=UTC)
_COUNT = 200
_TURNS = 3


class Counting:
    """A connection that counts statements and the rows that they gave.

    Args:
        connection: Of the journal.
        only: Those are counted that hold this text.
    """

    def __init__(self, connection: Any, *, only: str = "") -> None:
        self._connection, self._only = connection, only
        self.statements = self.rows = 0

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        rows = self._connection.execute(statement, values).fetchall()
        if self._only in statement:
            self.statements += 1
            self.rows += len(rows)
        return _Rows(rows)


class _Rows(list[Any]):
    def fetchall(self) -> list[Any]:
        return self

    def fetchone(self) -> Any:
        return self[0] if self else None


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_page_of_many_conversations_is_one_statement(
    tmp_path: Path, newest_first: bool
) -> None:
    async with open_journal(tmp_path / "j.db") as journal:
        for number in range(_COUNT * _TURNS):
            start: Any = {"run_id": f"r{number}", "time": _START + timedelta(seconds=number)}
            request = Request("go", context_id=f"talk-{number % _COUNT}")
            journal.append(RunStarted(seq=1, request=request, **start))
            journal.append(RunSettled(seq=2, result=AgentResult(run_id=f"r{number}"), **start))

        def look(connection: Any) -> tuple[list[Any], Counting]:
            counting = Counting(connection)
            wanted = RunQuery(limit=20)
            return list_conversations(counting, wanted, newest_first=newest_first), counting

        await journal.flush()
        page, counting = await journal.read(look)
        whole = await journal.conversations(newest_first=newest_first)
    last = range(_COUNT - 1, _COUNT - 21, -1) if newest_first else range(20)
    assert [one.id for one in page] == [f"talk-{number}" for number in last]
    assert list(whole[:20]) == page and len(whole) == _COUNT
    assert (counting.statements, counting.rows) == (1, 20 * _TURNS)
