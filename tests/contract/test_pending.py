"""What a parked run waits for, and what people answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from upshot.contract import (
    Answer,
    Approve,
    Deny,
    Edit,
    Effect,
    PendingApproval,
    PendingExternal,
    PendingQuestion,
)
from upshot.errors import Misuse


def test_answers_are_short_to_write() -> None:
    assert Approve("c1").call_id == "c1"
    assert Deny("c1", "too much") == Deny("c1", reason="too much")
    assert Edit("c1", {"cents": 5}).arguments == {"cents": 5}
    assert Answer("q1", [1]).value == [1]


@pytest.mark.parametrize("answer", [Approve, Deny, Edit, Answer])
def test_an_answer_has_to_say_what_it_answers(answer: Any) -> None:
    with pytest.raises(TypeError):
        answer()


def test_a_pending_approval_takes_the_worst_for_granted() -> None:
    pending = PendingApproval(call_id="c1")
    assert (pending.id, pending.effect, pending.expires_at) == ("c1", Effect.WRITE, None)


def test_choices_are_frozen() -> None:
    choices: Any = ["yes", "no"]
    assert PendingQuestion(id="q1", choices=choices).choices == ("yes", "no")


@pytest.mark.parametrize("pending", [PendingApproval, PendingQuestion, PendingExternal])
def test_its_moments_need_a_time_zone(pending: Any) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert pending(expires_at=moment).expires_at == moment
    with pytest.raises(Misuse, match="expires_at"):
        pending(expires_at=moment.replace(tzinfo=None))
