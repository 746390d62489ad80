"""JSON as it is really sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire.decoding import (
    NOT_JSON,
    as_count,
    as_list,
    as_object,
    as_text,
    parse_json,
    parse_object,
    replace_surrogates,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_json_is_read_as_it_is(value):
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\xef\xbb\xbf[1]", [1]),
        (b'"a\nb"', "a\nb"),
        (b"[NaN, Infinity, -Infinity, 1e999]", [None] * 4),
        (b'"\\ud800"', "\ufffd"),
        (b'{"\\udfff": 1}', {"\ufffd": 1}),
        (b'"\xff"', "\ufffd"),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
    ],
    ids=["bom", "control", "no-numbers", "surrogate", "surrogate-key", "no-utf8", "pair"],
)
def test_json_is_read_leniently_where_it_must_be(data, value):
    assert parse_json(data) == value


@pytest.mark.parametrize("data", [b"", b"<html>", b"{", b"[" * 100_000, b"9" * 5000, "{'a': 1}"])
def test_what_is_no_json_is_told_apart_from_null(data):
    assert parse_json(data) is NOT_JSON
    assert parse_json(b"null") is None


@given(st.binary())
def test_reading_json_never_raises(data):
    parse_json(data)
    assert parse_object(data) is None or isinstance(parse_object(data), dict)


@pytest.mark.parametrize(
    ("value", "count"),
    [(3, 3), (3.0, 3), ("3", 3), (True, None), (-1, None), (1.5, None), (10**40, None)],
)
def test_counts_are_whole_and_not_negative(value, count):
    assert as_count(value) == count


def test_a_count_of_no_number_is_none():
    assert as_count(float("nan")) is None
    assert as_count(float("inf")) is None


def test_other_types_are_empty():
    assert as_object([]) == {}
    assert as_list({}) == []
    assert as_text(1) == ""


@given(st.text(st.characters()))
def test_text_without_surrogates_can_be_encoded(text):
    str(replace_surrogates(text)).encode()
