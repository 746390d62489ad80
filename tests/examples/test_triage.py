"""The triage desk: hand-offs, a rule for refunds, and a person for large ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.examples.conftest import ROOT
from tests.processes import run_python
from upshot import Approve, Deny, open_journal, resume, run_with_handoffs

FOLDER = ROOT / "examples" / "triage"


@pytest.fixture(autouse=True)
def desk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's own module, its list of refunds empty."""
    monkeypatch.syspath_prepend(str(FOLDER))
    # Another test may have loaded a file of that name.
    monkeypatch.delitem(sys.modules, "desk", raising=False)
    import desk

    desk.refunds.clear()
    return desk


async def test_a_fault_goes_to_tech(desk: Any) -> None:
    result = await run_with_handoffs(desk.make_desk(), "My router is slow, line 4711.")
    assert result.state["path"] == ["triage", "tech"]
    assert "no signal" in result.unwrap()


async def test_money_goes_to_billing_and_a_small_refund_is_paid_once(desk: Any) -> None:
    result = await run_with_handoffs(
        desk.make_desk(), "Charged twice for order 7!", approve=lambda call: True
    )
    assert "12.50" in result.unwrap()
    assert desk.refunds == [(7, 1250)]


@pytest.mark.parametrize(
    ("answer", "refunds", "words"),
    [(Approve("pay"), [(12, 24000)], "240.00"), (Deny("pay", "no"), [], "A colleague")],
    ids=["approved", "denied"],
)
async def test_a_large_refund_waits_for_a_person(
    desk: Any, tmp_path: Path, answer: Any, refunds: Any, words: str
) -> None:
    agents, journal = desk.make_desk(), tmp_path / "runs.db"
    parked = await run_with_handoffs(agents, "Charged twice for order 12!", journal=journal)
    assert (parked.status, desk.refunds) == ("input_required", [])
    async with open_journal(journal) as opened:
        result = await resume(parked.run_id, agents[1], journal=opened, answers=[answer])
    assert words in result.unwrap()
    assert desk.refunds == refunds


def test_the_example_tells_its_story_within_80_columns() -> None:
    done = run_python("-W", "error", FOLDER / "triage.py", said="", text=True, check=True)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "5 of 5 tickets, 10 sessions of agents, 2 refunds, 252.50 in all."
    assert sum("waits for a person" in line for line in lines) == 1
