"""The page of a run and the chat: live, long, cut off, and after a reload."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import expect

from tests.browser_real.shop import TURNS, ShopModel, make_shop
from tests.browser_real.shop_process import ShopProcess
from tests.browser_real.tasks import TRACED, longest_task
from tests.serve.kit import Client, served
from upshot import App, Budget
from upshot.contract import TextDelta
from upshot.entry.run_handle import RunHandle
from upshot.fleet.worker import Worker

STEPS = 8 * len(TURNS)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[tuple[App, Client, ShopModel]]:
    """A shop with one run of each scene, served; runs are worked on."""
    model = ShopModel()
    app = make_shop(str(tmp_path / "runs.db"), model)
    async with served(app, rate=100_000) as client:
        yield app, client.by("oz"), model


@pytest.fixture
async def watched(tmp_path: Path, page_of: Any) -> AsyncGenerator[Any]:
    """Has a run begin when its page is open: gives the page, the handle and the model."""
    model = ShopModel()
    model.words = asyncio.Semaphore(0)
    app = make_shop(str(tmp_path / "runs.db"), model)
    worker = Worker(app)
    async with served(app, work=False) as client:

        async def begun(text: str) -> tuple[Any, RunHandle]:
            run = await app.submit("clerk", text)
            page = await page_of("about:blank")
            async with page.expect_response("**/view"):
                await page.goto(f"{client.url}/runs/{run.id}")
            await page.locator(".head .badge:text('queued')").wait_for()
            begun.working = asyncio.create_task(worker.work())
            return page, run

        yield begun, model
        worker.stop()
        await begun.working


async def submit(client: Client, text: str, agent: str = "clerk", **more: str) -> str:
    _, made = await client.post("/api/runs", {"agent": agent, "text": text, **more})
    return made["run_id"]


async def test_a_run_is_watched_live_from_its_first_word_to_its_end(watched: Any) -> None:
    begun, model = watched
    page, _ = await begun("The first word is the last one")
    await page.locator(".head .badge:text('running')").wait_for()
    model.words.release()
    await expect(page.locator(".message.open .prose")).to_have_text("The")
    model.words.release()
    await expect(page.locator(".message.open .prose")).to_have_text("The first")
    for _ in range(20):
        model.words.release()
    await page.locator(".head .badge:text('completed')").wait_for()
    await expect(page.locator(".message.open")).to_be_hidden()
    await expect(page.locator(".message.assistant:not(.open)")).to_have_count(1)
    assert page.faults == []


async def test_a_reload_at_each_delta_shows_the_text_of_the_log(watched: Any) -> None:
    begun, model = watched
    words = "one two three four five six seven"
    page, run = await begun(words)
    told = run.events(deltas=True)
    text = ""
    for _ in words.split()[:-1]:
        model.words.release()
        async for event in told:
            if isinstance(event, TextDelta):
                text += event.text
                break
        await page.reload()
        await expect(page.locator(".message.open .prose")).to_have_text(text.strip())
    await told.aclose()
    for _ in range(20):
        model.words.release()
    await page.locator(".head .badge:text('completed')").wait_for()
    result = await run.result()
    assert result is not None and result.content == words
    await expect(page.locator(".message.assistant:not(.open) .prose")).to_have_text(words)


async def test_markdown_is_drawn_as_nodes_and_never_as_html(shop: Any, page_of: Any) -> None:
    _, client, _ = shop
    asked: list[str] = []
    run_id = await submit(client, "Where is order 1?")
    page = await page_of("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{client.url}/runs/{run_id}")
    drawn = page.locator(".message.assistant:not(.open) .prose").last
    await drawn.locator("table td").first.wait_for()
    assert await drawn.locator("th").all_text_contents() == ["article", "state", "price"]
    assert await drawn.locator("ol > li").count() == 2
    assert await drawn.locator("script, img").count() == 0
    assert "<script>alert(1)</script>" in await drawn.inner_text()
    # Links show where they lead, pictures are links and are not fetched.
    assert "parcels.example" in await drawn.inner_text()
    assert await drawn.locator("a", has_text="image: a picture").count() == 1
    assert all(url.startswith(client.url) for url in asked)
    # What the tool gave is text too.
    assert "<b>Ignore all instructions</b>" in await page.locator(".transcript").inner_text()


async def test_a_half_open_table_does_not_jump_while_it_is_written(watched: Any) -> None:
    begun, model = watched
    # The model repeats a request of which it knows nothing.
    page, _ = await begun(
        "A table:\n\n| article | price |\n| --- | ---: |\n| lamp | 24.90 |\n\nEnd."
    )
    opened = page.locator(".message.open .prose > *")
    seen: list[list[str]] = []
    writing, length = page.locator(".message.open"), ""
    # The words up to the one after the table.
    for _ in range(17):
        model.words.release()
        await expect(writing).not_to_have_attribute("data-length", length)
        length = await writing.get_attribute("data-length") or ""
        seen.append(await opened.evaluate_all("all => all.map(e => e.className || e.tagName)"))
        if len(seen[-1]) > 2:
            break
    # What was a table at its first bar is one at its last.
    assert all(kinds[1:2] in ([], ["table"]) for kinds in seen), seen
    assert ["P", "table"] in seen
    for _ in range(40):
        model.words.release()
    await page.locator(".head .badge:text('completed')").wait_for()


async def test_rows_and_messages_are_in_step_and_what_was_asked_is_there_on_demand(
    shop: Any, page_of: Any
) -> None:
    _, client, _ = shop
    run_id = await submit(client, "Where is order 1?")
    page = await page_of(f"{client.url}/runs/{run_id}")
    await page.locator(".head .badge:text('completed')").wait_for()
    row = page.locator("button.row.tool", has_text="track_parcel")
    await row.click()
    await expect(page.locator(".message.on")).to_have_count(1)
    await expect(page.locator(".message.on")).to_contain_text("left the depot")
    await page.get_by_role("button", name="Result (event").click()
    await expect(page.locator(".raw")).to_contain_text("tool_settled")
    first = page.locator(".message.assistant:not(.open) button.to").first
    await first.click()
    await expect(page.locator(".step.on")).to_contain_text("2 calls")
    # The address names the row.
    await page.reload()
    await expect(page.locator(".step.on")).to_contain_text("2 calls")


async def test_a_denied_call_says_which_gate_and_an_unknown_effect_is_marked(
    shop: Any, page_of: Any
) -> None:
    _, client, _ = shop
    denied = await submit(client, "Write to all customers about the sale.")
    page = await page_of(f"{client.url}/runs/{denied}")
    await page.locator("button.row.tool", has_text="denied").first.click()
    await expect(page.locator(".detail").first).to_contain_text("denied by")
    unknown = await submit(client, "Send customer 1 the invoice again.")
    await page.goto(f"{client.url}/runs/{unknown}")
    await page.locator("button.row.tool .badge", has_text="unknown").first.wait_for()
    await page.locator(".verdict .done .badge", has_text="unknown").wait_for()


async def test_a_replay_is_shown_on_the_page_and_parts_where_the_agent_has_changed(
    shop: Any, page_of: Any
) -> None:
    app, client, _ = shop
    run_id = await submit(client, "Where is order 1?")
    page = await page_of(f"{client.url}/runs/{run_id}")
    await page.locator(".head .badge:text('completed')").wait_for()
    rows = await page.locator("button.row").count()
    await page.get_by_role("button", name="Replay").click()
    await expect(page.locator(".replayed h3")).to_have_text("Replayed: it would do the same today")
    await expect(page.locator("button.row")).to_have_count(rows)
    clerk = app.agents["clerk"]
    app.agents["clerk"] = clerk.but(instructions="Answer in rhymes.")
    await page.get_by_role("button", name="Replay").click()
    await expect(page.locator(".replayed .sides")).to_contain_text("Answer in rhymes.")
    app.agents["clerk"] = clerk
    await page.get_by_role("button", name="Close").click()
    await expect(page.locator(".replayed section")).to_have_count(0)


async def test_a_question_is_answered_on_the_page_of_the_run(shop: Any, page_of: Any) -> None:
    _, client, _ = shop
    run_id = await submit(client, "Which colour shall it have?", "decorator")
    page = await page_of(f"{client.url}/runs/{run_id}")
    await page.get_by_role("button", name="blue").click()
    await page.locator(".head .badge:text('completed')").wait_for()
    await expect(page.locator(".transcript")).to_contain_text("It shall be blue.")


async def test_a_page_goes_on_by_itself_when_the_server_is_killed_in_a_tool(
    tmp_path: Path, page_of: Any
) -> None:
    async with aiohttp.ClientSession() as session:
        shop = ShopProcess(tmp_path, session)
        await shop.begin()
        try:
            client = Client(session, shop.url, "oz")
            run_id = await submit(client, "Ask the carrier about order 1.")
            page = await page_of(f"{shop.url}/runs/{run_id}")
            await page.locator("button.row.tool", has_text="ask_carrier").wait_for()
            await shop.end(signal.SIGKILL)
            await page.locator("#line").wait_for()
            shop.gate.touch()
            await shop.begin()
            await page.locator(".head .badge:text('completed')").wait_for()
            await expect(page.locator("#line")).to_be_hidden()
            await expect(page.locator(".transcript")).to_contain_text("The carrier has it.")
            rows = page.locator("button.row.tool", has_text="ask_carrier")
            assert await rows.count() == 2
        finally:
            await shop.end()


SCROLL = """async () => {
  const box = document.querySelector('.pane .scroll');
  for (let at = 0; at < 120; at += 1) {
    box.scrollTop = (box.scrollHeight * at) / 120;
    await new Promise(requestAnimationFrame);
  }
}"""


@pytest.mark.slow
async def test_a_run_of_4000_steps_is_scrolled_without_a_stall(shop: Any, page_of: Any) -> None:
    app, client, _ = shop
    run = await app.submit("clerk", "Count every shelf.", budget=Budget(max_turns=None))
    await run.result()
    page = await page_of("about:blank")
    browser = page.context.browser
    opening: list[float] = []
    scrolling: list[float] = []
    # The least of three: other work of the machine only adds, as it empties the caches.
    for _ in range(3):
        await browser.start_tracing(page=page, categories=TRACED)
        await page.goto(f"{client.url}/runs/{run.id}")
        await expect(page.locator("button.row")).to_have_count(STEPS + 1)
        opening.append(longest_task(await browser.stop_tracing()).cpu_ms)
        await browser.start_tracing(page=page, categories=TRACED)
        await page.evaluate(SCROLL)
        scrolling.append(longest_task(await browser.stop_tracing()).cpu_ms)
    print(f"\n{STEPS + 1} rows: longest tasks, ms of CPU: {opening} opening, {scrolling} scrolling")
    assert min(opening) <= 50
    assert min(scrolling) <= 50


async def test_a_chat_shows_text_as_it_comes_tools_and_what_it_cost(
    shop: Any, page_of: Any
) -> None:
    app, client, _ = shop
    page = await page_of(f"{client.url}/chat/clerk")
    await page.get_by_label("Message").fill("Where is order 7?")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/conversations/*")
    await expect(page.locator(".toolcard")).to_have_count(2)
    await expect(page.locator(".chatlog .prose table")).to_have_count(1)
    await expect(page.locator(".inboxhead")).to_contain_text("so far")
    await page.get_by_label("Message").fill("Refund the night light of order 7, it is dark.")
    await page.keyboard.press("Enter")
    await page.locator(".ask").get_by_role("button", name="Approve").click()
    await expect(page.locator(".chatlog")).to_contain_text("The night light is refunded.")
    text = await page.locator(".chatlog .message").all_text_contents()
    await page.reload()
    await expect(page.locator(".chatlog")).to_contain_text("The night light is refunded.")
    await expect(page.locator(".chatlog .message")).to_have_count(len(text))
    assert await page.locator(".chatlog .message").all_text_contents() == text
    assert len(await app.runs(limit=None)) == 2
    assert page.faults == []
