"""The page of a run: what is seen first, its steps in detail, media, copies and notes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import Views, in_views, take_picture
from tests.browser_real.shop import fill, make_shop, work_off
from tests.serve.kit import Client, served
from tests.serve.run_agents import PNG, agents, run_of
from upshot import App, Message
from upshot.contract import Image, Text

# Sums up how far what was drawn has moved by itself.
MOVED = """window.moved = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) moved += one.value;
}).observe({ type: "layout-shift", buffered: true });"""
SIZES = [(1440, 900), (1200, 800), (390, 844)]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    """Agents whose runs have what the page shows, served."""
    app = App(agents(), journal=str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        yield app, client.by("oz")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[tuple[Client, list[str]]]:
    """A shop with a run of each scene, served."""
    app = make_shop(str(tmp_path / "shop.db"))
    async with served(app, rate=100_000) as client:
        yield client.by("oz"), await fill(app, 12)


async def test_why_effects_and_cost_are_above_the_fold(shop: Any, page_of: Any) -> None:
    client, made = shop
    page = await page_of("about:blank")
    for run_id in (made[4], made[8], made[9]):
        await page.goto(f"{client.url}/runs/{run_id}")
        await page.locator(".says p").wait_for()
        for width, height in SIZES:
            await page.set_viewport_size({"width": width, "height": height})
            for part in ("Why", "Effects", "Cost"):
                box = await page.get_by_role("region", name=part, exact=True).bounding_box()
                assert box and box["y"] + box["height"] <= height, (width, run_id, part, box)
            # The badge of the status stands clear of the title.
            line = await page.locator(".head .line > *").last.bounding_box()
            title = await page.locator(".head h1").bounding_box()
            assert line["y"] + line["height"] <= title["y"]


async def test_the_causes_lead_from_a_run_to_the_error_in_a_child_run(
    site: Any, page_of: Any
) -> None:
    app, client = site
    run_id = await run_of(app, "lead", "Do all.")
    page = await page_of(f"{client.url}/runs/{run_id}")
    chain = page.locator(".chain")
    await expect(chain).to_contain_text("leaf")
    assert [" ".join(one.split()) for one in await chain.locator("li").all_inner_texts()] == [
        "lead",
        "step 1: child run",
        "middle failed",
        "step 1: child run",
        "leaf failed",
        "step 1: model 1",
        "content filter",
    ]
    await chain.get_by_role("link", name="step 1: model 1").click()
    await expect(page.locator(".step.on")).to_contain_text("content_filter")
    await expect(page.locator(".says")).to_contain_text("the provider refused")


async def test_an_unknown_effect_says_what_to_do_and_who_settled_it(
    shop: Any, page_of: Any
) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[4]}")
    effects = page.get_by_role("region", name="Effects", exact=True)
    await expect(effects).to_contain_text("look whether it happened")
    await effects.get_by_role("button", name="send_mail").click()
    await expect(page.locator(".step.on")).to_contain_text("send_mail")
    await effects.get_by_role("link", name="Settle").click()
    await page.get_by_role("button", name="It happened").click()
    await page.get_by_role("dialog").get_by_role("button", name="It happened").click()
    await page.go_back()
    await expect(effects).to_contain_text("settled by oz")


async def test_the_steps_of_child_runs_open_inside_the_timeline(site: Any, page_of: Any) -> None:
    app, client = site
    page = await page_of(f"{client.url}/runs/{await run_of(app, 'lead', 'Do all.')}")
    row = page.locator(".timeline > .chunk > .step > button.row")
    await row.focus()
    await page.keyboard.press("ArrowRight")
    inner = page.locator(".nested .nested")
    await page.locator(".nested .twist").first.click()
    await expect(inner.locator("button.row")).to_have_text([re.compile("model 1")])
    await inner.locator("button.row").click()
    await page.get_by_role("button", name="What the model saw").click()
    await expect(page.locator(".raw")).to_contain_text("Say it.")
    await row.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator(".nested")).to_have_count(0)
    # The first failure opens the child run that failed.
    await page.keyboard.press("x")
    await expect(page.locator(".step.on .nested").first).to_be_visible()
    assert page.faults == []


async def test_the_timeline_is_zoomed_by_keys_buttons_and_wheel(shop: Any, page_of: Any) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[11]}")
    scale = page.locator(".row.heads .scale")
    bars = page.locator("button.row .bar")
    await bars.nth(3).wait_for()
    # A short step has the least width that a bar may have, also when it is zoomed.
    widths = await bars.evaluate_all("all => all.map(one => one.offsetWidth)")
    before = max(widths)
    at = widths.index(before)
    whole, bar = await scale.inner_text(), bars.nth(at)
    await page.locator("button.row").nth(at).click()
    for _ in range(4):
        await page.keyboard.press("+")
    await expect(scale).not_to_have_text(whole)
    await expect(bar).not_to_have_js_property("offsetWidth", before)
    assert await bar.evaluate("one => one.offsetWidth") > before
    # What is zoomed to stays in view.
    track, box = await page.locator(".track").nth(at).bounding_box(), await bar.bounding_box()
    assert track["x"] <= box["x"] + box["width"] and box["x"] <= track["x"] + track["width"]
    zoomed = await scale.inner_text()
    await page.keyboard.press("]")
    await expect(scale).not_to_have_text(zoomed)
    await page.keyboard.press("0")
    await expect(scale).to_have_text(whole.replace("\n", ""))
    await page.get_by_role("button", name="Zoom in").click()
    await expect(page.get_by_role("button", name="All", exact=True)).to_be_enabled()
    await page.get_by_role("button", name="All", exact=True).click()
    await page.locator(".track").nth(5).hover()
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -240)
    await page.keyboard.up("Control")
    await expect(scale).not_to_have_text(whole.replace("\n", ""))


async def test_the_address_of_a_step_shows_what_the_model_saw_there(
    site: Any, page_of: Any
) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is it?")
    page = await page_of(f"{client.url}/runs/{run_id}?step=3&input=1")
    saw = page.locator(".step.on .raw")
    await expect(saw).to_contain_text("2 messages of 3 new since the call before (step 1)")
    await expect(saw).to_contain_text("tools changed")
    await expect(saw.locator("li.fresh")).to_have_count(2)
    await expect(saw.locator("details", has_text="1 message as before")).to_have_count(1)
    await page.locator("button.row", has_text="model 1").click()
    await page.keyboard.press("i")
    await expect(saw).to_contain_text("it is the first call")
    await expect(saw).to_contain_text("1 tool offered, 1 withheld")
    assert page.url.endswith("?step=1&input=1")
    await page.keyboard.press("i")
    await expect(saw).to_have_count(0)
    assert page.url.endswith("?step=1")


async def test_the_input_shows_what_compaction_hid(site: Any, page_of: Any) -> None:
    app, client = site
    run_id = await run_of(app, "memo", "Please compact.")
    page = await page_of(f"{client.url}/runs/{run_id}")
    # The last row is drawn once the stream of the run has ended.
    await page.wait_for_load_state("networkidle")
    await page.locator("button.row.model").last.click()
    await page.keyboard.press("i")
    hidden = page.locator(".raw details", has_text="hidden by compaction")
    await hidden.locator("summary").first.click()
    await expect(hidden.locator("li").first).to_be_visible()
    await expect(page.locator(".raw")).to_contain_text("no longer sent")


async def test_json_is_a_table_and_long_text_is_folded_and_copied(site: Any, page_of: Any) -> None:
    app, client = site
    run_id = await run_of(app, "reader", "Read all.")
    page = await page_of(f"{client.url}/runs/{run_id}")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    table = page.locator(".message.tool", has_text="list_orders")
    await expect(table.locator("th")).to_have_text(["order", "customer", "paid"])
    await expect(table.locator("tbody tr")).to_have_count(50)
    await table.get_by_role("button", name="Show all").click()
    await table.get_by_role("button", name="10 more").click()
    await expect(table.locator("tbody tr")).to_have_count(60)
    await table.get_by_role("button", name="Copy output").click()
    await expect(page.locator("#said")).to_have_text("Output copied.")
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    assert len(copied) == 60 and copied[3]["customer"] == "בן"
    terms = page.locator(".message.tool", has_text="read_terms")
    await terms.get_by_role("button", name="Show all").last.click()
    await expect(terms).to_contain_text("No refunds on day 199.")
    assert page.faults == []


async def test_an_image_is_shown_from_this_site_and_what_is_elsewhere_is_not_fetched(
    site: Any, page_of: Any
) -> None:
    app, client = site
    parts = (
        Text("What is this?"),
        Image(data=PNG, media_type="image/png"),
        Image(url="https://evil.example/x.png"),
    )
    run_id = await run_of(app, "desk", Message("user", parts))
    asked: list[str] = []
    page = await page_of("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{client.url}/runs/{run_id}")
    image = page.locator(".message.user img")
    await expect(image).to_have_js_property("complete", True)
    assert await image.evaluate("one => one.naturalWidth") == 1
    await expect(page.locator(".message.user")).to_contain_text("evil.example")
    await page.locator("button.row.model").first.click()
    await page.keyboard.press("i")
    await expect(page.locator(".raw img")).to_have_js_property("naturalWidth", 1)
    assert all(url.startswith((client.url, "data:")) for url in asked)
    assert page.faults == []


async def test_a_thumb_a_label_and_a_comment_are_kept_and_ones_own_removed(
    site: Any, page_of: Any
) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is it?")
    await client.by("sam").post(f"/api/runs/{run_id}/note", {"name": "team", "value": "billing"})
    page = await page_of(f"{client.url}/runs/{run_id}")
    down = page.get_by_role("button", name="Bad run")
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "true")
    notes = page.locator("details.notes")
    await notes.locator("summary").click()
    await notes.get_by_label("Your comment").fill("Wrong <b>order</b>.")
    await notes.get_by_role("button", name="Comment").click()
    await expect(notes).to_contain_text("Wrong <b>order</b>.")
    await notes.get_by_label("Name of the note").fill("label")
    await notes.get_by_label("What it says").fill("refund")
    await notes.get_by_role("button", name="Keep").click()
    await expect(notes.locator("li")).to_have_count(4)
    assert "by oz" in await notes.locator("li", has_text="label").inner_text()
    await notes.get_by_role("button", name="Remove your note label").click()
    await expect(notes.locator("li")).to_have_count(3)
    # Another user's note stays.
    assert await notes.locator("li", has_text="team").get_by_role("button").count() == 0
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "false")


async def test_a_run_is_copied_as_a_case_with_its_command(site: Any, page_of: Any) -> None:
    app, client = site
    run_id = await run_of(app, "desk", "Where is it?")
    page = await page_of(f"{client.url}/runs/{run_id}")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.locator(".menu summary").click()
    await page.get_by_role("button", name="A case of a dataset").click()
    await expect(page.locator("#said")).to_have_text("Case copied.")
    assert json.loads(await page.evaluate("navigator.clipboard.readText()"))["run_id"] == run_id
    await expect(page.locator(".menu")).to_contain_text(
        f"upshot lab collect runs.jsonl --run {run_id}"
    )
    # The agents of this test are made in a function.
    await page.get_by_role("button", name="A test for pytest").click()
    await expect(page.locator(".menu .error")).to_contain_text("at the top of a module")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="A test for pytest")).to_be_hidden()


async def test_a_comparison_says_at_a_glance_what_changed(site: Any, page_of: Any) -> None:
    app, client = site
    one = await run_of(app, "desk", "Where is it?")
    other = await run_of(app, "memo", "Please compact.")
    page = await page_of(f"{client.url}/runs/{one}")
    await page.get_by_role("button", name="Compare …").click()
    await page.get_by_label("Id of the other run").fill(other)
    await page.keyboard.press("Enter")
    await expect(page.locator(".changes")).to_contain_text("Changed: ")
    first = page.locator(".lead.first")
    await expect(first).to_contain_text("The first 2 steps are the same. Then step 3, model 2")
    await expect(first).to_contain_text("had different outcomes: answer It is paid. in the first")
    await expect(page.locator("tr.changed th", has_text="request")).to_have_count(1)
    await expect(page.locator("tr.same th", has_text="status")).to_be_hidden()
    await expect(page.locator(".pairs .cell.none").first).to_be_visible()
    await page.locator(".pairs .changed a").first.click()
    await expect(page.locator(".step.on")).to_have_count(1)


async def test_a_comparison_shows_what_differs_and_the_rest_on_demand(
    shop: Any, page_of: Any
) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[0]}/compare/{made[5]}")
    first = page.locator(".lead.first")
    await expect(first).to_contain_text("They differ from the start: step 1, model 1 had diff")
    await expect(first.get_by_role("link")).to_have_count(2)
    # What is the same is shown on demand.
    await expect(page.locator("tr.same:visible")).to_have_count(0)
    await page.get_by_text("facts the same").click()
    await expect(page.locator("tr.same:visible").first).to_be_visible()
    await first.get_by_role("link").nth(1).click()
    await expect(page.locator(".step.on")).to_contain_text("model 1")
    await page.goto(f"{client.url}/runs/{made[0]}/compare/{made[0]}")
    await expect(page.locator(".lead.first")).to_have_text("They said and did the same.")
    await expect(page.locator(".facing:visible")).to_have_count(0)


async def test_from_any_step_i_opens_the_input_of_the_call_that_asked_for_it(
    shop: Any, page_of: Any
) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[5]}")
    # Without a choice, of the last call.
    await page.locator("button.row").nth(4).wait_for()
    await page.keyboard.press("i")
    saw = page.locator(".step.on .raw")
    await expect(saw).to_contain_text("Step 5, ")
    # Of a tool call that failed: of the reply that asked for it.
    await page.locator("button.row", has_text="find_order").first.click()
    button = page.get_by_role("button", name="What the model saw (step 1)")
    await expect(button).to_be_visible()
    await page.keyboard.press("i")
    await expect(saw).to_contain_text("it is the first call")
    await expect(page).to_have_url(re.compile(r"\?step=2&input=1$"))
    await page.reload()
    await expect(saw).to_contain_text("it is the first call")
    await page.keyboard.press("i")
    await expect(saw).to_have_count(0)
    # With the focus alone, too.
    await page.locator("button.row.tool").nth(1).click()
    await page.locator("button.row.tool").nth(1).click()
    await page.keyboard.press("i")
    await expect(saw).to_contain_text("Step 3, ")
    # A run without a model says so.
    await page.goto(f"{client.url}/runs/{made[10]}")
    await page.locator(".says p").wait_for()
    await page.keyboard.press("i")
    await expect(page.locator("#said")).to_contain_text("has asked no model")
    assert page.faults == []


async def test_a_costly_run_says_where_the_money_went(shop: Any, page_of: Any) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[11]}")
    where = page.locator(".verdict .where")
    await expect(where).to_contain_text(re.compile(r"It cost \d+ times the median of the \d+ lat"))
    await expect(where).to_contain_text(re.compile(r"Of \$0\.\d+, \$0\.\d+ to step \d+, model"))
    await expect(where).to_contain_text(" in, 40 out)")
    await page.goto(f"{client.url}/runs/{made[1]}")
    await page.locator(".says p").wait_for()
    await expect(where).to_be_hidden()
    # A run with child runs: what it cost with and without them.
    await page.goto(f"{client.url}/runs/{made[9]}")
    cost = page.get_by_role("region", name="Cost", exact=True)
    await expect(cost).to_contain_text(re.compile(r"\$0\.00 without child runs, \$0\.\d+ in 2 chi"))
    child = page.locator("button.row", has_text="child run").first
    await expect(child.locator(".num").last).to_have_text(re.compile(r"^\$0\.\d+$"))
    await child.click()
    await expect(page.locator(".step.on .detail")).to_contain_text(
        re.compile(r"tokens\s*[\d,]+ in")
    )


async def test_an_open_page_shows_what_others_do(shop: Any, page_of: Any) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[2]}")
    await expect(page.locator(".head .line")).to_contain_text("waits")
    notes = page.locator("details.notes")
    await notes.locator("summary").click()
    await notes.get_by_label("Your comment").fill("I am still wri")
    other = client.by("sam")
    note = {"name": "label", "value": "refund"}
    assert (await other.post(f"/api/runs/{made[2]}/note", note))[0] == 200
    await expect(notes.locator("li")).to_contain_text("refund")
    # What is being written stays, with the focus.
    comment = notes.get_by_label("Your comment")
    await expect(comment).to_have_value("I am still wri")
    await expect(comment).to_be_focused()
    assert (await other.post(f"/api/runs/{made[2]}/cancel"))[0] == 200
    await expect(page.locator(".head .line")).to_contain_text("canceled")
    # It has ended, and its stream with it.
    note = {"name": "label", "value": None}
    assert (await other.post(f"/api/runs/{made[2]}/note", note))[0] == 200
    await expect(notes.locator("li")).to_have_count(0)
    assert page.faults == []


async def test_the_keys_are_listed(shop: Any, page_of: Any) -> None:
    client, made = shop
    page = await page_of(f"{client.url}/runs/{made[0]}")
    await page.locator("button.row").first.wait_for()
    await page.keyboard.press("?")
    for text in ("first failed step", "what the model saw", "zoom the timeline"):
        await expect(page.get_by_role("dialog")).to_contain_text(text)


async def test_nothing_jumps_while_a_run_is_drawn(shop: Any, page_of: Any) -> None:
    client, made = shop
    page = await page_of("about:blank")
    await page.add_init_script(MOVED)
    for at in (0, 4, 8, 9):
        await page.goto(f"{client.url}/runs/{made[at]}")
        await page.locator(".notes summary").wait_for()
        await page.wait_for_load_state("networkidle")
        assert await page.evaluate("moved") < 0.05, at


async def test_nothing_jumps_while_a_run_is_live(tmp_path: Path, page_of: Any) -> None:
    app = App(agents(), journal=str(tmp_path / "runs.db"))
    async with served(app, work=False) as client:
        run = await app.submit("desk", "Where is it?")
        page = await page_of("about:blank")
        await page.add_init_script(MOVED)
        await page.goto(f"{client.url}/runs/{run.id}")
        await expect(page.locator(".says")).to_contain_text("no worker has claimed it")
        panes = await page.locator(".panes").bounding_box()
        await work_off(app)
        await expect(page.locator(".says")).to_contain_text("It completed")
        assert (await page.locator(".panes").bounding_box())["y"] == panes["y"]
        assert await page.evaluate("moved") < 0.05


async def test_right_to_left_text_runs_its_own_way_and_turns_nothing_else_round(
    site: Any, page_of: Any
) -> None:
    app, client = site
    run_id = await run_of(app, "reader", "\u05e9\u05dc\u05d5\u05dd, what is new?")
    page = await page_of(f"{client.url}/runs/{run_id}")
    title = page.locator("h1.request")
    assert await title.evaluate("one => getComputedStyle(one).direction") == "rtl"
    said = page.locator(".message.user p")
    assert await said.evaluate("one => getComputedStyle(one).unicodeBidi") == "plaintext"
    badge, id = page.locator(".head .badge"), page.locator(".head .id")
    assert (await badge.bounding_box())["x"] < (await id.bounding_box())["x"]


@in_views(*({"width": width, "height": height} for width, height in (SIZES[0], SIZES[-1])))
async def test_axe_finds_nothing_in_the_details(
    site: Any, page_of: Any, faults_of: Any, views: Views
) -> None:
    app, client = site
    lead, desk = await run_of(app, "lead", "Do all."), await run_of(app, "desk", "Where is it?")
    reader = await run_of(app, "reader", Message("user", (Text("Read."), Image(data=PNG))))
    page = await page_of(client.url)
    faults: list[str] = []
    for path in (
        f"/runs/{lead}",
        f"/runs/{desk}?step=3&input=1",
        f"/runs/{reader}",
        f"/runs/{desk}/compare/{reader}",
    ):
        await page.set_viewport_size(views[0][1])
        await page.goto(client.url + path)
        await page.locator("main:not([aria-busy]) h1").wait_for()
        if "compare" not in path:
            await page.locator("button.row").first.wait_for()
        if lead in path:
            await page.keyboard.press("x")
            await page.locator(".nested button.row").wait_for()
        if "input" in path:
            await page.locator(".raw .fresh").first.wait_for()
        faults += await faults_of(page, views[:1])
        if path == f"/runs/{reader}":
            await page.set_viewport_size(views[1][1])
            await page.get_by_role("button", name="Transcript").click()
        faults += await faults_of(page, views[1:])
    assert faults == []


@pytest.mark.skipif("UPSHOT_PICTURES" not in os.environ, reason="set UPSHOT_PICTURES")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pictures_of_the_details(site: Any, page_of: Any, scheme: str) -> None:
    app, client = site
    lead = await run_of(app, "lead", "Do all.")
    desk = await run_of(app, "desk", "Where is it?")
    memo = await run_of(app, "memo", "Please compact.")
    reader = await run_of(app, "reader", "\u05e9\u05dc\u05d5\u05dd, what is new?")
    for width, height in SIZES:
        view: Any = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
        pages = {
            "chain": f"/runs/{lead}",
            "input": f"/runs/{desk}?step=3&input=1",
            "table": f"/runs/{reader}",
            "compare": f"/runs/{desk}/compare/{memo}",
        }
        for name, path in pages.items():
            page = await page_of(client.url + path, **view)
            await page.wait_for_load_state("load")
            await page.locator("h1").wait_for()
            if name == "chain":
                await page.locator(".twist").first.click()
                await page.locator(".nested button.row").first.wait_for()
            await page.wait_for_timeout(300)
            await take_picture(page, f"run-{name}-{width}-{scheme}")
            await page.context.close()
