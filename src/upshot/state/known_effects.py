"""Updates the record of a call when its unknown effect becomes known after it has settled.

The log of such a call has both: ``tool_settled`` says what was known then, ``question_answered``
what became known later. From that event on, readers of the log see the later outcome.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from upshot.contract.base.enums import Effect
from upshot.contract.events import QuestionAnswered
from upshot.contract.pending import Pending, PendingEffect, PendingQuestion
from upshot.contract.tool_calls import Settlement, ToolFailure, ToolRecord, ToolTimeout, once_known


class Calls(Protocol):
    """The part of a run's state with the records of calls."""

    records: list[ToolRecord]
    settled: dict[str, ToolRecord]

    @property
    def index(self) -> Index | None: ...


def is_typed(asked: Pending | None, event: QuestionAnswered, calls: Calls) -> bool:
    """Whether an answer is the user's own text. Applies it if it settles an effect."""
    if not isinstance(asked, PendingEffect):
        return isinstance(asked, PendingQuestion) and not asked.source
    fill_in(event.settled, asked.call_id, calls.records, calls.settled, calls.index)
    return False


class Index(Protocol):
    """The part of a log's index with the records of calls."""

    records: dict[int, ToolRecord]
    texts: dict[str, str]


def fill_in(
    settled: Settlement | None,
    call_id: str,
    records: list[ToolRecord],
    last: dict[str, ToolRecord],
    index: Index | None,
) -> None:
    """Update the record of the last call of unknown effect that has an id.

    Args:
        settled: What became known; None changes nothing.
        call_id: The id of the call.
        records: The records of the run, in order.
        last: The records of the last reply that are not on the board yet, by call id.
        index: The index of the log, None if not needed.
    """
    for place in range(len(records) - 1, -1, -1):
        record, outcome = records[place], records[place].outcome
        is_it = record.call_id == call_id and record.effect is Effect.UNKNOWN
        if not is_it or settled is None or not isinstance(outcome, ToolTimeout | ToolFailure):
            continue
        known = once_known(outcome, settled, retries_timeouts=record.retries_timeouts)
        now = records[place] = replace(record, effect=known.effect, outcome=known)
        if last.get(call_id) is record:
            last[call_id] = now
        if index is not None:
            index.records |= {seq: now for seq, one in index.records.items() if one is record}
            index.texts.pop(call_id, None)
        return
