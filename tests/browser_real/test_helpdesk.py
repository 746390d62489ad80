"""The customer's chat page of the help desk, beside staff and a server that is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from playwright.async_api import expect

from tests.browser_real.conftest import take_picture
from tests.examples.desk_server import DeskServer

DONE = "It is done: order 1043 is cancelled. Is there anything else?"
PAID = "It is done: your money was paid back. Is there anything else?"


async def say(page: Any, text: str) -> None:
    await page.get_by_label("Your message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def texts(page: Any) -> list[str]:
    return await page.locator(".text").all_inner_texts()


async def test_a_customer_cancels_in_place_and_a_reload_loses_nothing(
    tmp_path: Path, page_of: Any
) -> None:
    with DeskServer(tmp_path) as server:
        server.start()
        page = await page_of(server.url + "/as/ada")
        await say(page, "Please cancel order 1043.")
        await expect(page.get_by_text("needs your word")).to_be_visible()
        # The question is there again, and is answered once.
        await page.reload()
        await page.get_by_role("button", name="Yes, do it").click()
        await expect(page.locator(".text").last).to_contain_text("It is done")
        # In the middle of the answer, or at its end.
        await page.reload()
        await expect(page.get_by_text(DONE)).to_be_visible()
        assert await texts(page) == ["Please cancel order 1043.", DONE]
        await expect(page.locator("#orders")).to_contain_text("9.99 €, cancelled")
        assert page.faults == []


async def test_the_page_goes_on_by_itself_when_the_server_was_killed(
    tmp_path: Path, page_of: Any
) -> None:
    with DeskServer(tmp_path) as server:
        server.start(0, 60)
        page = await page_of(server.url + "/as/ada", viewport={"width": 390, "height": 760})
        await say(page, "I want my money back for order 1041.")
        await expect(page.get_by_text("A colleague is looking at this.")).to_be_visible()
        await take_picture(page, "helpdesk-phone")
        staff = await page_of(server.url + "/as/sam")
        await staff.get_by_role("button", name="Approve").first.click()
        async with asyncio.timeout(60):
            while not server.refunds():
                await asyncio.sleep(0.02)
        server.kill()
        await expect(page.get_by_text("The line is lost.")).to_be_visible()
        server.start(0, 0)
        # Nobody knows whether the bank has paid, so staff look at it, and the run goes on.
        asked = staff.get_by_role("article", name="Did this happen? refund(number 1041)")
        await asked.get_by_role("button", name="It happened").click()
        dialog = staff.get_by_role("dialog")
        await dialog.get_by_label("What you saw").fill("it is in the list of the bank")
        await dialog.get_by_role("button", name="It happened").click()
        await expect(page.get_by_text(PAID)).to_be_visible()
        assert await texts(page) == ["I want my money back for order 1041.", PAID]
        assert server.refunds() == [1041]
        assert page.faults == []
        await page.set_viewport_size({"width": 1100, "height": 560})
        await take_picture(page, "helpdesk")
