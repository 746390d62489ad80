"""The objects of an array are given as soon as they are whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.absurd import documents, sizes
from upshot.wire.streams import ArrayParser


def parse(*pieces):
    parser = ArrayParser()
    return [data for piece in pieces for _, data in parser.feed(piece)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'[{"a": 1}\n,\r\n{"b": [2, {"c": {}}]}]', [b'{"a": 1}', b'{"b": [2, {"c": {}}]}']),
        (b'[{"a": "}]\\"{"}]', [b'{"a": "}]\\"{"}']),
        (b'[1, "{", [{}], {}]', [b"{}"]),
        (b"[]", []),
        (b'[{"a": 1}, {"b"', [b'{"a": 1}']),
        (b"]]}{[{", []),
    ],
    ids=["two", "quoted", "others", "empty", "cut", "unbalanced"],
)
def test_objects_are_found(text, found):
    assert parse(text) == found


def test_an_object_is_given_with_its_last_byte():
    parser = ArrayParser()
    assert parser.feed(b'[{"a": "\\') == []
    assert parser.feed(b'""}') == [("", b'{"a": "\\""}')]


def test_an_escaped_backslash_ends_with_a_piece_and_escapes_nothing():
    parser = ArrayParser()
    assert parser.feed(b'[{"a": "\\\\') == []
    assert parser.feed(b'"}, {}]') == [("", b'{"a": "\\\\"}'), ("", b"{}")]


values = st.lists(documents("a b", '" \\ { ]'), max_size=4)


@given(values)
def test_every_object_is_given(values):
    wanted = [value for value in values if isinstance(value, dict)]
    assert [json.dumps(json.loads(data)) for data in parse(json.dumps(values).encode())] == [
        json.dumps(value) for value in wanted
    ]


@given(values.map(lambda value: json.dumps(value).encode()) | st.binary(), sizes)
def test_any_split_gives_the_same_objects(data, sizes):
    pieces, rest = [], data
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert parse(*pieces, rest) == parse(data)
