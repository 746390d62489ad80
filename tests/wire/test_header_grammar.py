"""The shared grammar: what is read, and that nothing raises."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire.headers import (
    MAX_DELAY_S,
    parse_date,
    parse_datetime,
    parse_duration,
    parse_integer,
    parse_moment,
    parse_number,
    parse_reset,
    parse_retry_after,
    read_reset,
)

NOW = 1_700_000_000.0
PARSERS = (parse_integer, parse_number, parse_duration, parse_moment, parse_datetime, parse_date)

UNITS = ["d", "h", "m", "s", "ms", "us", "ns", "µs", "x"]
digits = st.text("0123456789", min_size=1, max_size=400) | st.sampled_from(
    ["0", "١", "²", "-1", ""]
)
durations = st.lists(
    st.tuples(digits, st.sampled_from(["", ".5", "."]), st.sampled_from(UNITS))
).map(lambda parts: "".join(map("".join, parts)))
dates = st.builds(
    "{}, {} {} {} {}:{}:{} GMT".format,
    st.sampled_from(["Sun", "Sunday", "xx"]),
    digits,
    st.sampled_from(["Nov", "nov", "Foo"]),
    digits,
    digits,
    digits,
    digits,
)
moments = st.builds(
    "{}-{}-{}T{}:{}:{}{}".format, *[digits] * 6, st.sampled_from(["Z", "+99:99", ""])
)
absurd = st.text() | digits | durations | dates | moments


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("12", 12),
        (" 12 ", 12),
        ("12.0", 12),
        ("1,000", None),
        ("-1", None),
        ("1.5", None),
        ("X-MASKED", None),
        ("", None),
        ("٣", None),
        ("9" * 19, None),
    ],
)
def test_integers_are_counts(text, count):
    assert parse_integer(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m30s", 390),
        ("120ms", 0.12),
        ("10.59s", 10.59),
        ("1h30m45s", 5445),
        ("1d2h", 93600),
        ("1m0.5s", 60.5),
        ("0s", 0),
        ("60", 60),
        ("6M30S", 390),
        ("250us", 0.00025),
        ("", None),
        ("soon", None),
        ("-5s", None),
        ("5s6m", None),
        ("nan", None),
        ("1e3", None),
        ("9" * 400 + "d", None),
    ],
)
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-06-15T12:00:00Z", "2024-06-15T12:00:00+00:00"),
        ("2024-06-15t12:00:00.123456789z", "2024-06-15T12:00:00.123456+00:00"),
        ("2024-06-15T12:00:00+02:00", "2024-06-15T10:00:00+00:00"),
        ("2024-06-15T12:00:00", "2024-06-15T12:00:00+00:00"),
        ("2024-06-15 12:00:00 +0200", "2024-06-15T10:00:00+00:00"),
    ],
)
def test_a_moment_is_read_as_the_moment_it_names(text, moment):
    assert parse_datetime(text) == datetime.fromisoformat(moment)


@pytest.mark.parametrize("text", ["2024-13-01T00:00:00Z", "2024-06-15", "20240615T120000Z", "now"])
def test_what_names_no_moment_is_none(text):
    assert parse_datetime(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ],
)
def test_all_three_forms_of_http_dates_are_read(text):
    assert parse_date(text) == datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (str(int(NOW) + 60), 60),
        (str((int(NOW) + 60) * 1000), 60),
        ("2023-11-14T22:14:20Z", 60),
        ("1m", 60),
        ("60", 60),
        ("0s", 0),
        (str(int(NOW) - 60), 0),
        ("X-MASKED", None),
    ],
)
def test_resets_are_read_in_all_their_forms(text, seconds):
    assert parse_reset(text, now=NOW) == seconds


def test_a_reset_that_has_passed_keeps_its_moment():
    assert read_reset(str(int(NOW) - 60), now=NOW) == (0.0, NOW - 60)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("1.5", 1.5),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60),
        ("Tue, 14 Nov 2023 22:12:20 GMT", 0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text, seconds):
    assert parse_retry_after(text, now=NOW) == seconds


@given(absurd)
def test_parsers_never_raise(text):
    for parse in PARSERS:
        parse(text)


@given(absurd, st.floats(0, 1e11))
def test_waits_are_none_or_within_bounds(text, now):
    for wait in (parse_reset(text, now=now), parse_retry_after(text, now=now)):
        assert wait is None or 0 <= wait <= MAX_DELAY_S


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_round_trips(moment):
    assert parse_datetime(moment.isoformat()) == moment
