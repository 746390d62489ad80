"""Calls that are alike, compared and approved together; and calls that several users approve."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.browser_real.conftest import Views, in_views
from tests.serve.kit import Client, served
from upshot import Agent, AnswerLinks, App, ModelResponse, ScriptedModel, ToolCall, tool
from upshot.contract import Text

PLANTED = 6
IBAN = "DE02120300000000202051"


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
    # What all have in common, and what differs by nature, is not marked.
    await expect(page.locator("mark")).to_have_count(1)
    await expect(first.locator(".odd .reason")).to_have_text(
        " rare: it has another form than the others"
    )
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


class Refunds:
    """A desk with many refunds; some calls do something else than was asked."""

    def __init__(self, place: str) -> None:
        self.paid: list[int] = []

        @tool(effect="write", approval=True)
        def refund(order: int, amount: float, iban: str) -> str:
            """Pay money back."""
            self.paid.append(order)
            return "paid"

        def model(messages: Any) -> Any:
            asked = int("".join(filter(str.isdigit, messages[0].text)))
            # Rare by nature: one in nine is dearer, and orders differ.
            amount = 20 + asked % 60 if asked % 9 else 100 + asked % 150 + 0.5
            iban = {5021: IBAN[:-3] + "O51", 5042: "LT601010012345678901"}.get(asked, IBAN)
            given = {
                "order": asked + (asked == 5033),
                "amount": amount * (10 if asked == 5007 else 1),
                "iban": iban,
            }
            if len(messages) == 1:
                return ModelResponse(parts=(ToolCall("r", "refund", given),))
            return ModelResponse(parts=(Text("Done."),))

        desk = Agent[Any]("desk", model=ScriptedModel(model), tools=[refund])
        self.app = App([desk], journal=place)

    async def park(self, orders: Iterable[int]) -> None:
        runs = [await self.app.submit("desk", f"Refund order {one}.") for one in orders]
        for one in runs:
            await one.result(60)


async def test_the_wrong_ones_of_many_calls_stand_out_and_are_denied_together(
    tmp_path: Path, page_of: Any, faults_of: Any
) -> None:
    from playwright.async_api import expect

    desk = Refunds(str(tmp_path / "runs.db"))
    async with served(desk.app, rate=100_000) as client:
        await desk.park(range(5001, 5057))
        page = await page_of(client.url + "/inbox")
        # One by one, the same stands out in the same words.
        wrong = page.locator(".ask", has=page.get_by_text("contradicts the request"))
        await expect(wrong.locator(".marks")).to_have_text("order 5034: the request says 5033")
        await page.get_by_role("link", name="Compare the calls of refund").click()
        await expect(page.locator("main .inboxhead")).to_contain_text("the first 50 of 56 calls")
        await expect(page.locator(".alike.strange")).to_have_count(4)
        first = page.locator(".alike").first
        await expect(first).to_contain_text("contradicts the request")
        await expect(first.locator(".odd")).to_have_text("order5034 the request says 5033")
        marked = page.locator(".alike.strange")
        for text in ("“DE02120300000000202O51” rare", "470 rare: it is far", "“LT6010"):
            await expect(marked.filter(has_text=text)).to_have_count(1)
        await expect(page.locator("mark")).to_have_count(4)
        await expect(page.locator(".alike input:checked")).to_have_count(46)
        # What was chosen stays so when more are loaded.
        plain = page.locator(".alike:not(.strange)").first
        request = await plain.locator("header a").inner_text()
        await plain.get_by_role("checkbox").uncheck()
        await page.get_by_role("button", name="Next 50").click()
        await expect(page.locator(".alike")).to_have_count(56)
        await expect(page.locator(".alike:focus")).to_have_count(1)
        await expect(page.locator(".alike input:checked")).to_have_count(51)
        await page.get_by_role("checkbox", name=f"Choose refund, {request}").check()
        await page.get_by_role("button", name="Approve 52 calls").click()
        await expect(page.locator(".bulk")).to_contain_text("52 calls approved.")
        await page.get_by_role("button", name="Choose those that stand out").click()
        await page.get_by_role("button", name="Deny 4 calls …").click()
        # Each that is denied is shown, and the field has the focus.
        await expect(page.locator(".bulk .from li")).to_have_count(4)
        await expect(page.get_by_label("Reason")).to_be_focused()
        assert await faults_of(page, picture="alike-deny") == []
        await page.keyboard.type("Not what was asked.")
        await page.keyboard.press("Enter")
        await expect(page.locator(".bulk")).to_contain_text("4 calls denied.")
        await expect(page.locator(".alike .result", has_text="Denied.")).to_have_count(4)
        for run in await desk.app.runs(limit=None):
            await (await desk.app.run(run.run_id)).result(60)
        asked = {5007, 5021, 5033, 5042}
        assert sorted(desk.paid) == [one for one in range(5001, 5057) if one not in asked]
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


@in_views()
async def test_axe_finds_nothing_where_calls_are_compared(
    desk: Any, page_of: Any, faults_of: Any, views: Views
) -> None:
    _, client = desk
    page = await page_of(client.url + "/inbox?alike=pay")
    await page.locator(".alike").first.wait_for()
    assert await faults_of(page, views, picture="alike") == []


async def test_two_users_approve_in_the_inbox(tmp_path: Path, page_of: Any, faults_of: Any) -> None:
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
        assert await faults_of(first) == []
        assert payments.paid == []
        second = await page_of(client.url + "/inbox", "sam")
        await expect(second.locator(".approvers")).to_contain_text("oz approved it")
        await second.get_by_role("button", name="Approve").click()
        await second.locator(".result", has_text="Approved.").wait_for()
        (run,) = await payments.app.runs()
        await (await payments.app.run(run.run_id)).result(60)
        assert payments.paid == ["A-0"]


@in_views({"width": 1440, "height": 800})
async def test_a_link_is_answered_without_a_sign_in(
    tmp_path: Path, page_of: Any, faults_of: Any, views: Views
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
        page = await page_of(client.url + path, "", viewport=views[1][1])
        await expect(page.locator("main")).to_contain_text("clerk0@shop.example")
        # The policy of the page allows no script, so axe is put into a copy of it.
        copy = await page_of("about:blank")
        css = (await client.get("/static/console.css"))[1]
        await copy.set_content(await page.content())
        await copy.add_style_tag(content=css)
        assert await faults_of(copy, views, picture="answer") == []
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
