"""Header containers of every kind become one dictionary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.wire.headers import normalize_headers, read_request_id, read_retry_after, to_raw_headers


class Container:
    """A header container that is no mapping."""

    def __init__(self, *pairs):
        self._pairs = pairs

    def items(self):
        return iter(self._pairs)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "1", "B": "2"},
        [("X-A", "1"), ("B", "2")],
        Container(("X-A", "1"), ("B", "2")),
        {"X-A": 1, "b": b"2"},
        {b"X-A": "1", "B": "2", None: "3"},
        [["X-A", "1"], ("B", "2"), "junk"],
    ],
    ids=["mapping", "pairs", "items", "other-values", "other-names", "junk-pairs"],
)
def test_every_container_gives_the_same(headers):
    assert normalize_headers(headers) == {"x-a": "1", "b": "2"}


def test_none_has_no_headers():
    assert normalize_headers(None) == {}


def test_lists_and_repeated_names_are_joined():
    assert normalize_headers({"Vary": ["a", "b"]}) == {"vary": "a,b"}
    assert normalize_headers([("Vary", "a"), ("vary", "b")]) == {"vary": "a,b"}


def test_a_proxied_name_is_seen_through():
    assert normalize_headers({"llm_provider-X-A": "1"}) == {"x-a": "1"}


@pytest.mark.parametrize("first", [True, False])
def test_a_plain_name_wins_over_its_proxied_copy(first):
    pairs = [("x-a", "plain"), ("llm_provider-x-a", "copy")]
    assert normalize_headers(pairs if first else pairs[::-1]) == {"x-a": "plain"}


def test_raw_headers_leave_out_what_is_secret():
    fields = {"set-cookie": "s", "authorization": "s", "openai-organization": "o", "date": "d"}
    assert to_raw_headers(fields) == {"date": "d"}


def test_the_first_known_request_id_counts():
    assert read_request_id({"request-id": "b", "x-request-id": "a"}) == "a"
    assert read_request_id({"date": "d"}) is None


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"retry-after": "30"}, 30),
        ({"retry-after-ms": "1500", "retry-after": "30"}, 1.5),
        ({"retry-after-ms": "junk", "retry-after": "30"}, 30),
        ({"retry-after-ms": "-1", "retry-after": "nan"}, None),
        ({"retry-after-ms": "0"}, 0),
        ({}, None),
    ],
)
def test_junk_never_hides_a_good_retry_after(fields, seconds):
    assert read_retry_after(fields, now=0.0) == seconds


values = st.none() | st.text() | st.binary() | st.integers() | st.lists(st.text())


@given(st.dictionaries(values.filter(lambda value: not isinstance(value, list)), values))
def test_normalising_gives_text_for_text_whatever_comes(headers):
    for name, value in normalize_headers(headers).items():
        assert isinstance(name, str)
        assert isinstance(value, str)
