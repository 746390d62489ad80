"""The list of runs: columns, named views, and acts on several runs at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.browser_real.conftest import LAPTOP, Views, in_views
from tests.serve.kit import Client, served
from upshot import Agent, App, Request, ScriptedModel, ToolCall, tool


@tool(effect="write", approval=True)
def pay(order: int) -> str:
    """Pay."""
    return "paid"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    """Three runs that wait, and two that have ended."""
    waits = ScriptedModel([[ToolCall("p", "pay", {"order": 1})]] * 99)
    echo = Agent("echo", model=ScriptedModel(["Hello."] * 99))
    app = App([Agent("desk", model=waits, tools=[pay]), echo], journal=str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        for n, agent in enumerate(("desk", "desk", "desk", "echo", "echo")):
            request = Request(f"Request {n} مرحبا", run_id=f"run-{n}")
            await (await app.submit(agent, request, attributes={"user": "ann"})).result(60)
        yield app, client


async def test_several_runs_are_canceled_and_each_says_how(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    _, client = desk
    page = await page_of(client.url + "/runs")
    await page.locator("a.run").nth(4).wait_for()
    await expect(page.locator("input.choose:visible")).to_have_count(0)
    # By keyboard: the newest run, which has ended, and one that waits.
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    for _ in range(2):
        await page.keyboard.press("j")
    await page.keyboard.press("x")
    await expect(page.locator(".choice")).to_contain_text("2 runs chosen")
    await page.get_by_role("button", name="Cancel …").click()
    await page.get_by_text("Cancel 2 runs? A canceled run does not continue.").wait_for()
    await page.get_by_role("button", name="Cancel the runs").click()
    status = page.locator(".choice p[role=status]")
    await expect(status).to_contain_text("1 run canceled, 1 not: see why")
    first = page.locator(".outcomes li").first
    await expect(first).to_contain_text("run-4: run run-4 has ended: there is nothing to cancel")
    await expect(page.locator("a.run", has_text="Request 2").locator(".badge")).to_have_text(
        "canceled"
    )
    await expect(page.locator("input.choose:checked")).to_have_count(1)
    assert page.faults == []


async def test_runs_without_a_reply_are_not_said_to_be_untried(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    async def lose(route: Any) -> None:
        await route.fetch()
        await route.abort()

    app, client = desk
    page = await page_of(client.url + "/runs?agent=desk")
    await page.get_by_role("button", name="Choose runs").click()
    await page.get_by_role("button", name="This page").click()
    await page.route("**/api/bulk", lose)
    await page.get_by_role("button", name="Cancel …").click()
    await page.get_by_role("button", name="Cancel the runs").click()
    outcome = page.locator(".outcomes li.error")
    await expect(outcome).to_contain_text("no reply for 3 runs, which may be canceled or not")
    status = page.locator(".choice p[role=status]")
    await expect(status).to_contain_text("0 runs canceled, 3 not, or not known: see why")
    assert {run.status for run in await app.runs(agent="desk")} == {"canceled"}


async def test_all_that_match_get_a_label(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    app, client = desk
    page = await page_of(client.url + "/runs?agent=desk&columns=user,notes")
    await page.get_by_role("button", name="Choose runs").click()
    await page.get_by_role("button", name="All that match").click()
    await expect(page.locator(".choice")).to_contain_text("3 runs chosen")
    await page.get_by_role("button", name="Label").click()
    await page.get_by_placeholder("The label").fill("checked")
    await page.keyboard.press("Enter")
    await expect(page.locator(".choice p[role=status]")).to_contain_text("3 runs labeled.")
    await expect(page.locator(".note-chip")).to_have_count(3)
    values = [(await (await app.run(f"run-{n}")).notes())[0].value for n in range(3)]
    assert values == ["checked"] * 3


async def test_the_address_alone_restores_a_view(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    _, client = desk
    page = await page_of(client.url + "/runs?agent=desk")
    await page.locator("summary", has_text="Columns").click()
    for name in ("tools", "cost"):
        await page.get_by_role("checkbox", name=name).click()
        await expect(page.get_by_role("checkbox", name=name)).to_be_focused()
        await expect(page.get_by_role("checkbox", name=name)).not_to_be_checked()
    await expect(page.locator("a.run .tools").first).to_be_hidden()
    await page.locator("summary", has_text="Views").click()
    await page.get_by_label("Name of this view").fill("Desk")
    await page.keyboard.press("Enter")
    address = page.url
    assert "columns=user%2Ceffect%2Ctook%2Csteps%2Ctokens" in address
    await page.goto(client.url + "/runs")
    await expect(page.locator("a.run")).to_have_count(5)
    await page.locator("summary", has_text="Views").click()
    await page.get_by_role("link", name="Desk", exact=True).click()
    await expect(page.locator("a.run")).to_have_count(3)
    assert page.url == address
    # Another user has other names; the address shows the same.
    other = await page_of(address, "sam")
    await expect(other.locator("a.run")).to_have_count(3)
    await expect(other.locator("a.run .tools").first).to_be_hidden()
    await other.locator("summary", has_text="Views").click()
    await expect(other.get_by_role("link", name="Desk", exact=True)).to_have_count(0)


@in_views({"width": 1440, "height": 800})
async def test_axe_finds_nothing_while_runs_are_chosen(
    desk: Any, page_of: Any, faults_of: Any, views: Views
) -> None:
    _, client = desk
    url = client.url + "/runs?columns=user,tools,effect,took,steps,tokens,cost,notes"
    page = await page_of(url)
    await page.get_by_role("button", name="Choose runs").click()
    await page.get_by_role("button", name="This page").click()
    for name in ("Columns", "Views"):
        await page.locator("summary", has_text=name).click()
    laptop = [(views[0][0], LAPTOP)]
    assert await faults_of(page, [*views, *laptop], picture="choice") == []


async def test_a_text_of_the_logs_is_found(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    _, client = desk
    page = await page_of(client.url + "/runs")
    await page.locator("summary", has_text="More").click()
    await page.get_by_label("Any text in arguments and outputs").fill("REQUEST 3 مرحبا")
    await page.keyboard.press("Enter")
    await expect(page.locator("a.run")).to_have_count(1)
    await expect(page.locator("main")).to_contain_text("1 run found in 5 of 5 runs that were read.")
    assert "find=REQUEST" in page.url
    await page.goto(client.url + "/runs?find=%22order%22")
    await expect(page.locator("main")).to_contain_text("No run matches.")
    await page.goto(client.url + "/runs?find=paid&agent=desk")
    await expect(page.locator("main")).to_contain_text("found in 3 of 3 runs")
    assert page.faults == []
