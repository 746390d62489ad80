"""What is stored of an event: each fact once, and nothing that could not be read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import STRUCTS, events, structs
from tests.searching import examples
from upshot.contract import (
    DELTAS,
    AgentResult,
    Approve,
    Event,
    RunStarted,
    StepStarted,
    ToolExecutionResult,
    ToolRecord,
    Unknown,
)
from upshot.contract.base.structs import set_field
from upshot.contract.codec import encode
from upshot.errors import JournalError, Misuse
from upshot.journal.event_codec import (
    Entry,
    is_surely_readable,
    line_of,
    parse_line,
    read_event,
    to_entry,
)

DURABLE = [kind for kind in get_args(Event) if kind not in (*DELTAS, Unknown)]
STAMP: dict[str, Any] = {"run_id": "r", "seq": 7}
ODD: list[Any] = [None, 5, -1.5, True, "x", b"x", (), (1,), [None], {}, {"a": object()}, {1: 2}]


def stored(event: Event) -> Entry:
    return to_entry(event, "r", 7, 1)


NEEDED: dict[str, Any] = {
    "result": AgentResult(run_id="r"),
    "record": ToolRecord(call_id="c", outcome=ToolExecutionResult(call_id="c", tool_name="t")),
    "answer": Approve("c"),
}


def made(kind: Any, **fields: Any) -> Any:
    """An event with *fields*, whatever their types are, and what the class cannot be without."""
    needed = {one.name for one in msgspec.structs.fields(kind) if one.required}
    return kind(**{**STAMP, **{name: NEEDED[name] for name in needed}, **fields})


@examples(60)
@given(events().filter(lambda event: not isinstance(event, (*DELTAS, Unknown))))
def test_any_event_is_read_back_equal_from_its_row_and_its_line(event: Event) -> None:
    set_field(event, "run_id", "r")
    set_field(event, "seq", 7)
    entry = stored(event)
    assert read_event(entry) == event
    again, read = parse_line(line_of(entry))
    assert (again, read) == (entry._replace(epoch=0), event)


@pytest.mark.parametrize("kind", DURABLE)
def test_no_event_class_repeats_a_column_in_its_body(kind: Any) -> None:
    event = made(kind, time=datetime(2026, 1, 1, tzinfo=UTC))
    body = json.loads(stored(event).body)
    assert not {"kind", "run_id", "seq", "epoch", "time", "schema_version"} & set(body)


@examples(25)
@given(st.data())
@pytest.mark.parametrize("kind", DURABLE)
def test_what_is_taken_with_any_value_in_any_field_is_read_back(
    kind: Any, data: st.DataObject
) -> None:
    names = [name for name in kind.__struct_fields__ if name not in STAMP]
    name = data.draw(st.sampled_from(names))
    value = data.draw(st.sampled_from(ODD) | st.sampled_from(STRUCTS).flatmap(structs))
    try:
        event = made(kind, **{name: value})
        entry = stored(event)
    except (Misuse, TypeError, ValueError, AttributeError):
        # The class itself, or the journal, says what is wrong.
        return
    # A value of another class may be read as one of the right class, but read it is.
    read = read_event(entry)
    assert read_event(stored(read)) == read


@pytest.mark.parametrize("kind", DURABLE)
def test_once_a_process_has_logged_more_an_event_is_checked_without_making_it(kind: Any) -> None:
    for _ in range(100):
        is_surely_readable(b"{}")
    assert is_surely_readable(encode(made(kind)))
    assert not is_surely_readable(encode(made(kind, time=5)))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (StepStarted(**STAMP, key=5), "this step_started cannot be stored: .*str.*key"),  # type: ignore[arg-type]
        (RunStarted(**STAMP, depth="x"), "this run_started cannot be stored: .*int.*depth"),  # type: ignore[arg-type]
        (RunStarted(**STAMP, attributes={"a": object()}), "cannot be written as JSON"),  # type: ignore[dict-item]
    ],
    ids=["text", "number", "no JSON"],
)
def test_a_wrongly_typed_field_is_refused_where_it_is_stored(event: Event, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        stored(event)


@pytest.mark.parametrize(
    "time",
    [
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        None,
    ],
    ids=str,
)
def test_any_time_is_given_back_to_the_microsecond(time: datetime | None) -> None:
    event = RunStarted(**STAMP, time=time)
    assert encode(read_event(stored(event))) == encode(event)


def test_an_event_of_an_unknown_kind_is_kept_as_it_is() -> None:
    raw = {"time": 5, "run_id": "r", "kind": "of_later", "seq": 7, "call_id": [1]}
    event = Unknown(raw=raw)  # type: ignore[arg-type]
    assert json.loads(line_of(stored(event))) == raw
    assert read_event(stored(event)) == event


def test_fields_that_this_version_does_not_know_are_kept() -> None:
    line = b'{"seq":7,"later":[1, 2],"run_id":"r","schema_version":1,"kind":"run_started"}'
    entry, _event = parse_line(line)
    assert json.loads(line_of(entry)) == json.loads(line)


def test_a_body_that_is_none_is_a_journal_error_and_names_the_event() -> None:
    entry = stored(RunStarted(**STAMP))._replace(body=b'{"depth":"x"}')
    with pytest.raises(JournalError, match="event 7 of run r cannot be read") as told:
        read_event(entry)
    assert (told.value.run_id, told.value.seq) == ("r", 6)
