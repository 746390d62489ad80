"""What axe-core finds in each page, light and dark, on a laptop and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser_real.conftest import LAPTOP, PHONE, Views, in_views
from tests.browser_real.shop import SCENES, fill, make_shop
from tests.serve.kit import served


@in_views()
async def test_axe_finds_nothing_in_any_page(
    tmp_path: Path, page_of: Any, faults_of: Any, views: Views
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        made = await fill(app, len(SCENES))
        page = await page_of(client.url)
        paths = [
            "/",
            "/?period=week",
            "/runs",
            "/runs?effect=unknown",
            "/inbox",
            "/effects",
            "/tools",
            "/audit",
            "/sessions",
            "/workers",
            "/conversations",
        ]
        paths += [
            "/chat/clerk",
            "/conversations/talk-1",
            "/runs/none",
            f"/runs/{made[0]}/compare/{made[5]}",
        ]
        paths += [f"/runs/{made[at]}" for at in (0, 2, 3, 6, 7, 9)]
        faults: list[str] = []
        for path in paths:
            await page.set_viewport_size(views[0][1])
            await page.goto(client.url + path)
            await page.wait_for_selector("main:not([aria-busy]) > *")
            if path in (f"/runs/{made[at]}" for at in (0, 3, 6, 7)):
                await page.locator("button.row").first.click()
            faults += await faults_of(page, views)
        assert faults == []
        assert page.faults == []


async def test_a_fault_of_one_view_is_found(page_of: Any, faults_of: Any) -> None:
    page = await page_of("about:blank")
    await page.set_content(
        """<html lang=en><title>A</title><main><h1>Orders</h1>
        <div style="width: 600px">b</div></main>
        <style>@media (prefers-color-scheme: dark) { h1 { color: #eee } }</style></html>"""
    )
    narrow, contrast = await faults_of(page, [("light", PHONE), ("dark", LAPTOP)])
    assert "light 360 px: " in narrow and "px too wide" in narrow
    assert "dark 1360 px: color-contrast: <h1>" in contrast
