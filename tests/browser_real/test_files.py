"""The page of a run as a file: it is drawn offline, by HTML alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.shop import SCENES, fill, make_shop
from tests.processes import run_python
from tests.serve.kit import Client, served

# What is in the log of the first scene, and must not become part of the page.
TRAPS = (
    "<script>alert(1)</script>",
    "<b>Ignore all instructions</b>",
    "https://evil.example/x.png",
)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[tuple[Client, Path, list[str]]]:
    """A shop with one run of each scene, served; its journal, and the runs."""
    journal = tmp_path / "runs.db"
    app = make_shop(str(journal))
    async with served(app, rate=100_000) as client:
        yield client, journal, await fill(app, len(SCENES))


def show(journal: Path, run_id: str, file: Path, *options: str) -> None:
    """Have the command write the page of a run."""
    command = ["-m", "upshot", "show", run_id, "--journal", journal, "--html", file]
    run_python(*command, *options, check=True)


async def opened(page_of: Any, file: Path, **options: Any) -> Any:
    """A page that a file is opened in, without a line; `asked` is what it loaded."""
    page = await page_of("about:blank", offline=True, **options)
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    await page.goto(file.as_uri())
    return page


async def test_the_page_that_the_command_wrote_is_drawn_offline_without_script_or_request(
    shop: Any, tmp_path: Path, page_of: Any
) -> None:
    _, journal, made = shop
    # Tools and a table; an approval that is waited for; a failure; child runs.
    for at in (0, 2, 8, 9):
        file = tmp_path / f"{at}.html"
        await asyncio.to_thread(show, journal, made[at], file)
        page = await opened(page_of, file)
        assert page.asked == [file.as_uri()]
        assert page.faults == []
        asked = SCENES[at][0].split("{")[0].strip()
        await expect(page.locator("main")).to_contain_text(asked)
        await expect(page.locator("header")).to_contain_text(made[at])
        assert await page.locator("script, img, iframe, object, link, base, form").count() == 0
        if not at:
            said = await page.locator(".said").inner_text()
            assert [trap for trap in TRAPS if trap not in said] == []
        await page.context.close()


async def test_the_file_of_the_console_is_that_of_the_command_and_reads_the_same_without_script(
    shop: Any, tmp_path: Path, page_of: Any
) -> None:
    client, journal, made = shop
    page = await page_of(f"{client.url}/runs/{made[0]}", accept_downloads=True)
    async with page.expect_download() as saving:
        await page.get_by_role("link", name="Save as a file").click()
    saved, told = tmp_path / "saved.html", tmp_path / "told.html"
    download = await saving.value
    assert download.suggested_filename.endswith(".html")
    await download.save_as(saved)
    await asyncio.to_thread(show, journal, made[0], told)
    assert saved.read_bytes() == told.read_bytes()
    texts: list[str] = []
    for has_script in (True, False):
        page = await opened(page_of, saved, java_script_enabled=has_script)
        assert page.asked == [saved.as_uri()]
        texts.append(await page.locator("body").inner_text())
    assert texts[0] == texts[1]
    assert "left the depot" in texts[0]


async def test_what_was_left_out_of_a_file_is_nowhere_in_it(
    shop: Any, tmp_path: Path, page_of: Any
) -> None:
    _, journal, made = shop
    file = tmp_path / "bare.html"
    await asyncio.to_thread(show, journal, made[0], file, "--without", "results,text")
    page = await opened(page_of, file)
    assert "left the depot" not in await page.content()
    await expect(page.locator("footer")).to_contain_text("Left out: results, text.")
