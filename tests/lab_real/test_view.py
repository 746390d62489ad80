"""Inspect's viewer shows our reports, in a real browser."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.lab_real.kit import reported

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000


@pytest.fixture
def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def viewer(tmp_path: Path, free_port: int):
    """Starts the viewer on a folder of logs; returns its address."""
    started = []

    def start(folder: Path) -> str:
        command = [str(Path(sys.executable).with_name("inspect")), "view", "start"]
        options = ["--log-dir", str(folder), "--host", "127.0.0.1", "--port", str(free_port)]
        with (tmp_path / "viewer.txt").open("w") as said:
            started.append(subprocess.Popen([*command, *options], stdout=said, stderr=said))
        address, until = f"http://127.0.0.1:{free_port}", time.monotonic() + 60
        while True:
            try:
                urlopen(address, timeout=5).close()
                return address
            except OSError:
                assert time.monotonic() < until, (tmp_path / "viewer.txt").read_text("utf-8")
                time.sleep(0.05)

    yield start
    for process in started:
        process.terminate()
        process.wait(20)


async def test_the_viewer_lists_the_samples(viewer, tmp_path: Path) -> None:
    from playwright.async_api import async_playwright, expect

    found = os.environ.get("UPSHOT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("no Chromium: apt-get install chromium, or name one in UPSHOT_BROWSER")
    report = await reported(repeat=2)
    report.to_inspect(tmp_path / "logs")
    address = viewer(tmp_path / "logs")
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1360, "height": 860})
        page.set_default_timeout(PATIENCE_MS)
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        await page.goto(address)
        await _picture(page, "list")
        for variant in ("record", "today", "hasty one"):
            await expect(page.get_by_text(f"upshot/{variant}").first).to_be_visible()
        await page.get_by_text("upshot/hasty one").first.click()
        for id in range(1, 5):
            await expect(page.get_by_text(f"Refund order {id}").first).to_be_visible()
        await expect(page.get_by_text("same_effects").first).to_be_visible()
        await _picture(page, "samples")
        await page.get_by_text("Refund order 2").first.click()
        await expect(page.get_by_text("Order 2 is refunded.").first).to_be_visible()
        await _picture(page, "sample")
        await browser.close()
    assert faults == []


async def _picture(page, name: str) -> None:
    if folder := os.environ.get("UPSHOT_PICTURES"):
        await page.screenshot(path=str(Path(folder) / f"inspect-{name}.png"))
