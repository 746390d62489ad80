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
    assert read_page(text, pattern="^two")["text"] == "2: two\n4: two again"


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
    page = read_page(text, pattern="needle")
    assert page == {"text": "", "next_offset": 2_000_000}
    assert read_page(text, pattern="needle", offset=2_000_000)["next_offset"] is None
