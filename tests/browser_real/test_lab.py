"""The lab in the console: from a bad run to a dataset, and from an experiment to two runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import LAPTOP, Views, in_views, main_thread_of, take_picture
from tests.browser_real.test_lab_report import desk, large_report, rushed
from tests.serve.kit import Client, served
from upshot import App, Request, ToolCall, lab
from upshot.journal import open_journal
from upshot.lab.kept_reports import KeptExperiment, keep_report, keep_start

TICKETS = 24


def careful(messages: Any) -> Any:
    """Look an order up, and refund what was paid; the ticket ends with the order's number."""
    id = int(messages[0].text.rpartition(" ")[2])
    done = [one for one in messages if one.tool_call_id]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find_order", {"id": id}),
        ("refund", {"id": id, "cents": 10 * id}),
    ]
    return ToolCall("c", *calls[len(done)]) if len(done) < 2 else "Your refund is on its way."


def hasty(messages: Any) -> Any:
    """Refund a round sum without a look at the order."""
    said = rushed(messages)
    return said if isinstance(said, ToolCall) else "I have refunded you 1.00."


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[Client]:
    app = App([desk(careful)], journal=tmp_path / "desk.db")
    shown = {"lab": tmp_path / "lab.db", "datasets": tmp_path / "datasets", "rate": 100_000}
    async with served(app, **shown) as client:
        for number in range(1, TICKETS + 1):
            text = f"The lamp came broken, please refund order {number}"
            request = Request(text, run_id=f"ticket-{number:02}")
            await (await app.submit("support", request)).result(60)
        yield client


async def make_experiment(folder: Path, dataset: lab.Dataset, name: str) -> None:
    await lab.run(
        dataset,
        {"today": desk(careful), "shorter": desk(hasty)},
        scorers=[lab.completed(), lab.same_effects(), lab.trajectory(), lab.steps()],
        journal=folder / "lab.db",
        name=name,
    )


async def press(page: Any, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)


async def test_a_bad_run_becomes_a_case_and_a_change_is_read_by_keyboard_alone(
    tmp_path: Path, page_of: Any, client: Client
) -> None:
    page = await page_of(f"{client.url}/runs/ticket-07", viewport=LAPTOP)
    await page.get_by_role("button", name="Add to a dataset").focus()
    await press(page, "Enter")
    await expect(page.get_by_label("Name of the dataset")).to_be_focused()
    await page.keyboard.type("bad")
    await take_picture(page, "collect")
    await press(page, "Enter")
    await expect(page.locator("#said")).to_contain_text("1 case added")
    assert [one.id for one in lab.Dataset.read(tmp_path / "datasets" / "bad.jsonl")] == [
        "ticket-07"
    ]
    await page.goto(f"{client.url}/runs?agent=support")
    await page.get_by_role("button", name="Add to a dataset").focus()
    await press(page, "Enter")
    await page.keyboard.type("bad")
    await press(page, "Enter")
    await expect(page.locator("#said")).to_contain_text("23 cases added")
    dataset = lab.Dataset.read(tmp_path / "datasets" / "bad.jsonl")
    await make_experiment(tmp_path, dataset, "A shorter prompt")

    await press(page, "g", "l")
    line = page.get_by_role("link", name="A shorter prompt")
    await expect(line).to_contain_text("shorter would have made 23 writes")
    await press(page, "j", "Enter")
    await expect(page.locator("h1")).to_have_text("A shorter prompt")
    # Without the message of what was added.
    await page.reload()
    await page.locator("details.case").first.wait_for()
    await press(page, "j", "Enter")
    case = page.locator("details.case").first
    await expect(case.get_by_text("would have made")).to_be_visible()
    await page.evaluate("scrollTo(0, document.querySelector('.report table').offsetTop - 60)")
    await take_picture(page, "lab-case")
    await page.get_by_role("link", name="Compare with record").nth(1).focus()
    await press(page, "Enter")
    await expect(page.locator("h1")).to_have_text("Two runs compared")
    await expect(page.locator(".sides")).to_contain_text("find_order")
    await take_picture(page, "lab-compare")
    await page.get_by_role("link", name="lab-").first.focus()
    await press(page, "Enter")
    await expect(page.locator("h1")).to_contain_text("please refund order")
    assert page.faults == []


@in_views({"width": 1440, "height": 860}, {"width": 390, "height": 860})
async def test_axe_finds_nothing_and_nothing_is_too_wide(
    tmp_path: Path, page_of: Any, client: Client, faults_of: Any, views: Views
) -> None:
    filters = {"filters": {"agent": "support"}}
    assert (await client.by("oz").post("/api/datasets/bad", filters))[0] == 200
    dataset = lab.Dataset.read(tmp_path / "datasets" / "bad.jsonl")
    await make_experiment(tmp_path, dataset, "A shorter prompt")
    page = await page_of(f"{client.url}/lab")
    tablet = (views[0][0], {"width": 768, "height": 860})
    faults: list[str] = []
    for path, opened in (
        ("/lab", ""),
        ("/lab/A%20shorter%20prompt", "summary"),
        ("/runs", ".chip"),
    ):
        await page.goto(client.url + path)
        await page.wait_for_selector("main:not([aria-busy]) > *")
        if path == "/runs":
            await page.get_by_role("button", name="Add to a dataset").click()
        elif opened:
            await page.locator(opened).first.click()
        faults += await faults_of(page, [*views, tablet], picture=f"lab-{path[:5].strip('/')}")
    assert faults == []
    assert page.faults == []


@pytest.mark.slow
async def test_a_report_of_1000_cases_opens_without_a_stall(
    tmp_path: Path, page_of: Any, client: Client
) -> None:
    async with open_journal(tmp_path / "lab.db") as journal:
        report = large_report(1_000)
        await keep_start(journal, KeptExperiment(name=report.name, cases=1_000))
        await keep_report(journal, report)
    page = await page_of("about:blank")
    busy_s = await main_thread_of(page)
    await page.context.add_cookies([{"name": "user", "value": "oz", "url": client.url}])
    await page.goto(f"{client.url}/lab/Large")
    await expect(page.locator("details.case")).to_have_count(50)
    opened_s = await busy_s()
    for count in (100, 150):
        await page.get_by_role("button", name="Next 50 cases").click()
        await expect(page.locator("details.case")).to_have_count(count)
    more_s = await busy_s() - opened_s
    print(f"\n{opened_s:.2f} s of CPU to open, {more_s:.2f} s for 100 more cases")
    assert opened_s < 1
    assert more_s < 1
