"""Replies that are built from a surface's own words, and make no sense."""

import json

from hypothesis import strategies as st

from upshot.contract import ModelResponse, decode, encode
from upshot.wire import StreamReader, read_response

sizes = st.lists(st.integers(0, 60), max_size=20)


def documents(keys, words):
    """Documents with *keys* at any depth, and *words* or absurd values in them.

    Both are texts of words.
    """
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=6)
        | st.sampled_from(words.split())
    )
    names = st.sampled_from(keys.split())
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6),
        max_leaves=25,
    )


def to_bytes(document):
    return json.dumps(document).encode()


def to_event(document):
    return b"data: " + to_bytes(document) + b"\n\n"


def check_reading(surface, body, *, mode=None, provider="p"):
    """Reading never raises, and gives a response that survives its own encoding."""
    response = read_response(
        surface, status=200, headers={}, body=body, mode=mode, provider=provider
    )
    assert decode(encode(response), ModelResponse) == response


def check_splitting(surface, body, sizes, *, mode=None):
    """However *body* is cut, deltas and response are the same."""
    whole, split = (
        StreamReader(surface, mode=mode, now=0.0),
        StreamReader(surface, mode=mode, now=0.0),
    )
    wanted, found, rest = whole.feed(body), [], body
    for size in sizes:
        found += split.feed(rest[:size])
        rest = rest[size:]
    found += split.feed(rest)
    assert [encode(event) for event in found] == [encode(event) for event in wanted]
    assert split.close() == whole.close()
