"""ToolRecord: all facts of one settled call."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from upshot.contract import ApprovalRecord, Effect, ToolExecutionResult, ToolRecord
from upshot.errors import Misuse

EAST = timezone(timedelta(hours=2))


def test_a_record_needs_no_more_than_its_outcome() -> None:
    record = ToolRecord(outcome=ToolExecutionResult("c1", "look"))
    assert (record.effect, record.declared_effect, record.attempts) == (Effect.NONE, None, 0)


def test_its_moments_are_utc() -> None:
    outcome = ToolExecutionResult("c1", "look")
    record = ToolRecord(outcome=outcome, started_at=datetime(2026, 1, 1, 2, tzinfo=EAST))
    approval = ApprovalRecord(at=datetime(2026, 1, 1, 2, tzinfo=EAST))
    assert record.started_at == approval.at == datetime(2026, 1, 1, tzinfo=UTC)
    assert record.started_at is not None
    assert record.started_at.tzinfo is UTC


def test_a_moment_without_a_time_zone_is_misuse() -> None:
    with pytest.raises(Misuse, match="started_at has no time zone"):
        ToolRecord(
            outcome=ToolExecutionResult("c1", "look"),
            started_at=datetime(2026, 1, 1),  # noqa: DTZ001  # what is refused
        )
