"""Figures and foreign texts in a few characters of one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import Cost, Usage
from upshot.contract.base.words import (
    clean,
    clean_lines,
    count,
    duration,
    moment,
    money,
    size,
    tokens,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"),
        (-1, "0 ms"),
        (0.34, "340 ms"),
        (0.9996, "1.0 s"),
        (5.06, "5.1 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (90_000, "25 h 00 min"),
    ],
)
def test_a_time_span_is_said_in_the_fitting_unit(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 20, "3.0 MiB")]
)
def test_a_size_is_said_in_the_fitting_unit(number: int, said: str) -> None:
    assert size(number) == said


def test_a_count_has_its_plural_and_its_thousands() -> None:
    assert [count(1, "call"), count(12_345, "call"), count(0, "entry", "entries")] == [
        "1 call",
        "12,345 calls",
        "0 entries",
    ]


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (None, "unknown"),
        (Cost(), "unknown"),
        (Cost(total=0.0125), "$0.0125"),
        (Cost(total=12.3456), "$12.35"),
        (Cost(total=1, currency="EUR"), "1.00 EUR"),
        (Cost(total=1, unpriced_calls=2), "$1.00 + 2 calls of unknown price"),
    ],
)
def test_money_that_is_not_known_is_said_to_be_unknown(cost: Cost | None, said: str) -> None:
    assert money(cost) == said


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (Usage(api_calls=1), "unknown"),
        (Usage(input_tokens=0, output_tokens=0), "0"),
        (Usage(input_tokens=1200, output_tokens=34), "1,234"),
        (Usage(input_tokens=1, output_tokens=1, unmeasured_calls=1), "at least 2"),
    ],
)
def test_tokens_that_are_not_known_are_said_to_be_unknown(usage: Usage, said: str) -> None:
    assert tokens(usage) == said


def test_a_moment_is_said_in_utc() -> None:
    assert moment(datetime(2025, 3, 1, 12, 0, 5, tzinfo=UTC)) == "2025-03-01 12:00:05 UTC"
    assert moment(None) == "unknown"


def test_what_could_steer_a_terminal_is_shown_escaped() -> None:
    assert clean("a\x1b[31mred\x07\u202e b\n c") == r"a\u001b[31mred\u0007\u202e b c"
    assert clean_lines("one\r\n\ttwo\x1b[2J") == "one\n\ttwo\\u001b[2J"


@given(st.text(), st.integers(1, 50))
def test_a_foreign_text_is_one_line_within_its_limit(text: str, limit: int) -> None:
    line = clean(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert "\x1b" not in line
