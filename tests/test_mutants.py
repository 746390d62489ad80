"""What ``make mutants`` changes in a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Copy, mutants_of


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("x = a < b", ["x = (a >= b)"]),
        ("x = a is not b", ["x = (a is b)"]),
        ("x = a and b", ["x = ((a) or (b))"]),
        ("x = not a", ["x = bool(a)"]),
        ("x = 'é' if a else b", ["x = 'é' if (not (a)) else b"]),
        ("x = 5", ["x = 6"]),
        ("x: Literal[5] = True", ["x: Literal[5] = False"]),
        ("x += a", ["pass"]),
        ("f(a)", ["pass"]),
        ("raise a", ["pass"]),
        ("x = a", []),
    ],
)
def test_a_line_is_changed_in_one_place(line: str, changed: list[str]) -> None:
    data = line.encode()
    made = [
        (data[: one.start] + one.new.encode() + data[one.end :]).decode()
        for one in mutants_of(line)
    ]
    assert made == changed


def test_every_mutant_of_a_module_is_a_module() -> None:
    source = Path(__file__).with_name("mutants.py").read_text("utf-8")
    data = source.encode()
    found = list(mutants_of(source))
    assert len(found) > 30
    for one in found:
        compile(data[: one.start] + one.new.encode() + data[one.end :], "it", "exec")


@pytest.mark.slow
def test_a_change_is_noticed_and_a_green_test_is_not_red(tmp_path: Path) -> None:
    (tmp_path / "root/src").mkdir(parents=True)
    (tmp_path / "root/test_it.py").write_text(
        "import it, pytest\n@pytest.mark.parametrize('x', [5], ids=['a case'])\n"
        "def test_it(x):\n    assert it.x == x\n"
    )
    copy = Copy(tmp_path, of=tmp_path / "root")
    for source, red in (
        (b"x = 5", []),
        (b"x = 6", ["test_it.py::test_it[a case]"]),
        (b"x = 5", []),
    ):
        copy.write("src/it.py", source)
        assert copy.red(["test_it.py"]) == red
