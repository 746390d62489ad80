"""The page of effects: what may have happened is found, looked at and settled, on a phone too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser_real.conftest import LAPTOP, PHONE
from tests.browser_real.shop import SCENES, fill, make_shop
from tests.serve.kit import served
from upshot import Agent, App, ScriptedModel, ToolCall, UnknownEffect, run, tool

on_each_screen = pytest.mark.parametrize(
    "size",
    [pytest.param(LAPTOP, id="laptop", marks=pytest.mark.slow), pytest.param(PHONE, id="phone")],
)
SAID = {"it happened": "applied", "it did not happen": "none"}


MAILED: dict[str, bool] = {}
"""What the post says of an order once somebody asks it, and nothing at first."""


def was_mailed(asked: UnknownEffect) -> bool | None:
    return MAILED.get(asked.arguments["order_id"])


@tool(effect="write", once="order_id", on_unknown="ask")
async def pay(order_id: str) -> str:
    """Pay an order."""
    raise TimeoutError("the bank did not answer")


@tool(effect="write", once="order_id", verify=was_mailed)
async def mail(order_id: str) -> str:
    """Tell of an order."""
    raise TimeoutError("the post did not answer")


async def make_doubts(app: App, count: int) -> None:
    """So many runs that wait, since nobody knows whether they paid, and as many that have ended."""
    journal = await app.open()
    for order in range(count):
        for used in (pay, mail):
            call = ToolCall("c", used.name, {"order_id": str(order)})
            agent = Agent("desk", model=ScriptedModel([call, "Done."]), tools=[pay, mail])
            await run(agent, f"Order {order}.", journal=journal)


async def settle(page: Any, card: Any, word: str, note: str) -> None:
    """Say on a card what happened, and in the dialog what was seen."""
    await card.get_by_role("button", name=word).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("What you saw").fill(note)
    await dialog.get_by_role("button", name=word).click()


@on_each_screen
async def test_a_person_settles_twenty_and_each_is_as_was_said(
    tmp_path: Path, page_of: Any, size: dict[str, int]
) -> None:
    agent = Agent("desk", model=ScriptedModel(["Done."] * 10), tools=[pay, mail])
    where = str(tmp_path / "runs.db")
    said = dict[str, str]()
    app = App([agent], journal=where)
    async with served(app, rate=100_000) as client:
        await make_doubts(app, 10)
        page = await page_of(client.url + "/inbox", viewport=size)
        # Another one is about to say otherwise of the first, and is too late.
        late = await page_of(client.url + "/inbox", "sam", viewport=size)
        other = late.get_by_role("article", name="Did this happen? pay(order_id 0)")
        await other.get_by_role("button", name="It did not happen").click()
        await late.get_by_role("dialog").wait_for()
        for order in range(10):
            title = f"Did this happen? pay(order_id {order})"
            ask = page.get_by_role("article", name=title)
            await expect(ask).to_contain_text("the bank did not answer")
            word = "it did not happen" if order % 3 else "it happened"
            await settle(page, ask, word, f"re_{order}")
            await expect(ask).to_contain_text(f"Settled: {word}.")
            said[f"pay {order}"] = SAID[word]
        dialog = late.get_by_role("dialog")
        await dialog.get_by_role("button", name="It did not happen").click()
        await expect(other).to_contain_text("oz")
        await expect(other).to_contain_text("it happened")
        await late.close()
        await page.goto(client.url + "/effects?state=unknown")
        for order in range(10):
            title = f'mail {{"order_id":"{order}"}}: did this happen?'
            doubt = page.get_by_role("article", name=title)
            word = "it happened" if order % 2 else "it did not happen"
            await settle(page, doubt, word, f"mail {order}")
            await expect(doubt).to_have_count(0)
            said[f"mail {order}"] = SAID[word]
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        assert page.faults == []
        known = {
            f"{one.name} {json.loads(one.key)['order_id']}": one.state
            for one in await app.effects()
        }
        assert known == said
        settled = [one.settled for one in await app.effects() if one.settled]
        assert {one.by for one in settled} == {"oz"}
        assert {f"re_{n}" for n in range(10)} < {one.note for one in settled}
        # The page of a run that ended before that says what became known since.
        (mailed, *_) = await app.effects(tool="mail")
        await page.goto(f"{client.url}/runs/{mailed.run_id}")
        await expect(page.get_by_text("settled by oz")).to_be_visible()


async def test_check_now_asks_the_tool_and_shows_what_came_of_it(
    tmp_path: Path, page_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent("desk", model=ScriptedModel([]), tools=[pay, mail])
    app = App([agent], journal=str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        await make_doubts(app, 1)
        page = await page_of(client.url + "/inbox")
        ask = page.get_by_role("article", name="Did this happen? pay(order_id 0)")
        await ask.get_by_role("button", name="Check now").click()
        await expect(ask).to_contain_text("No tool of the App has a verify for it.")
        await page.goto(client.url + "/effects")
        doubt = page.get_by_role("article", name='mail {"order_id":"0"}: did this happen?')
        await doubt.get_by_role("button", name="Check now").click()
        await expect(doubt).to_contain_text("verify does not know.")
        monkeypatch.setitem(MAILED, "0", True)
        await doubt.get_by_role("button", name="Check now").click()
        done = page.get_by_role("listitem").filter(has_text="mail")
        await expect(done).to_contain_text("settled by verify")
        assert page.faults == []


@on_each_screen
async def test_a_person_settles_an_effect_and_the_first_answer_counts(
    tmp_path: Path, page_of: Any, size: dict[str, int]
) -> None:
    app = make_shop(str(tmp_path / "runs.db"))
    async with served(app, rate=100_000) as client:
        await fill(app, len(SCENES))
        page = await page_of(client.url + "/runs", viewport=size)
        await page.keyboard.type("ge")
        doubt = page.get_by_role("article", name="send_mail: did this happen?")
        await expect(doubt).to_contain_text("unknown for")
        await expect(doubt).to_contain_text("did not finish within 0.02 s")
        late = await page_of(client.url + "/effects", "sam", viewport=size)
        await late.get_by_role("article").wait_for()
        await page.keyboard.press("j")
        await expect(doubt).to_be_focused()
        await page.keyboard.press("Tab")
        while await page.evaluate("document.activeElement.textContent") != "It happened":
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.keyboard.type("in the folder of sent mails")
        await page.keyboard.press("Enter")
        await expect(doubt).to_have_count(0)
        done = page.get_by_role("listitem").filter(has_text="send_mail")
        await expect(done).to_contain_text("settled by oz")
        await expect(done).to_contain_text("in the folder of sent mails")
        (known,) = await app.effects(tool="send_mail")
        assert known.state == "applied" and known.settled and known.settled.by == "oz"
        await late.get_by_role("button", name="It did not happen").click()
        asks = late.get_by_role("dialog")
        await asks.get_by_role("button", name="It did not happen").click()
        await expect(late.locator("#said")).to_contain_text("oz was first: it happened")
        await late.close()
        await page.goto(client.url + "/effects?state=unknown")
        await expect(page.get_by_text("No effect matches.")).to_be_visible()
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
        assert page.faults == []
