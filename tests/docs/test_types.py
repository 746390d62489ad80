"""The Python blocks of the pages, as the type checker of a user sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_pages import BLOCK, PAGES, ROOT, blocks_of

# A page may show what stands in an async function without writing that function.
AWAITS = ('"await" allowed only within async function', 'Use of "async" not allowed outside of')


# What a new user copies first, also into a project that is as strict as this one.
STRICT = {"README", "tutorial", "events", "result", "options", "handoff", "conversation"}
FILE = re.compile(r"^```python (\S+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def program_of(text: str, mode: str) -> str:
    """The blocks of a page as one program, each line where it stands on the page."""
    program = [f"# pyright: {mode}"]
    for block in BLOCK.finditer(text):
        program += [""] * (text.count("\n", 0, block.start(1)) - len(program))
        program += block[1].splitlines()
    return "\n".join(program)


@pytest.mark.slow
def test_the_code_of_the_pages_fits_the_types(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is a development dependency")
    for page in filter(blocks_of, PAGES):
        mode = "strict" if page.stem in STRICT else "standard"
        (tmp_path / f"{page.stem}.py").write_text(program_of(page.read_text(), mode))
        for name, code in FILE.findall(page.read_text()):
            (tmp_path / name).write_text(f"# pyright: {mode}\n{code}")
    config = {"pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    program = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(
        [*program, "-p", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] >= 10
    wrong = [
        f"{Path(one['file']).stem}, line {one['range']['start']['line'] + 1}: {one['message']}"
        for one in told["generalDiagnostics"]
        if not one["message"].startswith(AWAITS)
    ]
    assert wrong == []
