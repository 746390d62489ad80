"""The overview: every mark says a figure and leads to the list that it counts."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import Views, in_views
from tests.browser_real.shop import fill, make_shop
from tests.serve.kit import Client, served
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.call_counts import BUCKETS, CallCount, bucket_of
from upshot.contract.error import AgentError
from upshot.contract.events import RunSettled, RunStarted
from upshot.contract.model_calls import Request
from upshot.contract.pending import PendingQuestion
from upshot.contract.result import AgentResult
from upshot.contract.usage import Cost, RateLimitWindow, Usage

RUNS = 700
PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1440, "height": 800}
STATUSES = [Status.COMPLETED] * 16 + [Status.FAILED] * 2 + [Status.INTERRUPTED, Status.CANCELED]
CODES = [ErrorCode.RATE_LIMIT, ErrorCode.TIMEOUT, ErrorCode.REFUSAL, ErrorCode.INTERNAL]
AGENTS = ["clerk", "support", "refunds", "research"]


def took_of(chance: random.Random, usual_s: float, calls: int) -> tuple[int, ...]:
    took = [0] * BUCKETS
    for _ in range(calls):
        took[bucket_of(usual_s * chance.lognormvariate(0, 0.7))] += 1
    return tuple(took)


def calls_of(chance: random.Random, at: datetime) -> tuple[CallCount, ...]:
    model = chance.choice(["openai:gpt-5", "openai:gpt-5", "anthropic:claude-sonnet-4-5"])
    tools = chance.sample([("find_order", 0.04), ("track_parcel", 0.9), ("refund", 0.3)], 2)
    asked, limited = chance.randint(1, 5), int(chance.random() < 0.04)
    left = chance.randint(40, 480)
    counts = [
        CallCount(
            type="model",
            name=model,
            calls=asked,
            limited=limited,
            took=took_of(chance, 2.2, asked),
            windows=(
                RateLimitWindow(name="requests_per_minute", limit=500, remaining=left),
                RateLimitWindow(name="tokens_per_minute", limit=200_000, remaining=left * 300),
            ),
            at=at,
        )
    ]
    for name, usual_s in tools:
        calls = chance.randint(1, 3)
        failed = int(chance.random() < 0.05)
        is_refund = name == "refund"
        slowest_ms = int(usual_s * 1500 * chance.lognormvariate(0, 0.5))
        counts.append(
            CallCount(
                type="tool",
                name=name,
                calls=calls,
                failed=failed,
                timed_out=int(failed and name == "track_parcel"),
                unknown=int(is_refund and chance.random() < 0.03),
                denied=int(is_refund and chance.random() < 0.1),
                repeated=int(is_refund and chance.random() < 0.05),
                took=took_of(chance, usual_s, calls),
                slowest_ms=slowest_ms,
                slowest=f"call_{slowest_ms}",
                waits=took_of(chance, 300, 1) if is_refund else (),
            )
        )
    return tuple(counts)


async def fill_days(app: Any, count: int = RUNS) -> None:
    """Write runs of the last two days, more of them by day than by night."""
    journal, chance, now = await app.open(), random.Random(7), datetime.now(UTC)
    for n in range(count):
        hours = 46 * n / count
        at = now - timedelta(hours=hours, minutes=chance.random() * 50)
        if 2 < at.hour < 7 and n % 3:
            continue
        waits = n % 60 == 5
        status = Status.INPUT_REQUIRED if waits else chance.choice(STATUSES)
        codes = CODES[:3] if hours < 24 else CODES[1:]
        code = ErrorCode.INPUT_REQUIRED if waits else chance.choice([codes[0], *codes])
        asked_at = now - timedelta(minutes=2.5 ** (n // 60))
        asks = {"q": PendingQuestion(id="q", question="Which?", asked_at=asked_at)} if waits else {}
        usage = Usage(api_calls=1, input_tokens=900, output_tokens=90, total_tokens=990)
        cost = Cost(
            total=Decimal(str(round(chance.lognormvariate(-4, 0.8), 4))),
            currency="EUR" if n % 5 == 0 else "USD",
        )
        run_id, calls = f"day-{n}", calls_of(chance, at)
        effect = Effect.UNKNOWN if n % 101 == 3 else Effect.NONE
        started = RunStarted(
            run_id=run_id,
            seq=1,
            time=at,
            agent=AgentSpec(id=chance.choices(AGENTS, (6, 4, 2, 1))[0]),
            request=Request(f"What becomes of order {n}?"),
        )
        result = AgentResult[Any](
            run_id=run_id,
            status=status,
            error=None if status is Status.COMPLETED else AgentError(code),
            usage=usage,
            cost=cost,
            pending=tuple(asks.values()),
        )
        settled = RunSettled(
            run_id=run_id,
            seq=2,
            time=at + timedelta(seconds=9),
            result=result,
            asks=asks,
            effect=Effect.APPLIED if n % 4 == 0 else effect,
            took_s=round(chance.lognormvariate(1.6, 0.8), 3),
            tools=tuple(one.name for one in calls if one.type == "tool"),
            calls=calls,
        )
        journal.append(started)
        journal.append(settled)
    await journal.durable(run_id, 2)


@pytest.fixture(scope="module")
async def days(tmp_path_factory: Any) -> AsyncGenerator[Client]:
    """Two days of runs, served to the tests that only read."""
    app = make_shop(str(tmp_path_factory.mktemp("days") / "runs.db"))
    async with served(app, rate=100_000) as client:
        await fill_days(app)
        yield client


MARKS = """all => all.map(e => ({
    mark: e.dataset.mark, path: e.getAttribute("href"),
    label: e.getAttribute("aria-label") || e.textContent,
    figure: (e.querySelector("b, .num") || e).textContent }))"""


def number_in(text: str) -> int:
    found = re.search(r"[\d,]+", text)
    assert found, text
    return int(found[0].replace(",", ""))


@pytest.mark.parametrize("period", ["hour", "day", "week"])
async def test_every_mark_of_runs_leads_to_as_many_as_it_says(
    days: Client, page_of: Any, period: str
) -> None:
    page = await page_of(f"{days.url}/?period={period}")
    await page.locator(".plot a[data-mark]").first.wait_for()
    marks = await page.eval_on_selector_all("main a[data-mark]", MARKS)
    counted: dict[str, tuple[int, int]] = {}
    for one in marks:
        kind, path = one["mark"].split()[0], urlsplit(one["path"])
        if one["mark"].startswith("Runs by outcome"):
            said = number_in(one["label"].rpartition(": ")[2])
        elif kind in ("status", "effect", "error"):
            said = number_in(one["figure"])
        elif kind in ("agent", "failed"):
            row = page.locator(f'[data-mark="{one["mark"]}"]').locator("xpath=ancestor::tr")
            said = number_in(await row.locator(".num").nth(int(kind == "failed")).inner_text())
        else:
            continue
        assert path.path == "/runs"
        _, counts = await days.by("oz").get(f"/api/counts?{path.query}")
        counted[one["mark"]] = (said, sum(counts.get("statuses", {}).values()))
    kinds = {mark.split()[0] for mark in counted}
    assert {"status", "Runs", "agent"} <= kinds
    assert {mark: both for mark, both in counted.items() if both[0] != both[1]} == {}
    assert page.faults == []


async def test_the_arrow_keys_go_from_mark_to_mark_and_enter_opens_its_list(
    days: Client, page_of: Any
) -> None:
    page = await page_of(days.url)
    plot = page.locator(".outcomes .plot")
    await plot.locator("a").first.wait_for()
    await expect(plot.locator('a[tabindex="0"]')).to_have_count(1)
    last = plot.locator("a").last
    await last.focus()
    await page.keyboard.press("ArrowLeft")
    here = await page.evaluate("document.activeElement.getAttribute('href')")
    assert here == await plot.locator("a").nth(-2).get_attribute("href")
    await page.keyboard.press("Home")
    assert await plot.locator("a").first.evaluate("e => e === document.activeElement")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/runs?status=**")
    await page.wait_for_selector("a.run")
    await page.keyboard.press("g")
    await page.keyboard.press("o")
    await page.wait_for_url(days.url + "/")
    assert page.faults == []


async def test_names_and_figures_of_the_plots_are_not_cut(days: Client, page_of: Any) -> None:
    for period in ("hour", "day", "week"):
        page = await page_of(f"{days.url}/?period={period}", viewport=PHONE)
        await page.locator(".outcomes .plot text").first.wait_for()
        cut = await page.evaluate(
            """() => [...document.querySelectorAll(".card")].flatMap((card) => {
              // Off screen, a card has the height that it is guessed to have.
              card.style.contentVisibility = "visible";
              const box = card.getBoundingClientRect();
              const parts = card.querySelectorAll("text, .lines span, .what, .delta, .num");
              return [...parts].filter((e) => {
                const inner = e.getBoundingClientRect();
                const isCut = inner.left < box.left || inner.right > box.right
                  || inner.bottom > box.bottom
                  || (e.scrollWidth > e.clientWidth + 1 && e.clientWidth);
                return inner.width && isCut;
              }).map((e) => e.outerHTML);
            })"""
        )
        assert cut == []
        await page.context.close()


async def test_what_waits_for_long_leads_to_the_inbox_of_that_age(
    days: Client, page_of: Any
) -> None:
    page = await page_of(days.url)
    card = page.get_by_role("region", name="Waiting")
    await card.wait_for()
    _, found = await days.by("oz").get("/api/overview")
    waiting = found["work"]["waiting"]
    shown = {
        (await one.get_attribute("href"), number_in(await one.locator(".num").inner_text()))
        for one in await card.locator("a").all()
    }
    ages, counts = ("", "300", "3600", "86400", "604800", ""), (*waiting, 0)
    wanted = {
        (f"/inbox?older={ages[at]}&younger={ages[at + 1]}", counts[at] - counts[at + 1])
        for at in range(5)
    }
    assert {(re.sub(r"\w+=(&|$)", "", path).rstrip("&"), n) for path, n in wanted} == shown
    await expect(card).to_contain_text("Unknown effects")
    failures = page.get_by_role("region", name="Failures")
    for one in found["errors"]:
        row = failures.locator(f'[data-mark="error {one["code"]}"]')
        said = {0: "new", one["runs"]: "as before"}.get(one["before"], f"was {one['before']}")
        await expect(row.locator(".delta")).to_contain_text(said)


async def test_what_is_unknown_for_long_leads_to_the_effects_of_that_age(
    tmp_path: Path, page_of: Any
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        await fill(app, 8)
        _, found = await client.by("oz").get("/api/effects?state=unknown")
        page = await page_of(client.url)
        young = page.get_by_role("region", name="Waiting").locator('[data-mark^="unknown under"]')
        await expect(young.locator(".num")).to_have_text(re.compile(r"\d"))
        said = number_in(await young.locator(".num").inner_text())
        assert said == len(found["effects"]) > 0
        await young.click()
        await page.wait_for_url("**/effects?state=unknown&younger=300")
        await expect(page.locator(".doubts > .ask")).to_have_count(said)
        await page.get_by_role("link", name="Without: began under 5 min ago").click()
        await page.goto(client.url + "/effects?state=unknown&older=300")
        await expect(page.get_by_text("No effect matches.")).to_be_visible()
        assert page.faults == []


async def test_a_card_whose_figures_have_not_changed_stays(days: Client, page_of: Any) -> None:
    page = await page_of(days.url)
    held = await page.get_by_role("region", name="Limits of providers").element_handle()
    mark = page.locator('[data-mark="status completed"]')
    before = number_in(await mark.inner_text())
    await days.by("oz").post("/api/runs", {"agent": "clerk", "text": "A new thing"})
    await expect(mark).to_contain_text(f"{before + 1}")
    assert await held.evaluate("node => node.isConnected")


async def test_an_ended_run_is_counted_without_a_reload_and_the_focus_stays(
    tmp_path: Path, page_of: Any
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        await fill(app, 2)
        page = await page_of(client.url)
        mark = page.locator('[data-mark="status completed"]')
        before = number_in(await mark.inner_text())
        await mark.focus()
        await client.by("oz").post("/api/runs", {"agent": "clerk", "text": "A new thing"})
        await expect(mark).to_contain_text(f"{before + 1}")
        assert await mark.evaluate("e => e === document.activeElement")


async def test_an_address_of_the_list_from_before_the_overview_leads_to_the_list(
    days: Client, page_of: Any
) -> None:
    page = await page_of(days.url + "/?status=failed")
    await page.wait_for_url("**/runs?status=failed")
    await page.wait_for_selector("a.run")


async def test_a_user_sees_figures_of_the_own_runs_alone(days: Client, page_of: Any) -> None:
    page = await page_of(days.url, "ann")
    await expect(page.locator(".outcomes")).to_contain_text("No run that has ended")
    assert not await page.get_by_text("Workers").count()
    assert page.faults == []


@in_views(narrow=PHONE)
@pytest.mark.parametrize(
    "period", ["day", *(pytest.param(one, marks=pytest.mark.slow) for one in ("hour", "week"))]
)
async def test_the_full_overview_has_no_finding_of_axe_and_fits_the_screen(
    days: Client, page_of: Any, faults_of: Any, views: Views, period: str
) -> None:
    page = await page_of(f"{days.url}/?period={period}")
    await page.locator(".tiles").wait_for()
    await page.wait_for_load_state("load")
    assert await faults_of(page, views, picture=f"overview-{period}") == []


async def test_the_slowest_tool_and_its_slowest_call_are_found_at_once(
    days: Client, page_of: Any
) -> None:
    page = await page_of(days.url)
    await page.locator('[data-mark="all tools"]').click()
    await page.wait_for_url("**/tools")
    first = page.locator(".tools > li").first
    await expect(first.locator("h2")).to_have_text("track_parcel")
    slow = first.locator(".slow a").first
    run_id = (await slow.get_attribute("data-mark") or "").split()[1]
    calls = [
        (call["took_ms"], call["run_id"])
        for tool in (await days.by("oz").get("/api/tools"))[1]["tools"]
        for call in tool["slowest"]
    ]
    assert run_id == max(calls)[1]
    await slow.click()
    await page.wait_for_url(f"**/runs/{run_id}?*")
    await page.go_back()
    await page.get_by_role("link", name="Most calls").click()
    await page.wait_for_url("**/tools?sort=calls")
    order = page.locator('[data-mark="sort calls"]')
    await expect(order).to_have_attribute("aria-current", "true")
    counts = [
        number_in(await one.inner_text())
        for one in await page.locator(".tools [data-mark$=' calls']").all()
    ]
    assert counts == sorted(counts, reverse=True) and len(counts) == 3
    await page.keyboard.press("j")
    assert await page.evaluate("document.activeElement.dataset.mark.startsWith('tool ')")
    assert page.faults == []


async def test_a_link_to_a_slow_call_selects_it_in_the_run(tmp_path: Path, page_of: Any) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        await fill(app, 8)
        _, found = await client.by("oz").get("/api/tools?period=hour")
        call = next(tool["slowest"][0] for tool in found["tools"] if tool["slowest"])
        page = await page_of(f"{client.url}/tools?period=hour")
        await page.locator(f'[data-mark="slow {call["run_id"]} {call["call_id"]}"]').click()
        row = page.locator("button.row[aria-expanded=true]")
        await expect(row).to_contain_text(call["tool"])
        assert page.faults == []


async def test_the_runs_that_met_a_limit_are_found_at_once(days: Client, page_of: Any) -> None:
    page = await page_of(days.url)
    card = page.get_by_role("region", name="Limits of providers")
    await expect(card).to_contain_text("of 500 left")
    _, found = await days.by("oz").get("/api/overview")
    refused = [one for one in found["limits"] if one["refused"]]
    assert refused
    mark = card.locator(f'[data-mark="met {refused[0]["runs"][0]["run_id"]}"]')
    await mark.click()
    await page.wait_for_url(f"**/runs/{refused[0]['runs'][0]['run_id']}")


async def test_a_user_sees_no_limits_and_the_tools_of_the_own_runs_alone(
    days: Client, page_of: Any
) -> None:
    page = await page_of(days.url + "/tools", "ann")
    await expect(page.locator("main")).to_contain_text("No run that has ended")
    _, found = await days.by("ann").get("/api/overview")
    assert found["limits"] == []


@in_views(WIDE, PHONE)
async def test_the_tools_have_no_finding_of_axe_and_fit_the_screen(
    days: Client, page_of: Any, faults_of: Any, views: Views
) -> None:
    page = await page_of(f"{days.url}/tools")
    await page.locator(".tools > li").first.wait_for()
    for direction in ("ltr", "rtl"):
        await page.evaluate(f"document.documentElement.dir = '{direction}'")
        assert await faults_of(page, views, picture=f"tools-{direction}") == []


async def test_a_worker_is_drained_in_the_browser_and_leaves_the_list(
    tmp_path: Path, page_of: Any
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        page = await page_of(client.url, viewport=PHONE)
        await page.locator("main h1").wait_for()
        await page.keyboard.press("g")
        await page.keyboard.press("w")
        await page.wait_for_url("**/workers")
        card = page.locator(".workers > li")
        await expect(card).to_contain_text("working")
        await expect(card).to_contain_text("runs in hand")
        await expect(page.locator(".empty")).to_be_hidden()
        await page.get_by_role("button", name="Drain").press("Enter")
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("It finishes nothing, as it holds no run")
        await dialog.get_by_role("button", name="Drain").click()
        await expect(page.locator("#said")).to_contain_text("takes no more runs")
        await expect(card).to_have_count(0)
        await expect(page.locator(".empty")).to_contain_text("New runs stay queued")
        assert (await client.by("oz").get("/api/workers"))[1]["workers"] == []
        viewer = await page_of(client.url, "ann")
        await viewer.locator("main h1").wait_for()
        assert not await viewer.get_by_role("link", name="Workers").count()
        assert page.faults == []


@in_views(WIDE, PHONE)
async def test_the_workers_have_no_finding_of_axe_and_fit_the_screen(
    tmp_path: Path, page_of: Any, faults_of: Any, views: Views
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        journal: Any = await app.open()
        for n in range(3):
            await journal.claim(f"held-{n}")
        page = await page_of(f"{client.url}/workers")
        await page.locator(".workers > li").first.wait_for()
        for direction in ("ltr", "rtl"):
            await page.evaluate(f"document.documentElement.dir = '{direction}'")
            assert await faults_of(page, views, picture=f"workers-{direction}") == []
