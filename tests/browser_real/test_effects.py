"""The page of effects: what may have happened is found, looked at and settled, on a phone too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import LAPTOP, PHONE
from tests.browser_real.shop import SCENES, fill, make_shop
from tests.serve.kit import served


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
async def test_a_person_settles_an_effect_and_the_first_answer_counts(
    tmp_path: Path, page_of: Any, size: dict[str, int]
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app) as client:
        await fill(app, len(SCENES))
        page = await page_of(client.url, viewport=size)
        await page.keyboard.type("ge")
        doubt = page.get_by_role("article", name="send_mail: did this happen?")
        await expect(doubt).to_contain_text("unknown for")
        await expect(doubt).to_contain_text("did not finish within 0.02 s")
        late = await page_of(client.url + "/effects", "sam", viewport=size)
        await late.get_by_role("article").wait_for()
        await page.keyboard.press("j")
        await expect(doubt).to_be_focused()
        await page.keyboard.press("Tab")
        while not await page.evaluate("document.activeElement.matches('[name=note]')"):
            await page.keyboard.press("Tab")
        await page.keyboard.type("in the folder of sent mails")
        await page.get_by_role("button", name="It happened").click()
        await expect(doubt).to_have_count(0)
        done = page.get_by_role("listitem").filter(has_text="send_mail")
        await expect(done).to_contain_text("settled by oz")
        await expect(done).to_contain_text("in the folder of sent mails")
        (known,) = await app.effects(tool="send_mail")
        assert known.state == "applied" and known.settled and known.settled.by == "oz"
        await late.get_by_role("button", name="It did not happen").click()
        asks = late.get_by_role("dialog")
        await asks.get_by_role("button", name="It did not happen").click()
        await expect(late.locator("#said")).to_contain_text("oz was first: it happened")
        await late.close()
        await page.goto(client.url + "/effects?state=unknown")
        await expect(page.get_by_text("No effect matches.")).to_be_visible()
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        assert page.faults == []
