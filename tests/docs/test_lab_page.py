"""The way from a bad run to a red check, as the page on the lab tells it, is walked."""

from __future__ import annotations

from pathlib import Path

from tests.docs.test_pages import ROOT
from tests.docs.test_types import FILE
from tests.processes import run_pytest
from tests.serve.kit import served
from upshot import App
from upshot.cli.loading import import_file
from upshot.serve import User


async def test_the_check_of_the_page_is_red_and_then_green(tmp_path: Path) -> None:
    files = dict(FILE.findall((ROOT / "docs" / "lab.md").read_text()))
    assert sum(bool(line.strip()) for code in files.values() for line in code.splitlines()) <= 25
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    app = App([import_file(tmp_path / "desk.py").support], journal=tmp_path / "desk.db")
    owner = User("owner", ("owner",))
    async with served(app, user=lambda _: owner, datasets=tmp_path / "datasets") as client:
        run = await app.submit("support", "The lamp of order 7 is broken.")
        await run.result(60)
        status, said = await client.post("/api/datasets/bad", {"runs": [run.id]})
        assert (status, said["cases"]) == (200, 1)
    assert "1 failed" in _pytest(tmp_path)
    mended = files["desk.py"].replace('effect="write"', 'effect="write", approval=True')
    (tmp_path / "desk.py").write_text(mended)
    assert "1 passed" in _pytest(tmp_path)


def _pytest(folder: Path) -> str:
    # An installed upshot names the plugin to pytest.
    plugin = ["-p", "upshot.testing.cases_marker", "-p", "no:cacheprovider"]
    return run_pytest(folder, *plugin, "test_desk.py")
