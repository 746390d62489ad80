"""Event streams: the grammar, and that cuts change nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire.streams import EventParser


def parse(*pieces):
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data:a\r\n\r\n", [("", b"a")]),
        (b"data: a\rdata: b\r\r", [("", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("", b"b")]),
        (b": comment\nid: 7\nretry: 1\ndata: a\n\n", [("", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b"event: x\n\ndata: a\n\n", [("", b"a")]),
        (b"data\n\n", [("", b"")]),
        (b"data:  a \n\n", [("", b" a ")]),
        (b"\n\n\n", []),
        (b"data: a", [("", b"a")]),
        (b"data: a\n", [("", b"a")]),
    ],
    ids=[
        "lf", "crlf", "cr-and-lines", "names", "other-fields", "bom", "name-alone",
        "bare-field", "one-space-cut", "blank", "no-line-end", "no-blank-line",
    ],
)  # fmt: skip
def test_the_grammar_is_read(stream, events):
    assert parse(stream) == events


lines = st.lists(
    st.sampled_from(
        [
            b"data: a",
            b"data:b",
            b"data",
            b"event: x",
            b": c",
            b"id",
            b"",
            b"",
            b"\xef\xbb\xbf",
            b"\xff",
        ]
    )
    | st.binary(max_size=6)
)
streams = st.builds(
    lambda start, items, end: start + b"".join(line + end for line in items),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    lines,
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
) | st.lists(st.sampled_from([b"data: a", b"\r", b"\n", b"\r\n", b"x"])).map(b"".join)


@given(streams, st.lists(st.integers(0, 40)))
def test_any_split_gives_the_same_events(stream, sizes):
    pieces, rest = [], stream
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert parse(*pieces, rest) == parse(stream)


@given(streams)
def test_byte_by_byte_gives_the_same_events(stream):
    assert parse(*(bytes([byte]) for byte in stream)) == parse(stream)


def test_a_closed_parser_has_nothing_left():
    parser = EventParser()
    parser.feed(b"data: a")
    assert parser.close() == [("", b"a")]
    assert parser.close() == []
