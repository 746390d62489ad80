"""What an operator meets: equal calls, strangers' text, ways back and forth, other currencies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.shop import make_shop, refund, work_off
from tests.serve.kit import Client, served
from upshot import Agent, App, Budget, Cost, ModelResponse, ScriptedModel, Text, ToolCall, Usage
from upshot.serve import console

TRICK = "Pay \u202egnihton\u202c, please\u200b"
READ = """[...document.querySelectorAll('[title],[aria-label]')]
    .map(one => one.title + one.ariaLabel).join()"""
FRAMES = """new Promise(done => {
    let left = 20;
    const next = () => (left-- ? requestAnimationFrame(next) : done());
    next();
})"""
HIDE = """for (const hidden of [true, false]) {
    Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
}"""
LINES = """window.lines = [];
const Given = window.EventSource;
window.EventSource = class extends Given {
    constructor(url) {
        super(url);
        for (const name of ['open', 'error']) this.addEventListener(name, () => lines.push(name));
    }
};"""
SCROLLED = "document.querySelector('.pane.right .scroll')"


@pytest.fixture
async def shop(filled: Any, tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    app = make_shop(await filled(36, tmp_path))
    async with served(app, rate=100_000) as client:
        yield app, client


async def test_no_key_approves_more_than_one_call(shop: Any, page_of: Any) -> None:
    app, client = shop
    page = await page_of(client.url + "/inbox?tool=refund")
    posts: list[str] = []
    page.on("request", lambda sent: posts.append(sent.method) if sent.method == "POST" else None)
    await page.locator(".ask .from li").nth(2).wait_for()
    await page.keyboard.press("j")
    await page.keyboard.press("a")
    await page.get_by_text("One intent, or many?").wait_for()
    await page.keyboard.type("2")
    await page.keyboard.press("Enter")
    assert await page.get_by_role("button", name="Many: approve all 3").is_disabled()
    assert posts == [] and len(await app.inbox(tool="refund", limit=None)) == 3
    await page.keyboard.press("Backspace")
    await page.keyboard.type("3")
    await page.keyboard.press("Enter")
    await page.locator(".ask .result", has_text="Approved.").wait_for()
    assert len(posts) == 3 and not await app.inbox(tool="refund", limit=None)


async def test_of_equal_calls_one_can_be_approved_and_the_others_denied(
    shop: Any, page_of: Any
) -> None:
    app, client = shop
    before = await app.inbox(tool="refund", limit=None)
    page = await page_of(client.url + "/inbox?tool=refund")
    await page.get_by_role("button", name="Approve all 3").click()
    await page.get_by_role("button", name="One: approve the oldest").click()
    # The page may get the news of its own answers first, and then shows one item for each.
    while await app.inbox(tool="refund", limit=None):
        await page.locator("main").wait_for()
    answers: list[str] = []
    for item in before:
        view = (await client.by("oz").get(f"/api/runs/{item.run_id}"))[1]
        while not view["head"].get("answered"):
            view = (await client.by("oz").get(f"/api/runs/{item.run_id}"))[1]
        answers += [one["answer"]["kind"] for one in view["head"]["answered"]]
    assert answers == ["approve", "deny", "deny"]


async def test_a_denial_of_several_says_how_many_another_user_decided(
    shop: Any, page_of: Any
) -> None:
    app, client = shop
    page = await page_of(client.url + "/inbox?tool=refund")
    posts: list[str] = []

    async def meet(route: Any) -> None:
        posts.append(route.request.url)
        if len(posts) == 2:
            (item,) = await app.inbox(run_id=route.request.url.split("/")[-2])
            await app.answer(item.run_id, item.pending.approve(by="bob"))
        await route.continue_()

    await page.route("**/answer", meet)
    await page.get_by_role("button", name="Deny all 3").click()
    await page.get_by_role("button", name="Deny all 3").click()
    result = page.locator(".ask .result")
    await expect(result).to_contain_text("2 of 3: Denied.")
    await expect(result).to_contain_text("1 of 3: bob was first and approved it")


async def test_answering_many_at_once_loses_no_line(shop: Any, page_of: Any) -> None:
    app, client = shop
    page = await page_of("about:blank")
    await page.context.add_cookies([{"name": "user", "value": "oz", "url": client.url}])
    await page.add_init_script(LINES)
    await page.goto(client.url + "/inbox?tool=refund")
    while not await page.evaluate("lines.length"):
        await page.locator("main").wait_for()
    await page.get_by_role("button", name="Approve all 3").click()
    await page.get_by_label("Type 3 to approve").fill("3")
    await page.get_by_role("button", name="Many: approve all 3").click()
    while await app.inbox(tool="refund", limit=None):
        await page.locator("main").wait_for()
    assert await page.evaluate("lines") == ["open"]
    assert "Connection lost" not in await page.text_content("body")


async def test_an_item_says_whose_run_it_is_and_the_page_how_many_wait(
    shop: Any, page_of: Any
) -> None:
    app, client = shop
    page = await page_of(client.url + "/inbox")
    await page.locator(".ask .from .owner").first.wait_for()
    assert set(await page.locator(".ask .from .owner").all_inner_texts()) == {"ann", "ben"}
    count = len(await app.inbox(limit=None))
    await expect(page.locator(".inboxhead")).to_contain_text(f"{count} items")
    assert await page.locator(".ask > header", has_text="waits").count() == (
        await page.locator(".ask").count()
    )


async def test_what_steers_text_is_seen_wherever_a_strangers_text_stands(
    page_of: Any, tmp_path: Path
) -> None:
    calls = [ToolCall("r", "refund", {"order": 1, "amount": 1, "reason": TRICK})]
    model = ScriptedModel([ModelResponse(parts=(Text(TRICK), *calls))])
    app = App([Agent("clerk", model=model, tools=[refund])], journal=str(tmp_path / "runs.db"))
    async with app:
        run = await app.submit("clerk", TRICK, conversation=f"c{TRICK}")
        await work_off(app)
        await app.note(run.id, f"n{TRICK}", TRICK, by=TRICK)
    async with served(app, work=False) as client:
        page = await page_of(client.url)
        for path, there in (
            ("/runs", "a.run"),
            (f"/runs/{run.id}", ".message"),
            ("/inbox", ".ask"),
            ("/conversations", "a.run"),
            (f"/runs/{run.id}?notes", ".notes li"),
        ):
            await page.goto(client.url + path)
            await page.locator(there).first.wait_for(state="attached")
            text = await page.evaluate("document.documentElement.textContent + document.title")
            text += await page.evaluate(READ)
            assert not {"\u202e", "\u202c", "\u200b"} & {*text}, (path, text)
            assert "U+202E" in text, path


async def test_what_was_typed_stays_when_a_filter_is_chosen_and_the_focus_with_it(
    shop: Any, page_of: Any
) -> None:
    _, client = shop
    page = await page_of(client.url + "/runs")
    await page.wait_for_selector("a.run")
    await page.get_by_label("Text of request or answer").fill("order")
    await page.get_by_label("Status").focus()
    await page.keyboard.press("ArrowDown")
    await page.wait_for_url("**/runs?text=order&status=running**")
    await page.wait_for_selector("main:not([aria-busy]) .chip.on")
    assert await page.evaluate("document.activeElement.name") == "status"
    assert await page.get_by_label("Text of request or answer").input_value() == "order"
    await page.get_by_role("link", name="Inbox").click()
    await page.wait_for_selector(".ask")
    assert await page.evaluate("document.activeElement.tagName") in ("MAIN", "A")


async def test_back_goes_to_where_the_list_was(shop: Any, page_of: Any) -> None:
    _, client = shop
    page = await page_of(client.url + "/runs")
    await page.locator("a.run").nth(30).click()
    await page.wait_for_selector("button.row")
    await page.wait_for_selector("main:not([aria-busy])")
    assert await page.evaluate("scrollY") == 0
    await page.go_back()
    await page.wait_for_selector("a.run")
    # The page forbids eval, so nothing but a look again can wait for it.
    while await page.evaluate("scrollY") <= 400:
        await asyncio.sleep(0.01)


async def test_an_address_that_is_wrong_is_told_and_leads_on(shop: Any, page_of: Any) -> None:
    app, client = shop
    (last,) = await app.runs(limit=1)
    page = await page_of(client.url + f"/runs?before={last.run_id}")
    await page.get_by_role("button", name="To the first page").click()
    await page.wait_for_url(client.url + "/runs")
    for path, said in (
        ("/runs?since=yesterday", "since"),
        ("/runs?status=foo", "give one of"),
        ("/nope", "No such page"),
    ):
        await page.goto(client.url + path)
        await page.locator("main", has_text=said).wait_for()
        assert page.faults == []


async def test_a_session_that_ended_is_told_once(shop: Any, page_of: Any) -> None:
    _, client = shop
    page = await page_of(client.url + "/inbox")
    await page.locator(".ask").first.wait_for()
    await page.context.clear_cookies()
    await page.set_extra_http_headers({"authorization": "nobody"})
    # The page is looked at again, and its stream goes on by a new request, which is refused.
    await page.evaluate(HIDE)
    await page.get_by_role("heading", name="You are not signed in").wait_for()
    await expect(page.locator("#line")).to_be_hidden()


async def test_currencies_are_never_added_up(page_of: Any, tmp_path: Path) -> None:
    costs = [Cost(total=Decimal("12.5"), currency="EUR"), Cost(total=Decimal("0.3"))]
    usage = Usage(input_tokens=10, output_tokens=5, api_calls=1)
    replies = [ModelResponse(parts=(Text("Hi"),), usage=usage, cost=cost) for cost in costs]
    app = App([Agent("clerk", model=ScriptedModel(replies))], journal=str(tmp_path / "runs.db"))
    async with app:
        for text in ("One", "Two"):
            await app.submit("clerk", text)
            await work_off(app)
    async with served(app, work=False) as client:
        page = await page_of(client.url + "/runs?sort=cost")
        await page.locator("figure.days").nth(1).wait_for()
        said = " ".join(await page.locator("figcaption").all_inner_texts())
        assert "€12.50" in said and "$0.300" in said and "12.8" not in said
        shown = await page.locator(".run:not(.heads) .cost").all_inner_texts()
        assert shown == ["$0.300", "€12.50"]
        await page.get_by_role("link", name="Cost by day, EUR").click()
        await page.wait_for_selector(".run:not(.heads) >> nth=0")
        await expect(page.locator("a.run")).to_have_count(1)


async def test_a_long_conversation_says_that_there_are_earlier_turns(
    shop: Any, page_of: Any, monkeypatch: Any
) -> None:
    app, client = shop
    monkeypatch.setattr(console, "_PAGE", 5)
    for number in range(8):
        asked: Any = {"conversation": "long", "attributes": {"user": "oz"}}
        # Turns that wait for one another are taken in no order.
        await (await app.submit("clerk", f"Hello {number}", **asked)).result()
    page = await page_of(client.url + "/conversations/long")
    await expect(page.locator(".turn")).to_have_count(5)
    await page.get_by_role("button", name="Earlier turns").click()
    await expect(page.locator(".turn")).to_have_count(8)
    await expect(page.get_by_role("button", name="Earlier turns")).to_be_hidden()
    first = page.locator(".turn .message.user").first
    await expect(first).to_contain_text("Hello 0")


async def test_a_step_that_is_chosen_shows_its_message(shop: Any, page_of: Any) -> None:
    app, client = shop
    # It ends there with 420 calls, which is long enough to be drawn in parts.
    made = await app.submit("clerk", "Count every shelf.", budget=Budget(max_turns=60))
    await made.result()
    page = await page_of(client.url + f"/runs/{made.id}")
    rows = page.locator("button.row.tool")
    await expect(rows).to_have_count(420)
    # Messages are drawn after the rows.
    await expect(page.locator(".transcript .message.tool")).to_have_count(420)
    count = await rows.count()
    for at in (count // 2, 40, count - 60, count // 3, count // 5):
        await page.evaluate(f"document.querySelectorAll('button.row.tool')[{at}].click()")
        await page.evaluate(FRAMES)
        seen = await page.evaluate(
            f"(() => {{ const box = {SCROLLED}.getBoundingClientRect();"
            " const at = document.querySelector('.transcript .on').getBoundingClientRect();"
            " return at.top >= box.top - 1 && at.top < box.bottom; })()"
        )
        assert seen, at
