"""An open inbox and an open run, while other users answer; filters by age; and unknown effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser_real.conftest import LAPTOP, PHONE, take_picture
from tests.serve.kit import served
from upshot import Agent, App, ScriptedModel, ToolCall, ToolError, tool


def make_app(place: str, *, users: int = 1) -> App:
    @tool(effect="write", approval=True, approvals=users)
    def pay(order: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([[ToolCall("p", "pay", {"order": 7})], "Paid."])
    return App([Agent("desk", model=model, tools=[pay])], journal=place)


async def park(app: App) -> str:
    run = await app.submit("desk", "Pay order 7.")
    assert await run.result(60) is not None
    return run.id


@pytest.mark.parametrize("size", [LAPTOP, {**PHONE, "width": 390}], ids=["laptop", "phone"])
async def test_a_run_that_was_answered_says_that_it_waits_for_a_worker(
    tmp_path: Path, page_of: Any, axe: str, size: Any
) -> None:
    from playwright.async_api import expect

    place = str(tmp_path / "runs.db")
    app = make_app(place)
    async with served(app):
        run_id = await park(app)
    async with served(make_app(place), work=False) as client:
        page = await page_of(f"{client.url}/runs/{run_id}", viewport=size)
        await page.get_by_role("button", name="Approve", exact=True).wait_for()
        (item,) = (await client.by("sam").get("/api/inbox"))[1]["items"]
        given = {"kind": "approve", "call_id": "p", "digest": item["pending"]["digest"]}
        await client.by("sam").post(f"/api/runs/{run_id}/answer", {"answers": [given]})
        # The open page says so by itself.
        await expect(page.locator(".verdict")).to_contain_text(
            "sam approved it. It waits for a worker."
        )
        await expect(page.locator(".answered")).to_contain_text("sam approved this")
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        await expect(page.locator(".head .badge")).to_have_text("answered")
        await page.evaluate(axe)
        assert (await page.evaluate("axe.run()"))["violations"] == []
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        await take_picture(page, f"answered-{size['width']}")
        await page.goto(client.url + "/runs")
        await expect(page.locator(".run .status .badge")).to_have_text("answered")
        await page.goto(client.url + "/inbox")
        await expect(page.locator(".empty")).to_have_text("Nothing waits for you.")
        assert page.faults == []


async def test_open_pages_show_the_approval_of_another_user(tmp_path: Path, page_of: Any) -> None:
    from playwright.async_api import expect

    app = make_app(str(tmp_path / "runs.db"), users=2)
    async with served(app) as client:
        run_id = await park(app)
        inbox = await page_of(client.url + "/inbox", "sam")
        run = await page_of(f"{client.url}/runs/{run_id}", "sam")
        for page in (inbox, run):
            await expect(page.locator(".approvers")).to_contain_text("2 more must approve it")
        # What the user types stays, even if another part of the page has the focus since.
        for page in (inbox, run):
            await page.get_by_role("button", name="Deny").click()
            await page.keyboard.type("Not yet")
        await run.locator(".panes .scroll").last.focus()
        (item,) = await app.inbox()
        given = {"kind": "approve", "call_id": "p", "digest": item.pending.digest}
        await client.by("oz").post(f"/api/runs/{run_id}/answer", {"answers": [given]})
        for page in (inbox, run):
            await expect(page.locator(".approvers")).to_contain_text("1 more must approve it")
            await expect(page.locator(".approvers li")).to_contain_text("oz approved it")
            await expect(page.get_by_label("Reason")).to_have_value("Not yet")
        await expect(inbox.get_by_label("Reason")).to_be_focused()
        await run.get_by_role("button", name="Back").click()
        await run.get_by_role("button", name="Approve", exact=True).click()
        await run.locator(".head .badge:text('completed')").wait_for()
        result = await (await app.run(run_id)).result(60)
        assert result is not None and result.output == "Paid."
        assert inbox.faults == run.faults == []


async def test_the_overview_leads_to_the_items_of_an_age(tmp_path: Path, page_of: Any) -> None:
    from playwright.async_api import expect

    app = make_app(str(tmp_path / "runs.db"))
    async with served(app) as client:
        await park(app)
        page = await page_of(client.url)
        await page.get_by_role("link", name="under 5 min").click()
        await expect(page.locator(".ask")).to_have_count(1)
        assert page.url.endswith("/inbox?younger=300")
        await page.goto(client.url + "/inbox?older=86400&tool=pay")
        await expect(page.locator(".empty")).to_have_text("Nothing that waits matches.")
        await expect(page.locator(".chip.on")).to_have_text(
            ["tool: pay ×", "waits for over 24 h ×"]
        )
        chip = page.get_by_role("link", name="Without: waits for over 24 h")
        await chip.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(".ask")).to_have_count(1)
        assert page.url.endswith("/inbox?tool=pay")
        assert page.faults == []


async def test_an_unknown_effect_says_what_may_have_happened_and_suggests_no_answer(
    tmp_path: Path, page_of: Any, axe: str
) -> None:
    from playwright.async_api import expect

    async def look(asked: object) -> None:
        """It does not know."""

    @tool(effect="write", once="order", on_unknown="ask", verify=look)
    def book(order: int) -> str:
        """Book."""
        raise ToolError("the line broke", effect="unknown")

    model = ScriptedModel([[ToolCall("b", "book", {"order": 7})], "Booked."])
    desk = Agent[Any]("desk", model=model, tools=[book])
    app = App([desk], journal=str(tmp_path / "runs.db"))
    async with served(app) as client:
        await park(app)
        for path in ("/inbox", "/effects"):
            page = await page_of(client.url + path)
            card = page.locator(".ask")
            await expect(card).to_contain_text("book may have changed something outside: it was")
            await expect(card).to_contain_text("Check now asks the tool itself.")
            await expect(card).to_contain_text("the line broke")
            await expect(card.get_by_role("button", name="It happened")).to_be_visible()
            await expect(card.locator(".primary")).to_have_count(0)
            await page.evaluate(axe)
            assert (await page.evaluate("axe.run()"))["violations"] == []
            assert page.faults == []
