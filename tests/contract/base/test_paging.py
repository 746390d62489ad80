import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import PAGE_CHARS, read_page


@given(st.text(max_size=200), st.integers(1, 50))
def test_pages_put_together_are_the_text(text: str, limit: int):
    parts: list[str] = []
    offset: object = 0
    while isinstance(offset, int):
        page = read_page(text, offset=offset, limit=limit)
        parts.append(str(page["text"]))
        offset = page["next_offset"]
    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)


def test_a_page_is_of_default_size_where_no_limit_is_given():
    page = read_page("x" * (PAGE_CHARS + 1))
    assert page == {"text": "x" * PAGE_CHARS, "next_offset": PAGE_CHARS}


def test_an_offset_past_the_end_gives_an_empty_last_page():
    assert read_page("abc", offset=10) == {"text": "", "next_offset": None}


@pytest.mark.parametrize(("offset", "limit"), [(-1, None), (0, 0), (0, -5)])
def test_impossible_places_are_refused(offset: int, limit: int | None):
    with pytest.raises(ValueError, match="must"):
        read_page("abc", offset=offset, limit=limit)


def test_lines_that_match_come_with_their_numbers():
    text = "one\r\ntwo\nthree\ntwo again"
    assert read_page(text, pattern="TWO")["text"] == "2: two\n4: two again"


def test_line_numbers_hold_from_any_offset():
    text = "a\nb\na\nb\n"
    assert read_page(text, offset=4, pattern="b") == {"text": "4: b", "next_offset": None}


@given(st.lists(st.sampled_from(["hit", "miss", "a hit", ""]), max_size=30), st.integers(1, 40))
def test_pages_of_matches_put_together_are_all_matches(lines: list[str], limit: int):
    text = "\n".join(lines)
    whole = str(read_page(text, pattern="hit")["text"])
    found: list[str] = []
    offset: object = 0
    while isinstance(offset, int):
        page = read_page(text, offset=offset, limit=max(limit, 12), pattern="hit")
        found.extend(str(page["text"]).splitlines())
        offset = page["next_offset"]
    assert found == whole.splitlines()


def test_a_very_long_line_is_cut_to_what_is_round_the_match():
    shown = str(read_page("x" * 5_000 + "needle" + "x" * 5_000, pattern="needle")["text"])
    assert "needle" in shown
    assert len(shown) < 1_100


def test_a_large_text_is_searched_in_pieces():
    text = ("x" * 999 + "\n") * 2_500
    offsets = [0]
    while isinstance(
        offset := read_page(text, pattern="n", offset=offsets[-1])["next_offset"], int
    ):
        offsets.append(offset)
    assert offsets == [0, 500_000, 1_000_000, 1_500_000, 2_000_000]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("b", "ab aab xb"),
        ("A*B", "ab aab"),
        ("*", "ab aab xb . İa"),
        ("", "ab aab xb . İa"),
        ("a*a*b", "aab"),
        ("b*a", ""),
        (".", "."),
        ("a\nb", ""),
        ("ia", "İa"),
    ],
)
def test_a_star_stands_for_any_characters_of_one_line(pattern: str, found: str):
    page = read_page("ab\naab\nxb\n.\nİa", pattern=pattern)
    assert [line.split(": ")[1] for line in str(page["text"]).splitlines()] == found.split()


def test_a_pattern_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="at most 1000"):
        read_page("abc", pattern="x" * 1_001)


@given(st.text("ab*\n", max_size=30), st.text("ab*", max_size=5), st.integers(0, 10))
def test_it_finds_what_a_regular_expression_of_the_same_meaning_finds(
    text: str, pattern: str, offset: int
):
    form = ".*".join(map(re.escape, pattern.split("*")))
    lines = text[offset:].removesuffix("\n").split("\n") if text[offset:] else []
    expected = [line for line in lines if re.search(form, line)]
    page = read_page(text, pattern=pattern, offset=offset)
    found = str(page["text"]).split("\n") if page["text"] else []
    assert [line.split(": ", 1)[1] for line in found] == expected
