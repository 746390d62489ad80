"""The code whose types ``make types`` checks uses every public name."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


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
