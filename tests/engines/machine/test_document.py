"""Documents: YAML and plain data as pieces with places, however odd the text."""

from __future__ import annotations

import json
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from upshot.engines.machine.document import (
    MAX_BYTES,
    MachineFault,
    Piece,
    Scalar,
    Table,
    plain,
    read_data,
    read_yaml,
)


def read(text: str) -> tuple[Any, list[MachineFault]]:
    faults: list[MachineFault] = []
    piece = read_yaml(text, faults)
    return None if piece is None else plain(piece), faults


def value_at(text: str, *path: str) -> Piece:
    piece = read_yaml(text, [])
    for name in path:
        assert isinstance(piece, Table)
        piece = piece.items[name]
    assert piece is not None
    return piece


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-1", -1), ("0o17", 15), ("0xff", 255), ("1.5", 1.5), ("1e3", 1000.0),
        ("true", True), ("False", False), ("null", None), ("~", None), ("yes", "yes"),
        ("no", "no"), ("on", "on"), ("2024-01-01", "2024-01-01"), ("'1'", "1"), ('"true"', "true"),
        ("1_000", "1_000"), ("12:30", "12:30"), ("=", "="), ("<<", "<<"),
    ],
)  # fmt: skip
def test_plain_words_mean_what_the_core_schema_says(text: str, value: Any) -> None:
    assert read(f"a: {text}")[0] == {"a": value}
    assert type(read(f"a: {text}")[0]["a"]) is type(value)


def test_every_piece_knows_its_place() -> None:
    piece = value_at("a:\n  - b: 1\n    c: two", "a")
    inner = piece.items[0].items["c"]  # type: ignore[union-attr, index]
    assert (inner.mark.line, inner.mark.column, inner.mark.path) == (3, 8, "a[0].c")


def test_a_key_that_stands_twice_is_told_with_both_places() -> None:
    found, faults = read("a: 1\nb: 2\na: 3")
    assert found == {"a": 1, "b": 2}
    assert [str(fault) for fault in faults] == [
        "machine:3:1: the key 'a' a second time: expected each key once; line 1 has it already"
    ]


def test_an_alias_is_what_its_anchor_is() -> None:
    assert read("a: &x [1, 2]\nb: *x\nc: [*x]")[0] == {"a": [1, 2], "b": [1, 2], "c": [[1, 2]]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3, z: 4}", {"x": 1, "y": 3, "z": 4}),
        ("a: &a {x: 1, y: 2}\nb: {y: 3, <<: *a}", {"x": 1, "y": 3}),
        ("a: &a {x: 1}\nc: &c {x: 2, y: 2}\nb: {<<: [*a, *c]}", {"x": 1, "y": 2}),
        ("a: &a {x: 1}\nc: &c {<<: *a, y: 2}\nb: {<<: *c}", {"x": 1, "y": 2}),
        ("b: {<<: {x: 1}, y: 2}", {"x": 1, "y": 2}),
        ("b: {<<: []}", {}),
        ("b: {'<<': {x: 1}}", {"<<": {"x": 1}}),
    ],
    ids=["own wins", "at the end", "list", "twice", "written there", "none", "quoted"],
)
def test_a_merge_key_takes_in_what_a_mapping_lacks(text: str, value: Any) -> None:
    found, faults = read(text)
    assert not faults
    assert found["b"] == value


def test_what_is_merged_keeps_the_place_where_it_is_written() -> None:
    piece = value_at("a: &a\n  x: 1\nb:\n  <<: *a\n  y: 2", "b")
    assert isinstance(piece, Table)
    assert piece.items["x"].mark[1:] == (2, 6, "a.x")
    assert piece.marks["x"][1:3] == (2, 3)
    assert piece.marks["y"][1:3] == (5, 3)


@pytest.mark.parametrize(
    ("text", "found", "place"),
    [
        ("a: 1\nb: {<<: 5}", "<< with a value that is not a mapping", (2, 5)),
        ("a: 1\nb: {<<: [{}, x]}", "<< with a value that is not a mapping", (2, 5)),
        ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", "a second <<", (2, 13)),
    ],
    ids=["number", "list", "twice"],
)
def test_a_merge_key_of_no_mapping_is_told(text: str, found: str, place: tuple[int, int]) -> None:
    faults = read(text)[1]
    assert [(fault.found, fault.mark[1:3]) for fault in faults] == [(found, place)]


MERGED = "a0: &a0 {x: [x,x,x,x,x,x,x,x,x]}\n" + "\n".join(
    f"a{n}: &a{n} {{{','.join(f'k{i}: {{<<: *a{n - 1}}}' for i in range(9))}}}"
    for n in range(1, 30)
)
BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)
)


@pytest.mark.slow("items")
@pytest.mark.parametrize(
    "text",
    [BOMB, MERGED, "a: " + "[" * 100_000, "a: " + "{" * 100_000, "- " * 100_000,
     "x: " + "y" * MAX_BYTES, "- 1\n" * 100_000],
    ids=["aliases", "merges", "lists", "mappings", "block lists", "bytes", "items"],
)  # fmt: skip
def test_what_no_person_can_read_is_refused(text: str) -> None:
    found, faults = read(text)
    assert found is None
    assert "of a size that a person can read" in faults[-1].expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "this is not YAML"), ("\x00", "not YAML"),
        ("a:\n\tb: 1", "this is not YAML (a tab in the indentation)"),
        ("a: *x", "the alias *x of nothing"), ("a: &x [*x]", "inside its own value"),
        ("a: !!python/object:os.system x", "the tag"), ("a: !x 1", "the tag !x"),
        ("? [1]\n: 2", "a key that is not a text"), ("a: 1\n---\nb: 2", "another document"),
    ],
)  # fmt: skip
def test_what_is_no_plain_data_is_told(text: str, said: str) -> None:
    assert said in read(text)[1][0].found


def test_a_text_that_yaml_cannot_read_is_told_by_its_place() -> None:
    (fault,) = read("a: 1\nb: {c: ]}")[1]
    assert (fault.mark.line, fault.mark.column) == (2, 8)


@given(st.text())
@example("a: &a\n  <<: *a")
def test_any_text_can_be_read(text: str) -> None:
    read_yaml(text, [])


@given(st.text(alphabet="ab:-?[]{},&*!|>'\"#%@` \n\t"))
def test_any_text_of_marks_can_be_read(text: str) -> None:
    read_yaml(text, [])


NAMES = st.text(max_size=5)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | FLOATS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
DATA = st.dictionaries(NAMES, JSON, max_size=4)


@given(DATA)
def test_plain_data_is_what_it_was(data: dict[str, Any]) -> None:
    faults: list[MachineFault] = []
    piece = read_data(data, faults)
    assert piece is not None
    assert plain(piece) == data
    assert not faults


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (float("nan"), "the number nan"),
        (-float("inf"), "the number -inf"),
        (10**5000, "a number of more than 300 digits"),
        ("\ud800", r"the text '\ud800'"),
        ({"\udfff": 1}, r"the text '\udfff'"),
    ],
    ids=["nan", "infinity", "digits", "text", "key"],
)
def test_data_that_json_cannot_hold_is_a_fault(value: Any, found: str) -> None:
    faults: list[MachineFault] = []
    read_data({"a": [value]}, faults)
    assert [fault.found for fault in faults] == [found]
    assert faults[0].mark.path == "a[0]"


@pytest.mark.parametrize("digits", [301, 400])
def test_a_whole_number_of_yaml_is_no_rounded_one(digits: int) -> None:
    faults = read(f"a: {'1' * digits}")[1]
    assert [fault.found for fault in faults] == ["a number of more than 300 digits"]
    assert read(f"a: -{'1' * 300}") == ({"a": -int("1" * 300)}, [])


class Word(StrEnum):
    FINAL = "final"

    def __str__(self) -> str:
        return "another"


class Real(float): ...


def test_data_of_classes_of_ones_own_is_plain_afterwards() -> None:
    piece = read_data({"a": Word.FINAL, "b": Real(1.5), "c": HTTPStatus.OK}, [])
    assert piece is not None
    found: Any = plain(piece)
    assert found == {"a": "final", "b": 1.5, "c": 200}
    assert [type(value) for value in found.values()] == [str, float, int]


def test_a_text_with_half_a_character_is_told_where_it_stands() -> None:
    found, faults = read("a: 1\nb: x\ud800")
    assert found is None
    assert [(fault.mark.line, fault.mark.column) for fault in faults] == [(2, 5)]


@given(DATA)
def test_json_is_read(data: dict[str, Any]) -> None:
    text = json.dumps(data, ensure_ascii=False)
    assert read(text)[0] == data or not text.isprintable()


def test_data_that_is_none_is_told_by_its_path() -> None:
    faults: list[MachineFault] = []
    read_data({"a": [{"b": {1}}], 2: 3}, faults)
    assert [str(fault) for fault in faults] == [
        "a[0].b: set {1}: expected a mapping, list, text, number, true, false or null",
        "2: the key 2: expected a text as key",
    ]


def test_data_that_holds_itself_is_refused() -> None:
    data: dict[str, Any] = {}
    data["a"] = data
    faults: list[MachineFault] = []
    assert read_data(data, faults) is None
    assert faults


def test_a_scalar_keeps_how_it_is_written() -> None:
    piece = value_at("a: 'x y'", "a")
    assert isinstance(piece, Scalar)
    assert (piece.style, piece.text) == ("'", "x y")


@pytest.mark.parametrize("text", ["a: @\tx", "a:\n  b: [\t"])
def test_a_tab_elsewhere_is_not_blamed(text: str) -> None:
    assert "a tab" not in read(text)[1][0].found
