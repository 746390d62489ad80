"""What axe-core finds in each page, light and dark, on a laptop and on a phone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.browser_real.conftest import LAPTOP, PHONE
from tests.browser_real.shop import SCENES, fill, make_shop
from tests.serve.kit import served

# Serious and worse, by the judgement of axe-core.
BLOCKING = ("serious", "critical")
VIEWPORTS = {"laptop": LAPTOP, "phone": PHONE}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["laptop", "phone"])
async def test_axe_finds_nothing_serious_in_any_page(
    tmp_path: Path, page_of: Any, axe: str, scheme: str, size: str
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        made = await fill(app, len(SCENES))
        page = await page_of(client.url, viewport=VIEWPORTS[size], color_scheme=scheme)
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
        found: Counter[str] = Counter()
        faults: list[str] = []
        for path in paths:
            await page.goto(client.url + path)
            await page.wait_for_selector("main:not([aria-busy]) > *")
            if path in (f"/runs/{made[at]}" for at in (0, 3, 6, 7)):
                await page.locator("button.row").first.click()
            await page.evaluate(axe)
            for one in (await page.evaluate("axe.run()"))["violations"]:
                found[one["impact"]] += len(one["nodes"])
                if one["impact"] in BLOCKING:
                    node = one["nodes"][0]
                    faults.append(f"{path} {one['id']}: {node['html'][:200]}")
                    faults.append(node["failureSummary"][:300])
            # What is wider than the screen is scrolled sideways.
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            faults += [f"{path} is {wide} px too wide"] * (wide > 0)
        print(f"\n{len(paths)} pages, {scheme}, {size}: {dict(found) or 'no finding'}")
        assert faults == []
        assert page.faults == []
