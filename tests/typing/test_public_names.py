"""The types of the public names, as a strict checker sees them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def test_the_public_names_are_typed_as_a_user_expects() -> None:
    pytest.importorskip("pyright", reason="pyright is a development dependency")
    files = [str(HERE / f"{part}_names.py") for part in ("public", "wire", "model", "flat")]
    done = subprocess.run(
        [sys.executable, "-m", "pyright", *files],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("upshot.wire", "wire_names.py"),
        ("upshot.models", "model_names.py"),
        ("upshot.flat", "flat_names.py"),
        ("upshot.adapters", "flat_names.py"),
    ],
)
def test_every_public_name_is_used_by_the_checked_code(package: str, names: str) -> None:
    used = set(re.findall(r"\w+", (HERE / names).read_text("utf-8")))
    assert sorted(set(import_module(package).__all__) - used) == []
