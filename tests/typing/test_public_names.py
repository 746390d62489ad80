"""The types of the public names, as a strict checker sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("names", ["public_names.py", "wire_names.py"])
def test_the_public_names_are_typed_as_a_user_expects(names: str) -> None:
    pytest.importorskip("pyright", reason="pyright is a development dependency")
    done = subprocess.run(
        [sys.executable, "-m", "pyright", str(HERE / names)],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
