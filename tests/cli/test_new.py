"""`upshot new`: a desk that answers and passes its own tests as it is."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Command
from tests.processes import run_python


def test_a_new_desk_answers_and_passes_its_tests(command: Command) -> None:
    code, out, hints = command("new", "shop")
    assert code == 0
    files = [f"shop/{name}" for name in ("README.md", "desk.py", ".gitignore", "pytest.ini")]
    assert sorted(out.split()) == sorted([*files, "shop/test_desk.py"])
    assert "cd shop" in hints
    own = Path("shop").resolve()
    ended = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=own, text=True)
    assert "5 passed" in ended.stdout, ended.stdout
    assert command("run", "shop/desk.py:support", "Where is order 7?")[1] == (
        "Order 7 has been shipped.\n"
    )


def test_a_folder_with_files_is_left_as_it_is(command: Command) -> None:
    Path("shop").mkdir()
    Path("shop/mine.txt").write_text("mine", "utf-8")
    code, _, error = command("new", "shop")
    assert (code, [one.name for one in Path("shop").iterdir()]) == (2, ["mine.txt"])
    assert "shop is not empty: name a new folder" in error
    code, _, error = command("new", "shop/mine.txt/desk")
    assert code == 2
    assert "cannot be written: Not a directory" in error
