"""Pictures of the pages, for the docs: written into the folder that UPSHOT_PICTURES names."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import take_picture
from tests.browser_real.shop import fill, make_shop
from tests.browser_real.test_overview import fill_days
from tests.serve.kit import Client, served
from upshot.journal.audit import WebSession

PHONE = {"width": 360, "height": 720}
LAPTOP = {"width": 1280, "height": 760}

needs_folder = pytest.mark.skipif("UPSHOT_PICTURES" not in os.environ, reason="set UPSHOT_PICTURES")


async def answer_some(client: Client) -> None:
    """Have two users answer calls, after a third has looked at their runs."""
    _, found = await client.by("oz").get("/api/inbox")
    asked = [one for one in found["items"] if one["pending"]["kind"] == "pending_approval"]
    for n, one in enumerate(asked[:6]):
        pending, path = one["pending"], f"/api/runs/{one['run_id']}"
        await client.by("vic").get(path)
        answer = {"call_id": pending["call_id"], "digest": pending["digest"]}
        said = (
            {"kind": "deny", "reason": "Ask the customer first"}
            if n % 3 == 2
            else {"kind": "approve"}
        )
        answers = {"answers": [{**answer, **said}]}
        status, _ = await client.by("sam" if n % 2 else "oz").post(f"{path}/answer", answers)
        assert status == 200


async def sign_in_some(journal: Any) -> None:
    """Sign in users with browsers."""
    now = datetime.now(UTC)
    for n, (user, name, browser) in enumerate(
        (
            ("sam", "Sam Ortega", "Firefox 145 on Linux"),
            ("oz", "Oz Weber", "Chrome 142 on macOS"),
            ("oz", "Oz Weber", "Safari on iPhone"),
            ("vic", "Vic Almeida", "Edge 142 on Windows"),
        )
    ):
        session = WebSession(
            id=f"session-{n}",
            user=user,
            name=name,
            address=f"192.0.2.{17 + n}",
            browser=browser,
            started_at=now - timedelta(hours=1 + 2 * n),
            seen_at=now - timedelta(minutes=1 + 9 * n),
            until=now + timedelta(hours=10 - n),
        )
        await journal.open_session(f"key-{n}", session)


@needs_folder
async def test_each_page_has_its_picture(tmp_path: Path, page_of: Any) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app) as client:
        made = await fill(app, 72)
        run = client.url + f"/runs/{made[60]}"

        async def take(name: str, url: str, there: str, row: str = "", **options: Any) -> None:
            page = await page_of(url, **{"viewport": LAPTOP, **options})
            await page.locator(there).first.wait_for()
            if row:
                await page.locator("button.row", has_text=row).first.click()
            await expect(page.locator("#line")).to_be_hidden()
            await page.wait_for_load_state("load")
            await take_picture(page, name)
            await page.context.close()

        dark: Any = {"color_scheme": "dark"}
        phone: Any = {"viewport": PHONE}
        await take("runs", client.url + "/runs", "a.run")
        await take("run", run, ".message table", "find_order")
        await take("run-dark", run, ".message table", "track_parcel", **dark)
        await take("inbox", client.url + "/inbox", ".ask")
        await take("chat", client.url + "/conversations/talk-26", ".turn .ask")
        await take("runs-phone", client.url + "/runs", "a.run", **phone)
        await take("run-phone", run, "button.row", **phone)
        await take("inbox-phone", client.url + "/inbox", ".ask", **phone, **dark)
        await answer_some(client)
        await take("audit", client.url + "/audit", "ul.audit li")
        await sign_in_some(await app.open())
        await take("sessions", client.url + "/sessions", "main li")


@needs_folder
async def test_the_figures_have_their_pictures(tmp_path: Path, page_of: Any) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        await fill_days(app)
        journal: Any = await app.open()
        for n in (7, 31, 42):
            await journal.claim(f"day-{n}")
        for name, path, there in (
            ("overview", "/", ".plot a[data-mark]"),
            ("tools", "/tools", ".tools > li"),
            ("workers", "/workers", ".workers > li"),
        ):
            page = await page_of(client.url + path, viewport=LAPTOP)
            await page.locator(there).first.wait_for()
            await page.wait_for_load_state("load")
            end = await page.evaluate(
                "document.querySelector('main').getBoundingClientRect().bottom"
            )
            await page.set_viewport_size({**LAPTOP, "height": int(end) + 16})
            await take_picture(page, name)
            await page.context.close()
