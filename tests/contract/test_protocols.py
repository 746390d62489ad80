"""Waiting for what one holder of a run has logged, in journals of every age."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import Agent, ScriptedModel, run
from upshot.contract.protocols import takes_epoch
from upshot.journal import MemoryJournal, SqliteJournal


class Old(MemoryJournal):
    async def durable(self, run_id: str, seq: int) -> None:  # type: ignore[override]
        await super().durable(run_id, seq)


class Open(MemoryJournal):
    async def durable(self, run_id: str, seq: int, **more: Any) -> None:
        await super().durable(run_id, seq, **more)


class Handing:
    """Has no method of its own."""

    def __init__(self) -> None:
        self._journal = MemoryJournal()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


@pytest.mark.parametrize(
    ("kind", "takes"),
    [(MemoryJournal, True), (SqliteJournal, True), (Open, True), (Old, False), (Handing, False)],
)
def test_a_journal_is_told_the_epoch_where_it_takes_one(kind: type, *, takes: bool) -> None:
    assert takes_epoch(kind) is takes


@pytest.mark.parametrize("kind", [Old, Open, Handing])
async def test_runs_work_with_journals_of_every_age(kind: type) -> None:
    agent = Agent("a", model=ScriptedModel(["Hi."]))
    assert (await run(agent, "?", journal=kind())).content == "Hi."
