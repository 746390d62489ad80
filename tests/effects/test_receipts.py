"""Receipts are found broken wherever a line was changed, moved, left out or put in."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract.effects import EffectEntry
from upshot.effects.receipts import BrokenReceipts, check_receipts, receipts

DAY = datetime(2027, 1, 31, tzinfo=UTC)


def entry(number: int, **more: Any) -> EffectEntry:
    given = {"key": f'{{"order":{number}}}', "state": "applied", **more}
    at = DAY + timedelta(minutes=number)
    return EffectEntry(id=f"{number:04x}", name="refund", started_at=at, run_id="run-1", **given)


def lines_of(*entries: EffectEntry) -> list[str]:
    return [json.dumps(line) for line in receipts(entries, at=DAY)]


def test_receipts_are_in_the_order_of_their_effects_and_end_in_a_head():
    head, first, second, end = map(json.loads, lines_of(entry(2), entry(1)))
    assert (head["at"], head["since"]) == (DAY.isoformat(), None)
    assert [first["effect"]["id"], second["effect"]["id"]] == ["0001", "0002"]
    assert (first["after"], second["after"]) == (head["digest"], first["digest"])
    assert end == {"head": second["digest"], "count": 2}


@given(st.integers(0, 4))
def test_what_was_made_is_whole(count: int):
    lines = lines_of(*map(entry, range(count)))
    head = check_receipts(lines)
    assert (head.total, head.digest) == (count, json.loads(lines[-1])["head"])


BREAKS = {
    "moved": lambda lines, at, to: lines.insert(to, lines.pop(at)),
    "left out": lambda lines, at, _: lines.pop(at),
    "put in": lambda lines, at, to: lines.insert(to, lines[at]),
    "cut": lambda lines, at, _: lines.__delitem__(slice(at, None)),
    "torn": lambda lines, at, _: lines.__setitem__(at, lines[at][:-3]),
}


@given(st.sampled_from(sorted(BREAKS)), st.integers(0, 5), st.integers(0, 5))
def test_a_file_with_other_lines_is_broken(how: str, at: int, to: int):
    lines = lines_of(*map(entry, range(4)))
    before = list(lines)
    BREAKS[how](lines, at, to)
    if lines != before:
        with pytest.raises(BrokenReceipts, match=r"line \d"):
            check_receipts(lines)


@given(st.integers(0, 4), st.data())
def test_a_line_with_another_character_is_broken(at: int, data: st.DataObject):
    lines = lines_of(*map(entry, range(3)))
    place = data.draw(st.integers(0, len(lines[at]) - 1))
    other = data.draw(st.characters(codec="utf-8", exclude_characters=lines[at][place]))
    lines[at] = lines[at][:place] + other + lines[at][place + 1 :]
    try:
        check_receipts(lines)
    except BrokenReceipts:
        return
    # Only white space between two words of JSON may differ.
    assert [*map(json.loads, lines)] == [*map(json.loads, lines_of(*map(entry, range(3))))]


def test_an_effect_that_stands_twice_in_a_line_is_broken():
    lines = lines_of(entry(1))
    lines[1] = '{"effect": {"state": "none"}, ' + lines[1][1:]
    with pytest.raises(BrokenReceipts, match="line 2 is not a receipt"):
        check_receipts(lines)


def test_nothing_at_all_has_no_head():
    with pytest.raises(BrokenReceipts, match="the end is missing"):
        check_receipts([])
