"""Calls that are alike, compared and approved together; and calls that several users approve."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.browser_real.conftest import LAPTOP, PHONE, take_picture
from tests.serve.kit import Client, served
from upshot import Agent, AnswerLinks, App, ScriptedModel, ToolCall, tool

PLANTED = 6


class Payments:
    """Runs that wait to pay: each call differs, and one has another address than the others."""

    def __init__(self, place: str, *, users: int = 1, twice: int = -1, **options: Any) -> None:
        self.paid: list[str] = []

        @tool(effect="write", approval=True, approvals=users)
        def pay(order: str, to: str, cents: int, currency: str) -> str:
            """Pay a supplier."""
            self.paid.append(order)
            return "paid"

        def model(n: int) -> ScriptedModel:
            to = "eve@evil.example" if n == PLANTED else f"clerk{n}@shop.example"
            given = {
                "order": f"A-{n - (n == twice)}",
                "to": to,
                "cents": 900 + n,
                "currency": "EUR",
            }
            return ScriptedModel([[ToolCall("p", "pay", given)], "Paid."])

        agents = [Agent[Any](f"desk{n}", model=model(n), tools=[pay]) for n in range(9)]
        self.app = App(agents, journal=place, **options)

    async def park(self, n: int) -> list[str]:
        ids: list[str] = []
        for agent in list(self.app.agents.values())[:n]:
            run = await self.app.submit(agent, f"Pay the bill of {agent.id}.")
            await run.result(60)
            ids.append(run.id)
        return ids


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[tuple[Payments, Client]]:
    payments = Payments(str(tmp_path / "runs.db"))
    async with served(payments.app, rate=100_000) as client:
        await payments.park(9)
        yield payments, client


async def test_a_planted_argument_stands_out_and_is_not_chosen(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    payments, client = desk
    page = await page_of(client.url + "/inbox")
    await page.get_by_role("link", name="Compare 9 calls of pay").click()
    await expect(page.locator(".alike")).to_have_count(9)
    strange = page.locator(".alike.strange")
    await expect(strange).to_have_count(1)
    # It comes first, with all its arguments, and the one that differs in form is marked.
    first = page.locator(".alike").first
    for text in ("A-6", "eve@evil.example", "906", "EUR", "stands out"):
        await expect(first).to_contain_text(text)
    await expect(first.locator(".odd dt")).to_have_text("to")
    assert not await first.get_by_role("checkbox").is_checked()
    await expect(page.locator(".alike input:checked")).to_have_count(8)
    # What all have in common is not marked.
    await expect(first.locator(".same dt")).to_have_text("currency")
    await page.get_by_role("button", name="Approve 8 calls").click()
    await expect(page.locator(".bulk")).to_contain_text("8 calls approved.")
    await expect(page.locator(".alike .result", has_text="Approved.")).to_have_count(8)
    for run in await payments.app.runs(limit=None):
        if run.agent_id != f"desk{PLANTED}":
            await (await payments.app.run(run.run_id)).result(60)
    assert sorted(payments.paid) == [f"A-{n}" for n in range(9) if n != PLANTED]
    (left,) = await payments.app.inbox()
    assert left.agent_id == f"desk{PLANTED}"
    assert page.faults == []


async def test_an_order_that_another_call_has_too_is_not_chosen(
    tmp_path: Path, page_of: Any
) -> None:
    from playwright.async_api import expect

    payments = Payments(str(tmp_path / "runs.db"), twice=3)
    async with served(payments.app, rate=100_000) as client:
        await payments.park(9)
        page = await page_of(client.url + "/inbox?alike=pay")
        strange = page.locator(".alike.strange")
        await expect(strange).to_have_count(3)
        await expect(strange.filter(has_text="A-2")).to_have_count(2)
        await expect(page.locator(".alike input:checked")).to_have_count(6)
        assert page.faults == []


async def test_each_call_that_was_not_approved_says_why(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    payments, client = desk
    page = await page_of(client.url + "/inbox?alike=pay")
    await expect(page.locator(".alike")).to_have_count(9)
    denied, *_ = [one for one in await payments.app.inbox() if one.agent_id == "desk0"]
    await payments.app.answer(denied.run_id, denied.pending.deny("No.", by="ben"))
    await page.keyboard.press("j")
    await page.get_by_role("button", name="Approve 8 calls").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".bulk")).to_contain_text("7 calls approved, 1 not: each says why.")
    await expect(page.locator(".alike.lost .result")).to_contain_text(
        "Not accepted: ben answered it"
    )


async def test_a_user_who_may_not_answer_compares_nothing(desk: Any, page_of: Any) -> None:
    from playwright.async_api import expect

    _, client = desk
    page = await page_of(client.url + "/inbox", "vic")
    await expect(page.locator(".ask")).to_have_count(9)
    await expect(page.get_by_role("link", name="Compare")).to_have_count(0)
    await page.goto(client.url + "/inbox?alike=pay")
    await expect(page.locator("main")).to_contain_text("No call of this tool waits for you.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, {**PHONE, "width": 390}], ids=["laptop", "phone"])
async def test_axe_finds_nothing_where_calls_are_compared(
    desk: Any, page_of: Any, axe: str, scheme: str, size: Any
) -> None:
    _, client = desk
    page = await page_of(client.url + "/inbox?alike=pay", viewport=size, color_scheme=scheme)
    await page.locator(".alike").first.wait_for()
    await page.evaluate(axe)
    found = (await page.evaluate("axe.run()"))["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await take_picture(page, f"alike-{scheme}-{size['width']}")


async def test_two_users_approve_in_the_inbox(tmp_path: Path, page_of: Any, axe: str) -> None:
    from playwright.async_api import expect

    payments = Payments(str(tmp_path / "runs.db"), users=2)
    async with served(payments.app, rate=100_000) as client:
        await payments.park(1)
        first = await page_of(client.url + "/inbox", "oz")
        await first.locator(".approvers", has_text="Needs 2 different users").wait_for()
        await expect(first.get_by_text("Always")).to_have_count(0)
        await first.get_by_role("button", name="Approve").click()
        await first.locator(".result", has_text="1 more user must approve it.").wait_for()
        await first.reload()
        await first.get_by_text("You have approved it; another user must.").wait_for()
        await expect(first.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        await first.evaluate(axe)
        assert (await first.evaluate("axe.run()"))["violations"] == []
        assert payments.paid == []
        second = await page_of(client.url + "/inbox", "sam")
        await expect(second.locator(".approvers")).to_contain_text("oz approved it")
        await second.get_by_role("button", name="Approve").click()
        await second.locator(".result", has_text="Approved.").wait_for()
        (run,) = await payments.app.runs()
        await (await payments.app.run(run.run_id)).result(60)
        assert payments.paid == ["A-0"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
async def test_a_link_is_answered_without_a_sign_in(
    tmp_path: Path, page_of: Any, axe: str, scheme: str, width: int
) -> None:
    from playwright.async_api import expect

    sent: list[Any] = []
    url, users = "http://127.0.0.1:1", ["ann"]
    links = AnswerLinks(key="0123456789abcdef0123456789abcdef", url=url, users=users)
    payments = Payments(str(tmp_path / "runs.db"), notify=sent.extend, answer_links=links)
    async with served(payments.app, rate=100_000) as client:
        (run,) = await payments.park(1)
        while not sent:
            await client.get("/health")
        path = sent[0].links[0].url.removeprefix(url)
        size = {"width": width, "height": 800}
        page = await page_of(client.url + path, "", viewport=size, color_scheme=scheme)
        await expect(page.locator("main")).to_contain_text("clerk0@shop.example")
        # The policy of the page allows no script, so axe is put into a copy of it.
        copy = await page_of("about:blank", viewport=size, color_scheme=scheme)
        css = (await client.get("/static/console.css"))[1]
        await copy.set_content(await page.content())
        await copy.add_style_tag(content=css)
        await copy.evaluate(axe)
        found = (await copy.evaluate("axe.run()"))["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
        await take_picture(page, f"answer-{scheme}-{width}")
        wide = "document.documentElement.scrollWidth - innerWidth"
        assert await copy.evaluate(wide) <= 0
        await page.get_by_label("Reason").fill("No, it is not.")
        await page.keyboard.press("Enter")
        await page.get_by_label("Reason").clear()
        await expect(page.locator("h1")).not_to_have_text("Your answer is stored")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Approve")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("h1")).to_have_text("Your answer is stored")
        await (await payments.app.run(run)).result(60)
        assert payments.paid == ["A-0"]
        await page.goto(client.url + path)
        await expect(page.locator("h1")).to_have_text("It no longer waits")
        assert page.faults == []
