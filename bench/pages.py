"""How soon the console draws each page beside 100,000 runs, and the longest task of its script.

A browser draws the pages, so this case needs the environment that ``make browser`` makes. The
server runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser_real.tasks import TRACED, Task, longest_task

__all__ = ["pages"]

RUNS = int(os.environ.get("RUNS", "100000"))
BROWSER = Path(".venv-browser/bin/python")
ROUNDS = 3
AIM_PAINT_MS, AIM_TASK_MS = 1_000, 50
LIMIT_MS = 30_000
MARKS = """() => [
  performance.getEntriesByName("first-contentful-paint")[0].startTime,
  performance.getEntriesByName("drawn")[0].startTime,
]"""
DRAWN = """(rows) => performance.getEntriesByName("drawn").length > 0
  && document.querySelectorAll("button.row").length >= rows"""
SCROLL = """async (name) => {
  const box = document.querySelector(name);
  for (let at = 0; at < 120; at += 1) {
    box.scrollTop = (box.scrollHeight * at) / 120;
    await new Promise(requestAnimationFrame);
  }
}"""
STEPS = 4_000
PAGE, TIMELINE, TRANSCRIPT = "html", ".pane .scroll", ".pane.right .scroll"
# Each page, and what is scrolled.
PAGES = {
    "overview": ("/", PAGE),
    "runs": ("/runs", PAGE),
    "inbox": ("/inbox", PAGE),
    "effects": ("/effects", PAGE),
    "tools": ("/tools", PAGE),
    "workers": ("/workers", PAGE),
    "audit": ("/audit", PAGE),
    "timeline of a run of 4,000 steps": ("/runs/{run}", TIMELINE),
    "transcript of that run": ("/runs/{run}", TRANSCRIPT),
}


class Opening(NamedTuple):
    """What opening and scrolling a page once took, from its address on."""

    paint_ms: float
    drawn_ms: float
    opening: Task
    scrolling: Task


def pages() -> None:
    """Open each page some times, and scroll it."""
    if not BROWSER.exists():
        print("the pages of the console: skipped, as there is no .venv-browser (make browser)")
        return
    with tempfile.TemporaryDirectory() as folder:
        served = subprocess.Popen(
            [sys.executable, "-m", "bench.pages", "serve", f"{folder}/runs.db"],
            env={**os.environ, "RUNS": str(RUNS)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert served.stdout is not None
            url, run = served.stdout.readline().split()
            print(f"the pages of the console beside {RUNS:,} runs", flush=True)
            subprocess.run([BROWSER, "-m", "bench.pages", "open", url, run], check=True)
        finally:
            # Its journal goes with the folder.
            served.kill()
            served.wait()


async def _open_all(url: str, run: str) -> None:
    from playwright.async_api import async_playwright

    from tests.browser_real.conftest import chromium

    wanted = os.environ.get("ONLY", "")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name, (path, scrolled) in PAGES.items():
            if wanted in name:
                address = url + path.format(run=run)
                _show(name, [await _open(browser, address, scrolled) for _ in range(ROUNDS)])
        await browser.close()


async def _open(browser: Any, url: str, scrolled: str) -> Opening:
    from tests.browser_real.conftest import LAPTOP

    given = {"viewport": LAPTOP, "extra_http_headers": {"authorization": "oz"}}
    context = await browser.new_context(**given)
    await context.add_cookies([{"name": "user", "value": "oz", "url": url}])
    page = await context.new_page()
    page.set_default_timeout(LIMIT_MS)
    await browser.start_tracing(page=page, categories=TRACED)
    await page.goto(url)
    await page.wait_for_function(DRAWN, arg=STEPS if "/runs/" in url else 0)
    # Live pages never rest.
    with contextlib.suppress(Exception):
        await page.wait_for_load_state("networkidle", timeout=3_000)
    opening = longest_task(await browser.stop_tracing())
    paint_ms, drawn_ms = await page.evaluate(MARKS)
    await browser.start_tracing(page=page, categories=TRACED)
    await page.evaluate(SCROLL, scrolled)
    scrolling = longest_task(await browser.stop_tracing())
    await context.close()
    return Opening(paint_ms, drawn_ms, opening, scrolling)


def _show(name: str, found: list[Opening]) -> None:
    median = statistics.median
    paint_ms = median(one.paint_ms for one in found)
    parts: list[str] = []
    for part in ("opening", "scrolling"):
        tasks: list[Task] = [getattr(one, part) for one in found]
        cpu_ms = median(one.cpu_ms for one in tasks)
        over = "" if cpu_ms <= AIM_TASK_MS else f" (over the aim of {AIM_TASK_MS} ms)"
        took_ms = median(one.took_ms for one in tasks)
        parts.append(f"{cpu_ms:.0f} ms of CPU while {part}{over}, {took_ms:.0f} ms by the clock")
    over = "" if paint_ms <= AIM_PAINT_MS else f" (over the aim of {AIM_PAINT_MS} ms)"
    print(
        f"  {name}: first paint {paint_ms:.0f} ms{over}, drawn "
        f"{median(one.drawn_ms for one in found):.0f} ms, longest task {'; '.join(parts)}",
        flush=True,
    )


async def _serve(file: str) -> None:
    from bench.overview import fill_runs
    from tests.browser_real.shop import ShopModel, make_shop
    from tests.serve.kit import served
    from upshot import Budget
    from upshot.journal import SqliteJournal
    from upshot.journal.sql.count_rows import count_again

    journal = await SqliteJournal.open(file)
    await journal.write(partial(fill_runs, "SQLite"))
    # Items without a log cannot be shown.
    await journal.write(lambda connection: connection.execute("DELETE FROM inbox"))
    await journal.write(count_again)
    await journal.aclose()
    app = make_shop(file, ShopModel())
    async with served(app, rate=100_000) as client:
        run = await app.submit("clerk", "Count every shelf.", budget=Budget(max_turns=None))
        for number in range(60):
            await app.submit("clerk", f"Refund the night light of order {number}, it never came.")
        while not (await run.state()).ended:
            await asyncio.sleep(0.05)
        print(client.url, run.id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run({"serve": _serve, "open": _open_all}[sys.argv[1]](*sys.argv[2:]))
