import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from upshot.contract.base.paging import LineSearch

ATOMS = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    r"\d",
    r"\w",
    r"\s",
    r"\b",
    r"\B",
    "^",
    "$",
    r"\.",
    "é",
    "[]x]",
]
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(
            inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?"])
        ).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.text("ab1 .éx]_", max_size=12), st.sampled_from(["", "(?i)"]))
def test_it_finds_what_re_finds(pattern: str, line: str, flags: str):
    # Before Python 3.14 re finds no \B in an empty line.
    assume(line or r"\B" not in pattern)
    found = LineSearch(flags + pattern).find_end(line)
    assert (found is not None) == (re.search(flags + pattern, line) is not None)


@pytest.mark.filterwarnings("ignore:Possible")
@given(st.text("ab(){}[]|*+?\\^$.,1-:P<>=!dwb", max_size=15), st.text("ab1", max_size=5))
def test_any_text_is_a_pattern_that_searches_like_re_or_a_value_error(pattern: str, line: str):
    try:
        search = LineSearch(pattern)
    except ValueError:
        return
    assume(line or r"\B" not in pattern)
    assert (search.find_end(line) is not None) == (re.search(pattern, line) is not None)


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "(a*)*b", "a*a*a*a*a*a*b", "(.*a){12}b"]
)
def test_patterns_that_explode_elsewhere_take_linear_time(pattern: str):
    assert LineSearch(pattern).find_end("a" * 3_000 + "!") is None


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "not valid"),
        ("a**", "not valid"),
        (r"(a)\1", "back references"),
        ("(?=a)", "groups that begin"),
        ("(?<!a)b", "groups that begin"),
        ("a*+b", "possessive"),
        ("((a{90}){90}){90}", "too large"),
        ("a" * 1_001, "at most"),
        ("(" * 450 + ")" * 450, "too many groups"),
    ],
)
def test_what_it_cannot_search_for_is_a_value_error(pattern: str, said: str):
    with pytest.raises(ValueError, match=said):
        LineSearch(pattern)


def test_the_end_of_the_earliest_match_is_told():
    assert LineSearch("b+").find_end("aabbb") == 3
    assert LineSearch("a$").find_end("ba") == 2


def test_a_pattern_that_takes_too_long_is_a_value_error():
    search = LineSearch("a[ab]{1000}c")
    with pytest.raises(ValueError, match="too long"):
        search.find_end("".join(random.Random(1).choices("ab", k=100_000)))
