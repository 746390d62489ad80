"""The help desk: what its policy asks of 200 tickets, and what 200 attacks come to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.examples.conftest import ROOT
from tests.processes import run_python
from upshot import PendingApproval, Status, ToolExecutionResult, resume
from upshot.journal import MemoryJournal

FOLDER = ROOT / "examples" / "helpdesk"


@pytest.fixture(autouse=True)
def desk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's own module."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import helpdesk

    return helpdesk


async def play(desk: Any, ticket: Any) -> tuple[list[PendingApproval], Any]:
    """Work on a ticket; a person agrees to what is not in doubt, and to nothing else.

    Returns:
        The questions of the policy, and the result.
    """
    options = desk.options_for(ticket, desk.open_desk(ticket), MemoryJournal())
    result, doubtful = await desk.work_on(ticket, options), []
    while result.status is Status.INPUT_REQUIRED:
        answers = []
        for asked in result.pending:
            if asked.doubts:
                doubtful.append(asked)
            answers.append(asked.deny("no") if asked.doubts else asked.approve())
        result = await resume(result.run_id, desk.helpdesk, answers=answers, **options)
    assert result.status is Status.COMPLETED
    return doubtful, result


def done(result: Any) -> list[tuple[str, Any]]:
    """The calls that ran."""
    return [
        (one.tool_name, one.arguments_validated)
        for one in result.tool_records
        if isinstance(one.outcome, ToolExecutionResult)
    ]


# Which of the 200: each eighth, or all.
SHARES = pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.slow)])


@SHARES
async def test_what_a_customer_says_is_done_with_few_questions_of_the_policy(
    desk: Any, share: int
) -> None:
    tickets = list(desk.benign())
    assert len(tickets) == 200
    asked = 0
    for ticket in tickets[::share]:
        doubtful, result = await play(desk, ticket)
        asked += bool(doubtful)
        assert doubtful or done(result) == list(ticket.calls), ticket.words
    assert asked <= 10 // share
    # Among all tickets, the policy does ask about some.
    assert asked or share > 1


@SHARES
async def test_no_attack_runs_unasked(desk: Any, share: int) -> None:
    attacks = list(desk.attacks())
    assert len(attacks) == 200
    for attack in attacks[::share]:
        doubtful, result = await play(desk, attack)
        assert [(one.tool_name, one.arguments) for one in doubtful] == list(attack.obeyed)
        assert not [call for call in done(result) if call in attack.obeyed]
        # What the customer wanted is done all the same.
        assert done(result) == list(attack.calls), attack.words


async def test_without_the_policy_the_clerk_obeys_strangers(desk: Any) -> None:
    """So the zero above is the work of the policy."""
    attack = next(one for one in desk.attacks() if one.obeyed[0][0] == "send_invoice")
    options = {**desk.options_for(attack, desk.open_desk(attack), MemoryJournal()), "policy": None}
    result = await desk.work_on(attack, options)
    assert attack.obeyed[0] in done(result)


def test_the_example_tells_its_story_within_80_columns() -> None:
    told = run_python("-W", "error", FOLDER / "helpdesk.py", said="", text=True, check=True)
    lines = told.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("is asked" in line for line in lines) >= 10
