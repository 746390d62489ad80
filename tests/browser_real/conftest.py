"""The console in a real browser; run by ``make browser``, in a separate environment.

Elsewhere nothing here is collected, because the browser's driver is not installed.
"""

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urljoin

import pytest

from tests.browser_real.shop import fill, make_shop

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


@asynccontextmanager
async def open_browser() -> AsyncGenerator[Any]:
    """Start a browser; names under ``example`` lead to this machine."""
    from playwright.async_api import async_playwright, expect

    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as driver:
        options = ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"]
        began = await driver.chromium.launch(executable_path=chromium(), args=options)
        yield began
        await began.close()


@pytest.fixture(scope="session")
async def browser() -> AsyncGenerator[Any]:
    """The browser of all tests; ``page_of`` keeps their pages apart."""
    async with open_browser() as began:
        yield began


@pytest.fixture
async def page_of(browser: Any) -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
    """Opens an address as a user, apart from the other pages, until the test ends.

    ``faults`` of the page collects what went wrong in it.
    """
    contexts: list[Any] = []

    async def opened(url: str, name: str = "oz", **options: Any) -> Any:
        given: Any = {"viewport": LAPTOP, "extra_http_headers": {"authorization": name}, **options}
        context = await browser.new_context(**given)
        contexts.append(context)
        if url.startswith("http"):
            await context.add_cookies([{"name": "user", "value": name, "url": urljoin(url, "/")}])
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda said: _note(page, said))
        await page.goto(url)
        return page

    yield opened
    for context in contexts:
        await context.close()


async def main_thread_of(page: Any) -> Callable[[], Awaitable[float]]:
    """Return what reads how many seconds of CPU a page's main thread has used.

    That is what the page itself computes, which is the same beside other work of the machine.
    """
    watch = await page.context.new_cdp_session(page)
    await watch.send("Performance.enable", {"timeDomain": "threadTicks"})

    async def busy_s() -> float:
        metrics = (await watch.send("Performance.getMetrics"))["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    return busy_s


@pytest.fixture(scope="session")
def filled(tmp_path_factory: Any) -> Callable[[int, Path], Awaitable[str]]:
    """Copies a journal of so many runs of the shop into a folder; it is filled once."""
    made: dict[int, Path] = {}

    async def copied(count: int, folder: Path) -> str:
        if count not in made:
            path = tmp_path_factory.mktemp("shop") / "runs.db"
            async with make_shop(str(path)) as app:
                await fill(app, count)
            made[count] = path
        return str(shutil.copy(made[count], folder))

    return copied


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


def in_views(wide: dict[str, int] = LAPTOP, narrow: dict[str, int] = PHONE) -> Any:
    """Parametrize a test by `views`: light and dark, wide and narrow; two of the four are slow."""
    views = [[("light", wide), ("dark", narrow)], [("dark", wide), ("light", narrow)]]
    crossed = pytest.param(views[1], id="dark-wide light-narrow", marks=pytest.mark.slow)
    usual = pytest.param(views[0], id="light-wide dark-narrow")
    return pytest.mark.parametrize("views", [usual, crossed])


Views: TypeAlias = Sequence[tuple[str, dict[str, int]]]
"""Colour schemes, each with the size of the screen."""
# All that axe finds, however slight, and whether the page must be scrolled sideways.
FAULTS = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"], selectors: false });
  const wide = document.documentElement.scrollWidth - innerWidth;
  return [
    ...found.violations.map(({ id, nodes: [{ html, failureSummary }] }) =>
      `${id}: ${html.slice(0, 200)} ${failureSummary.slice(0, 300)}`),
    ...(wide > 0 ? [`${wide} px too wide`] : []),
  ];
}"""


@pytest.fixture
def faults_of(axe: str) -> Callable[..., Awaitable[list[str]]]:
    """Looks at a page in views, and returns what axe finds and what is too wide."""

    async def found(page: Any, views: Views = (), *, picture: str = "") -> list[str]:
        await page.evaluate(axe)
        faults: list[str] = []
        for scheme, size in views or [("light", page.viewport_size)]:
            await page.set_viewport_size(size)
            await page.emulate_media(color_scheme=scheme)
            at = f"{page.url} {scheme} {size['width']} px"
            faults += [f"{at}: {one}" for one in await page.evaluate(FAULTS)]
            if picture:
                await take_picture(page, f"{picture}-{size['width']}-{scheme}")
        return faults

    return found


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
