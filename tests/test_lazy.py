"""Names that are loaded at their first use, and names that are nowhere."""

from __future__ import annotations

import builtins
import subprocess
import sys
from typing import Any, cast

import pytest

import upshot
from upshot.lazy import lazy_imports


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rnu", "module 'upshot' has no attribute 'rnu': did you mean 'run'?"),
        ("agent", "module 'upshot' has no attribute 'agent': did you mean 'Agent'?"),
        ("zzzzzz", "module 'upshot' has no attribute 'zzzzzz'"),
        ("__runs__", "module 'upshot' has no attribute '__runs__'"),
    ],
)
def test_a_name_that_is_nowhere_is_answered_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(upshot, name)
    assert str(caught.value) == said
    assert caught.value.name == name


def test_the_nearest_name_is_told_once() -> None:
    program = [sys.executable, "-c", "import upshot; upshot.Agnt"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.lower().count("did you mean") == 1


def test_a_name_is_loaded_once_and_kept() -> None:
    names: dict[str, object] = {"__name__": "somewhere"}
    with lazy_imports(names):
        exec("from upshot.errors import Misuse, UpshotError", names)
    assert names["__all__"] == ["Misuse", "UpshotError"]
    assert "Misuse" not in names
    load = cast("Any", names["__getattr__"])
    assert load("Misuse") is upshot.Misuse
    assert names["Misuse"] is upshot.Misuse


def test_other_imports_go_on_while_a_package_notes_its_names() -> None:
    with lazy_imports({"__name__": "somewhere"}):
        from difflib import get_close_matches
    assert get_close_matches("a", ["a"]) == ["a"]


def test_imports_are_as_before_after_a_block_that_raises() -> None:
    before = builtins.__import__
    with pytest.raises(ZeroDivisionError), lazy_imports({}):
        _ = 1 / 0
    assert builtins.__import__ is before
