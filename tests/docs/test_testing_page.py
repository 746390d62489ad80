"""The page on testing is a test file itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_pages import ROOT, blocks_of


@pytest.mark.slow
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    page = ROOT / "docs" / "testing.md"
    code = "\n\n".join(blocks_of(page))
    (tmp_path / "test_page.py").write_text(code)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["upshot.testing.plugin"]\n')
    # What the page says is all that a project needs to begin with.
    (settings,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(settings)
    program = [sys.executable, "-m", "pytest", "-q", "-W", "error", "."]
    done = subprocess.run(
        program, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= code.count("def test_") + 20
