"""Files of plain data: how they are read, and what is said of those that cannot be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from upshot.data_files import fit, read_data_file
from upshot.errors import Misuse


class Point(msgspec.Struct):
    x: int
    tags: list[str] = []


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.json", b'{"x": 1}'), ("a.yaml", b"x: 1"), ("a.json", b'\xef\xbb\xbf{"x": 1}')],
    ids=["json", "yaml", "byte order mark"],
)
def test_a_file_is_read_by_its_suffix(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert read_data_file(tmp_path / name, name) == {"x": 1}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"{\n]", "a.json, line 2, column 1: this is not JSON: "),
        ("a.json", b" \n", "a.json: the file is empty"),
        ("a.yml", b"a: [", "a.yml, line 1, column 5: this is not YAML: "),
        ("a.json", b"\xff", "a.json is not UTF-8 text: "),
    ],
    ids=["json", "empty", "yaml", "latin"],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Misuse) as raised:
        read_data_file(tmp_path / name, name)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_what_does_not_fit_is_named_by_its_place() -> None:
    with pytest.raises(Misuse, match=r"^here: tags\[1\]: expected `str`, got `int`$"):
        fit({"x": 1, "tags": ["a", 2]}, Point, "here")
