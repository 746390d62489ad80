"""Names that are loaded at their first use, and names that are nowhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

import upshot
from upshot.lazy import lazy_names


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
    names: dict[str, object] = {}
    load = lazy_names("upshot", names, {"errors": "Misuse UpshotError"})
    assert load("Misuse") is upshot.Misuse
    assert names == {"Misuse": upshot.Misuse}
