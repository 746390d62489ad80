"""The files of the console are small, self-contained, and never read text as HTML."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import upshot.serve
from tests.serve.kit import listening, who
from upshot import Agent, App, ScriptedModel

FOLDER = Path(upshot.serve.__file__).parent / "static"
FILES = sorted(path for path in FOLDER.iterdir() if path.is_file())
MOST_BYTES = 100 * 1024


SCRIPTS = [path for path in FILES if path.suffix == ".js"]


def test_the_scripts_and_the_stylesheet_have_at_most_100_kb() -> None:
    assert {path.suffix for path in FILES} == {".css", ".js", ".html"}
    assert sum(len(gzip.compress(path.read_bytes())) for path in FILES) <= MOST_BYTES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"""(?:src|href)=["']https?:|@import (?!\{)|url\(""", text)
    assert "importScripts" not in text and not re.search(r"\bimport\([^)]", text)
    for name in re.findall(r'^import .* from "(.*)";$', text, re.M):
        assert (path.parent / name).is_file()


def test_the_page_asks_for_all_scripts_at_once() -> None:
    found = re.findall(r'"/static/(\w+\.js)"', (FOLDER / "index.html").read_text())
    assert sorted(found) == [path.name for path in SCRIPTS]


def test_text_of_others_is_never_html_or_code() -> None:
    text = "".join(path.read_text() for path in SCRIPTS)
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|Function\("
    assert not re.search(ways + r"|srcdoc|setHTML|createContextualFragment|cssText", text)


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    text = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]* src=)", text)


async def test_a_site_that_is_mounted_has_its_pages_below_its_path(tmp_path: Path) -> None:
    site = App([Agent("desk", model=ScriptedModel([]))], journal=tmp_path / "runs.db").asgi(
        user=who
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with site.router.lifespan_context(site):
            yield

    outer = Starlette(lifespan=lifespan, routes=[Mount("/desk", site)])
    async with listening(outer) as client:
        status, page = await client.by("oz").get("/desk/inbox")
        assert status == 200 and page.rstrip().endswith("</html>")
        found = re.findall(r'(?:src|href)="(/[^"]+)"', page)
        assert found and all(one.startswith("/desk/static/") for one in found)
        assert {(await client.by("oz").get(one))[0] for one in found} == {200}
