"""Account: what a run used in earlier sittings, as its log says, counted again."""

from __future__ import annotations

from ..clock import SYSTEM_CLOCK
from ..contract import Budget, ToolDenied
from ..tools.artifacts import READER_NAME
from .kin import Spent
from .ledger import Ledger
from .past import Past

__all__ = ["restore", "spent_in"]


def restore(ledger: Ledger, past: Past) -> None:
    """Bring *ledger*, new, to where the log of its run stands, earlier attempts apart."""
    for response in past.responses[: past.responses_before]:
        ledger.note(response)
    _add_children(ledger, past, earlier=True)
    ledger.since_mark()
    for response in past.responses[past.responses_before :]:
        ledger.note(response)
    _add_children(ledger, past, earlier=False)
    for _ in range(past.lost_calls):
        ledger.add_unfinished()
    for record in past.records:
        if not isinstance(record.outcome, ToolDenied) and record.tool_name != READER_NAME:
            ledger.count_tool(record.tool_name)
    ledger.turns, ledger.turns_before = past.turns, past.turns_before


def spent_in(past: Past) -> Spent:
    """What all sittings of a run used so far."""
    ledger = Ledger(Budget(), clock=SYSTEM_CLOCK)
    restore(ledger, past)
    return Spent(ledger.usage, ledger.cost, dict(ledger.tool_calls), past.ended)


def _add_children(ledger: Ledger, past: Past, *, earlier: bool) -> None:
    for run_id, spent in past.children.items():
        if spent is not None and (run_id in past.children_before) is earlier:
            ledger.add_spent(spent.usage, spent.cost, spent.tools)
