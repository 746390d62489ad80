"""The page of a lab report: readable on a phone and in the dark, and harmless whatever it shows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import LAPTOP, Views, in_views, main_thread_of, take_picture
from upshot import Agent, Request, ScriptedModel, ToolCall, lab, run, tool
from upshot.journal import MemoryJournal
from upshot.lab.report_page import report_page

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
CASES = 24


@tool(effect="read")
def find_order(id: int) -> dict[str, int]:
    """Find an order."""
    return {"id": id, "paid": 10 * id}


@tool(effect="write")
def refund(id: int, cents: int) -> str:
    """Refund an order."""
    return f"refunded {cents}"


def careful(messages: Any) -> Any:
    id = int(messages[0].text.rpartition(" ")[2])
    done = [one for one in messages if one.tool_call_id]
    if not done:
        return ToolCall("f", "find_order", {"id": id})
    if len(done) == 1:
        return ToolCall("r", "refund", {"id": id, "cents": 10 * id})
    return "Your refund is on its way."


def rushed(messages: Any) -> Any:
    id = int(messages[0].text.rpartition(" ")[2])
    done = any(one.tool_call_id for one in messages)
    return HOSTILE if done else ToolCall("r", "refund", {"id": id, "cents": 100})


def desk(reply: Any) -> Agent[Any]:
    return Agent("support", model=ScriptedModel(reply), tools=[find_order, refund])


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """The address of the page of a report."""
    journal = MemoryJournal()
    for number in range(1, CASES + 1):
        request = Request(f"Refund order {number}", run_id=f"ticket-{number:02}")
        await run(desk(careful), request, journal=journal)
    report = await lab.run(
        await lab.Dataset.from_journal(journal, name="refunds of last week"),
        {"today": desk(careful), "rushed": desk(rushed)},
        scorers=[lab.completed(), lab.same_effects(), lab.trajectory(), lab.steps()],
        name="A shorter prompt",
        journal="memory:",
    )
    return written(report, tmp_path)


def written(report: lab.Report, folder: Path) -> str:
    """Return the address of the page of a report."""
    file = folder / "report.html"
    file.write_text(report_page(report), "utf-8")
    return file.as_uri()


def large_report(cases: int) -> lab.Report:
    """Return a report of three variants with answers of a usual length."""
    draw, rows, requests = random.Random(1), list[lab.Row](), dict[str, str]()
    for number in range(cases):
        case = f"run-{number:04}"
        requests[case] = f"Please refund order {number}: it came broken, and I wrote twice."
        for variant in ("record", "today", "shorter", "mini"):
            is_new = variant in ("shorter", "mini") and draw.random() < 0.1
            call = lab.LabCall(tool="refund", arguments={"id": number, "cents": 1999})
            names = ("completed", "same_effects", "trajectory", "cost", "tokens")
            scores = {name: lab.Score(value=float(draw.random() > 0.02)) for name in names}
            other = variant if draw.random() < 0.3 else ""
            rows.append(
                lab.Row(
                    case=case,
                    variant=variant,
                    run_id=f"lab-{number:020}",
                    status="completed",
                    answer=f"I have looked at order {number}, and it is on its way. {other}" * 12,
                    new_effects=(call,) if is_new else (),
                    scores={} if variant == "record" else scores,
                )
            )
    return lab.Report(
        name="Large",
        dataset="last quarter",
        cases=cases,
        variants=("today", "shorter", "mini"),
        scorers=("completed", "same_effects", "trajectory", "cost", "tokens"),
        rows=tuple(rows),
        requests=requests,
    )


async def test_the_page_says_what_changed_and_shows_each_case(page_of: Any, url: str) -> None:
    page = await page_of(url, viewport=LAPTOP)
    await expect(page.locator("h1")).to_have_text("A shorter prompt")
    await expect(page.locator(".told li").first).to_contain_text("rushed would have made 23 writes")
    assert await page.locator("details.case").count() == CASES
    await take_picture(page, "lab")
    first = page.locator("details").first
    await first.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(first.locator(".variants")).to_be_visible()
    await expect(first).to_contain_text("<script>")
    assert await page.title() == "A shorter prompt"
    assert page.faults == []


@in_views()
async def test_axe_finds_nothing_and_nothing_is_too_wide(
    page_of: Any, url: str, faults_of: Any, views: Views
) -> None:
    page = await page_of(url)
    await page.locator("summary").first.click()
    assert await faults_of(page, views) == []


@pytest.mark.slow
async def test_a_report_of_1000_cases_is_one_file_that_opens_without_a_stall(
    page_of: Any, tmp_path: Path
) -> None:
    url = written(large_report(1_000), tmp_path)
    size = (tmp_path / "report.html").stat().st_size
    assert size <= 5_000_000
    page = await page_of("about:blank")
    busy_s = await main_thread_of(page)
    await page.goto(url)
    assert await page.locator("details.case").count() == 250
    await expect(page.locator("main")).to_contain_text("Of 1,000 cases, the 250 that changed most")
    opened_s = await busy_s()
    last = page.locator("details.case").last
    await last.locator("summary").focus()
    await page.keyboard.press("Enter")
    await expect(last.locator(".variants")).to_be_visible()
    case_s = await busy_s() - opened_s
    print(f"\n{size / 1e6:.1f} MB, {opened_s:.2f} s of CPU to open, {case_s:.2f} s for a case")
    assert opened_s < 1
    assert case_s < 1
