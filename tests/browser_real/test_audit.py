"""The page of the audit: who approved what is found in a few keystrokes, on a phone too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.async_api import expect

from tests.browser_real.conftest import Views, in_views
from tests.serve.kit import Client, served
from upshot import Agent, App, ScriptedModel, ToolCall, run, tool

PHONE = {"width": 390, "height": 780}
# Turns what follows it round, unless it stays within its own place.
RIGHT_TO_LEFT = "החזר \u202e מהיר"


@tool(effect="write", approval=True)
def refund(order: int, amount: int, reason: str = "") -> str:
    """Pay money back."""
    return "paid"


async def fill(app: App, client: Client) -> str:
    """A run whose refunds sam and oz answer, after vic has looked."""
    calls = [
        ToolCall(f"r{amount}", "refund", {"order": 7, "amount": amount, "reason": RIGHT_TO_LEFT})
        for amount in (80, 120, 250, 400)
    ]
    agent = Agent("desk", model=ScriptedModel([calls, "Done."]), tools=[refund])
    journal = await app.open()
    result = await run(agent, "Refund.", journal=journal, attributes={"user": "ann"})
    await client.by("vic").get(f"/api/runs/{result.run_id}")
    for at, asked in enumerate(result.pending):
        answer: dict[str, Any] = {"call_id": asked.id, "digest": getattr(asked, "digest", "")}
        is_denial = at == 3
        answer |= {"kind": "deny", "reason": RIGHT_TO_LEFT} if is_denial else {"kind": "approve"}
        path = f"/api/runs/{result.run_id}/answer"
        status, said = await client.by("oz" if at == 2 else "sam").post(path, {"answers": [answer]})
        assert status == 200, said
    return result.run_id


@in_views(narrow=PHONE)
async def test_who_approved_refunds_over_100_and_on_what(
    tmp_path: Path, page_of: Any, faults_of: Any, views: Views
) -> None:
    agent = Agent("desk", model=ScriptedModel(["Done."]), tools=[refund])
    app = App([agent], journal=str(tmp_path / "j.db"))
    async with served(app, work=False, rate=100_000) as client:
        run_id = await fill(app, client)
        page = await page_of(client.url + "/runs", viewport=views[1][1])
        # By the keyboard alone: to the page, into the filter, and out of it by Enter.
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await expect(page.get_by_role("heading", name="Audit")).to_be_visible()
        assert await page.locator("ul.audit li").count() == 5
        await page.get_by_label("Tool", exact=True).fill("refund")
        await page.get_by_label("Arguments, such as amount>100").fill("amount>100")
        await page.keyboard.press("Enter")
        lines = page.locator("ul.audit li")
        await expect(lines).to_have_count(3)
        texts = await lines.all_inner_texts()
        wanted = [("sam", "deny", "400"), ("oz", "approve", "250"), ("sam", "approve", "120")]
        for text, (who, act, amount) in zip(texts, wanted, strict=True):
            assert who in text and act in text and amount in text and "127.0.0.1" in text
        assert "U+202E" in texts[0] and "\u202e" not in texts[0]
        assert await faults_of(page, views, picture="audit") == []
        # The filter is the address.
        await page.reload()
        await expect(lines).to_have_count(3)
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Save all as JSON Lines").click()
        saved = Path(await (await download.value).path()).read_text()
        rows = [json.loads(line) for line in saved.splitlines()]
        assert [row["arguments"]["amount"] for row in rows] == [400, 250, 120]
        # Rows lead to their run, and to what a person did.
        await page.keyboard.press("j")
        await lines.first.get_by_role("link", name="sam").click()
        await expect(lines).to_have_count(3)
        await lines.first.get_by_role("link", name=run_id).click()
        await expect(page).to_have_url(f"{client.url}/runs/{run_id}")
        assert page.faults == []


async def test_a_wrong_condition_says_what_to_give_and_others_have_no_page(
    tmp_path: Path, page_of: Any
) -> None:
    app = App([Agent("desk", model=ScriptedModel(["Done."]))], journal=str(tmp_path / "j.db"))
    async with served(app, work=False) as client:
        page = await page_of(client.url + "/audit?argument=amount")
        await expect(page.locator("main")).to_contain_text("such as amount>100")
        page = await page_of(client.url + "/runs", "vic")
        await expect(page.get_by_role("link", name="Effects", exact=True)).to_be_visible()
        await expect(page.get_by_role("link", name="Audit")).to_have_count(0)
        await page.goto(client.url + "/audit")
        await expect(page.locator("main")).to_contain_text("the audit needs the role")
