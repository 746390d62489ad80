"""``useChat`` of the AI SDK in a page, in a real browser; the site is mounted beside the page."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="make protocols installs playwright")

from playwright.async_api import expect
from starlette.applications import Starlette
from starlette.responses import FileResponse, HTMLResponse
from starlette.routing import Mount, Route

from tests.browser_real.conftest import page_of
from tests.protocols_real.desk import make_desk
from tests.protocols_real.node import NODE, PACKAGES, needs_node
from tests.serve.kit import Client, listening, who

__all__ = ["page_of"]

pytestmark = needs_node
HERE = Path(__file__).parent
PAGE = '<!doctype html><title>Chat</title><body><script type="module" src="/page.js"></script>'


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's script with the packages in it."""
    made = tmp_path_factory.mktemp("page") / "page.js"
    command = [str(PACKAGES / "esbuild" / "bin" / "esbuild"), str(HERE / "chat_page.jsx")]
    options = ["--bundle", "--format=esm", "--jsx=automatic", "--log-level=error"]
    environment = {"NODE_PATH": str(PACKAGES), "PATH": str(Path(NODE).parent)}
    subprocess.run([*command, *options, f"--outfile={made}"], check=True, env=environment)
    return made


@asynccontextmanager
async def opened(
    bundle: Path, page_of: Callable[..., Awaitable[Any]], agent: str = "desk"
) -> AsyncGenerator[tuple[Any, Client]]:
    """A page that talks with an agent, and a client of staff."""
    site: Any = make_desk().asgi(user=who)
    outer = Starlette(
        routes=[
            Route("/", lambda _: HTMLResponse(PAGE)),
            Route("/page.js", lambda _: FileResponse(bundle)),
            Mount("/site", site),
        ],
        lifespan=lambda _: site.router.lifespan_context(site),
    )
    async with listening(outer) as client:
        page = await page_of(f"{client.url}/#/{agent}/chat-1", "cal")
        await expect(page.locator("output")).to_have_text("ready")
        staff = client.by("oz")
        staff.url = f"{client.url}/site"
        yield page, staff
        assert page.faults == []


async def say(page: Any, text: str) -> None:
    await page.locator("input").fill(text)
    await page.locator("input").press("Enter")


async def sees(page: Any, *texts: str) -> None:
    """Wait until the last answer is these texts, and the page is ready."""
    await expect(page.locator("article.assistant").last.locator("p, code")).to_have_text([*texts])
    await expect(page.locator("output")).to_have_text("ready")
    await expect(page.locator("em")).to_have_count(0)


async def test_a_page_talks_and_has_an_answer_again(bundle: Path, page_of: Any) -> None:
    async with opened(bundle, page_of) as (page, _):
        await say(page, "Hello")
        await sees(page, "You said Hello")
        await say(page, "Look")
        await sees(page, "tool-lookup output-available", "Order 7 is on its way.")
        await page.get_by_text("Again").click()
        await sees(page, "tool-lookup output-available", "Order 7 is on its way.")
        await page.reload()
        await sees(page, "tool-lookup output-available", "Order 7 is on its way.")


@pytest.mark.parametrize(
    ("button", "state"), [("Approve", "output-available"), ("Deny", "output-denied")]
)
async def test_a_page_is_asked_and_answers_after_a_reload(
    bundle: Path, page_of: Any, button: str, state: str
) -> None:
    async with opened(bundle, page_of) as (page, _):
        await say(page, "Pay")
        await sees(page, "tool-pay approval-requested")
        await page.reload()
        await sees(page, "tool-pay approval-requested")
        await page.get_by_text(button).click()
        await sees(page, f"tool-pay {state}", "That is settled.")
        await page.reload()
        await sees(page, f"tool-pay {state}", "That is settled.")
        await expect(page.locator("article")).to_have_count(2)


async def test_a_page_answers_a_question(bundle: Path, page_of: Any) -> None:
    async with opened(bundle, page_of, "tailor") as (page, _):
        await say(page, "A shirt, please.")
        await sees(page, "tool-ask_user input-available")
        await page.get_by_role("button", name="M", exact=True).click()
        await sees(page, "tool-ask_user output-available", "Size M.")


async def test_a_page_that_waits_for_staff_goes_on_after_a_reload(
    bundle: Path, page_of: Any
) -> None:
    async with opened(bundle, page_of) as (page, staff):
        await say(page, "Refund")
        await expect(page.locator("output")).to_have_text("waits")
        assert "refund" not in (await page.content()).replace("Refund", "")
        await page.reload()
        await expect(page.locator("output")).to_have_text("waits")
        (item,) = (await staff.get("/api/inbox"))[1]["items"]
        answer = {"kind": "approve", "call_id": "c00", "digest": item["pending"]["digest"]}
        path = f"/api/runs/{item['run_id']}/answer"
        assert (await staff.post(path, {"answers": [answer]}))[0] == 200
        await sees(page, "Staff has looked at it.")
        await expect(page.locator("article")).to_have_count(2)
