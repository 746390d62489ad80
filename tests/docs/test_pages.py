"""Every Python block of the pages runs, in order, as one program a page."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")
    # Dataclasses look their module up.
    monkeypatch.setitem(sys.modules, "page", module)
    namespace = vars(module)
    for number, code in enumerate(blocks_of(page), start=1):
        place = f"{page.name}, block {number}"
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compiled = compile(code, place, "exec", flags, dont_inherit=True)
        if compiled.co_flags & inspect.CO_COROUTINE:
            asyncio.run(types.FunctionType(compiled, namespace)())
        else:
            exec(compiled, namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    missing = [
        target
        for target in targets
        if (path := target.partition("#")[0]) and not (page.parent / path).exists()
    ]
    assert not missing


def test_the_start_page_links_every_page() -> None:
    linked = {target.partition("#")[0] for target in LINK.findall((ROOT / "README.md").read_text())}
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= linked


def test_the_start_page_shows_code() -> None:
    assert blocks_of(ROOT / "README.md")
