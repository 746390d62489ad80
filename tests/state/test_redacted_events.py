"""An event without its content has no word of it, and can be read back."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any, Union, cast, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import force_setattr

from tests.contract.strategies import events
from upshot.contract import (
    Artifact,
    Cost,
    Event,
    File,
    Message,
    Request,
    RunStarted,
    Unknown,
    encode,
)
from upshot.contract.events import DELTAS, REDACTED
from upshot.contract.model_calls import RequestDigests
from upshot.journal.event_codec import read_event, to_entry
from upshot.state.redacted_events import FACTS, redacted

WORD = "Xylophagous"
AT = datetime(2026, 1, 2, tzinfo=UTC)
_ODD = ((Message, "name"), (File, "name"), (Artifact, "name"))


def planted(value: Any, hint: Any = None) -> Any:
    """*value* with the word in each text and JSON value that is not named as a fact."""
    if isinstance(value, Unknown):
        return Unknown(raw={**value.raw, "said": WORD, "more": [{WORD: WORD}]})
    if isinstance(value, Cost | RequestDigests):
        return value
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(type(value)):
            if field.name not in FACTS or (type(value), field.name) in _ODD:
                held = getattr(value, field.name)
                force_setattr(value, field.name, planted(held, field.type))
        return value
    if isinstance(value, tuple):
        inner = get_args(hint)[0] if get_origin(hint) is tuple else None
        return tuple(planted(one, inner) for one in cast("tuple[Any, ...]", value))
    kinds = get_args(hint) if get_origin(hint) in (Union, type(int | str)) else (hint,)
    if hint is Any or Any in kinds:
        return {WORD: [WORD, {"a": WORD}]}
    if bytes in kinds and value is not None:
        return WORD.encode()
    if str in kinds:
        return WORD
    is_json = isinstance(value, dict) and get_args(hint)[1:] == (Any,)
    return {WORD: WORD} if is_json else cast("object", value)


def is_stored(event: Event) -> bool:
    return not isinstance(event, DELTAS)


@given(events().filter(is_stored))
def test_no_word_of_the_content_is_left(event: Event) -> None:
    # It is planted behind the checks of the values.
    less = redacted(planted(event), "dpo", AT)
    line = encode(less)
    assert WORD.encode() not in line
    assert b64encode(WORD.encode()) not in line


@given(events().filter(is_stored))
def test_what_is_left_is_read_back_as_it_was_written(event: Event) -> None:
    less = redacted(event, "dpo", AT)
    if not isinstance(less, Unknown):
        entry = to_entry(less, "run-1", 1, 1)
        assert encode(read_event(entry)) == encode(
            msgspec.structs.replace(less, run_id="run-1", seq=1)
        )


@given(events().filter(is_stored))
def test_what_was_redacted_stays_as_it_is(event: Event) -> None:
    once = redacted(event, "dpo", AT)
    assert redacted(once, "another", AT) == once


@pytest.mark.parametrize("said", ["", "Hello."])
def test_a_redacted_run_is_listed_as_such_whatever_was_asked(said: str) -> None:
    less: Any = redacted(RunStarted(run_id="r", seq=1, request=Request(said)), "dpo", AT)
    assert less.request.text == REDACTED
    assert (less.redacted.by, less.redacted.at) == ("dpo", AT)
