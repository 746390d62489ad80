"""The console in a real browser; run by ``make browser``, in a separate environment.

Elsewhere nothing here is collected, because the browser's driver is not installed.
"""

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

if "UPSHOT_REAL_BROWSER" not in os.environ:
    collect_ignore_glob = ["test_*.py"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
LAPTOP = {"width": 1360, "height": 860}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "pictures"
PHONE = {"width": 360, "height": 760}
# How long to wait for something that appears at once on an idle machine.
PATIENCE_MS = 60_000


def chromium() -> str:
    """Return the browser of this machine."""
    found = os.environ.get("UPSHOT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("no Chromium: apt-get install chromium, or name one in UPSHOT_BROWSER")
    return found


@pytest.fixture
async def browser(request: Any) -> AsyncGenerator[Any]:
    """A browser; the parameter of a test adds options to its command line."""
    from playwright.async_api import async_playwright, expect

    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as driver:
        options = ["--no-sandbox", *getattr(request, "param", ())]
        began = await driver.chromium.launch(executable_path=chromium(), args=options)
        yield began
        await began.close()


@pytest.fixture
def page_of(browser: Any) -> Callable[..., Awaitable[Any]]:
    """Opens an address as a user; `faults` of the page collects what went wrong in it."""

    async def opened(url: str, name: str = "oz", **options: Any) -> Any:
        given: Any = {"viewport": LAPTOP, "extra_http_headers": {"authorization": name}, **options}
        context = await browser.new_context(**given)
        if url.startswith("http"):
            await context.add_cookies([{"name": "user", "value": name, "url": urljoin(url, "/")}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda said: _note(page, said))
        await page.goto(url)
        return page

    return opened


async def take_picture(page: Any, name: str) -> None:
    """Write a picture into the folder that UPSHOT_PICTURES names, if it is set.

    ``docs/pictures`` gets only those that it has: pages show them.
    """
    if named := os.environ.get("UPSHOT_PICTURES"):
        folder = Path(named).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        before = {one.stem for one in folder.glob("*.png")}
        if name in before or folder != DOCS:
            await page.screenshot(path=folder / f"{name}.png")


def _note(page: Any, said: Any) -> None:
    """Record what the browser blocked because of the site's policy."""
    if "Content Security Policy" in said.text:
        page.faults.append(said.text)


@pytest.fixture
def axe() -> str:
    """Return the source of axe-core."""
    source = Path(sys.prefix) / "node" / "node_modules" / "axe-core" / "axe.min.js"
    if not source.is_file():
        pytest.skip("no axe-core: make browser installs it")
    return source.read_text()
