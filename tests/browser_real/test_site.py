"""The documentation site in a real browser; ``make site`` builds it and names it in UPSHOT_SITE.

A sample of its pages is checked in light and dark, on a laptop and on a phone.
"""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from docs.site.checks import MOST_BYTES, PICTURES, weight_of
from tests.browser_real.conftest import LAPTOP, PHONE

pytestmark = pytest.mark.skipif("UPSHOT_SITE" not in os.environ, reason="make site names the site")

SITE = Path(os.environ.get("UPSHOT_SITE", "."))
# The list of versions.
SMALL = 200
# Code, pictures, wide tables, the reference, and the pages that Sphinx adds.
SAMPLE = ["index", "effects", "comparison", "result", "api/running", "api/index", "search"]


class Site(http.server.ThreadingHTTPServer):
    """The site on loopback; it counts the bytes of what it serves, but not of pictures."""

    daemon_threads = True

    def __init__(self) -> None:
        self.weight = 0
        super().__init__(("127.0.0.1", 0), functools.partial(_Handler, directory=str(SITE.parent)))
        self.url = f"http://127.0.0.1:{self.server_port}/{SITE.name}/"


class _Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length" and not self.path.endswith(PICTURES):
            cast(Site, self.server).weight += int(value)
        super().send_header(keyword, value)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """The served site."""
    server = Site()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def note_hosts(page: Any) -> set[str]:
    """Return a set that gets the host of every request of *page*."""
    hosts: set[str] = set()

    def note(request: Any) -> None:
        hosts.add(request.url.split("/")[2] if "//" in request.url else "")

    page.on("request", note)
    return hosts


async def test_a_page_is_light_and_can_be_read_by_all(
    site: Site, page_of: Any, faults_of: Any
) -> None:
    page = await page_of("about:blank")
    hosts = note_hosts(page)
    faults: list[str] = []
    for name in SAMPLE:
        site.weight = 0
        await page.goto(f"{site.url}{name}.html")
        # The build weighs every page by its files; a browser must load no more than these.
        more = site.weight - weight_of(SITE, f"{name}.html")
        faults += [f"{name} loads {more} bytes more"] * (more > SMALL)
        faults += await faults_of(page, [("light", LAPTOP), ("dark", PHONE)])
    assert faults == []
    assert page.faults == []
    assert hosts == {f"127.0.0.1:{site.server_port}"}


async def test_the_search_finds_a_word_without_another_host(site: Site, page_of: Any) -> None:
    page = await page_of(site.url + "index.html")
    hosts = note_hosts(page)
    await page.locator(".sidebar-search").fill("idempotency")
    site.weight = 0
    await page.keyboard.press("Enter")
    await page.locator("#search-results li a").first.wait_for()
    found = await page.locator("#search-results li a").all_inner_texts()
    assert len(found) > 2
    assert hosts == {f"127.0.0.1:{site.server_port}"}
    assert 0 < site.weight <= MOST_BYTES


async def test_a_button_copies_what_is_typed(site: Site, page_of: Any) -> None:
    page = await page_of(site.url + "cli.html")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator(".highlight-console").first
    await block.get_by_role("button", name="Copy").click()
    await block.get_by_role("button", name="Copied").wait_for()
    copied = await page.evaluate("navigator.clipboard.readText()")
    lines = copied.splitlines()
    assert lines and all(one.startswith("upshot ") for one in lines)
