"""Signing in at an OpenID provider that others wrote, in a real browser, at real servers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

pytest.importorskip("playwright", reason="make protocols installs playwright")

from playwright.async_api import expect

from tests.browser_real.conftest import page_of, take_picture
from tests.protocols_real.node import NODE, PACKAGES, needs_node

__all__ = ["page_of"]

pytestmark = needs_node
HERE = Path(__file__).parent
PHONE = {"width": 390, "height": 780}
DESK = """
from upshot import Agent, App, ScriptedModel

app = App([Agent("desk", model=ScriptedModel(["Done."] * 99))])
"""


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        return one.getsockname()[1]


class World:
    """A provider, and servers that trust it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = [free_port(), free_port()]
        self.sites = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.provider_port = free_port()
        self.provider: Any = None
        self.servers: dict[int, Any] = {}
        (folder / "desk.py").write_text(DESK)

    async def start_provider(self) -> None:
        """Start the provider, each time with another key."""
        self.provider = await asyncio.create_subprocess_exec(
            NODE,
            str(HERE / "sign_in_provider.mjs"),
            str(PACKAGES),
            str(self.provider_port),
            *self.sites,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
        )
        await self.provider.stdout.readline()
        for account in ("ann ops", "ben readers", "cid strangers"):
            await self.set_groups(account)

    async def set_groups(self, line: str) -> None:
        self.provider.stdin.write(f"{line}\n".encode())
        assert (await self.provider.stdout.readline()) == b"ok\n"

    async def start(self, at: int, **changed: str) -> None:
        """Start a server; *changed* are options in place of the usual ones."""
        given = {
            "--oidc": f"http://127.0.0.1:{self.provider_port}",
            "--client-id": "console",
            "--port": str(self.ports[at]),
            "--journal": "runs.db",
            **changed,
        }
        words = [word for pair in given.items() for word in pair]
        for role in ("operate=ops", "view=ops", "audit=ops", "view=readers"):
            words += ["--role", role]
        self.servers[at] = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "upshot", "serve", "desk.py", *words),
            cwd=self.folder,
            stderr=PIPE,
            env={**os.environ, "UPSHOT_OIDC_SECRET": "of-the-console"},
        )
        while not (await self.servers[at].stderr.readline()).startswith(b"http"):
            assert self.servers[at].returncode is None

    async def stop(self, at: int, number: int = signal.SIGTERM) -> None:
        self.servers[at].send_signal(number)
        await self.servers[at].wait()

    async def aclose(self) -> None:
        for process in (self.provider, *self.servers.values()):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[World]:
    world = World(folder)
    try:
        await world.start_provider()
        await world.start(0)
        yield world
    finally:
        await world.aclose()


async def sign_in(page: Any, name: str) -> None:
    """From the page without a user through the provider, and back."""
    await expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
    await page.get_by_role("link", name="Sign in").click()
    await pass_provider(page, name)


async def pass_provider(page: Any, name: str) -> None:
    await page.locator("input[name=login]").fill(name)
    await page.locator("input[name=password]").fill("any")
    await page.locator("button[type=submit]").click()
    # It asks for consent.
    await page.locator("button[type=submit]").click()


async def test_people_sign_in_with_their_roles_and_out_again(tmp_path: Path, page_of: Any) -> None:
    async with opened(tmp_path) as world:
        page = await page_of(f"{world.sites[0]}/effects?state=unknown", "")
        await sign_in(page, "ann")
        # Back at the page that was asked for.
        await expect(page.get_by_role("heading", name="Effects")).to_be_visible()
        await expect(page).to_have_url(f"{world.sites[0]}/effects?state=unknown")
        await expect(page.locator("header .who")).to_have_text("ann")
        [cookie] = [one for one in await page.context.cookies() if one["name"] == "upshot-session"]
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        await page.get_by_role("link", name="Audit").click()
        await expect(page.locator("ul.audit li").first).to_contain_text("sign in")
        await page.get_by_role("button", name="Sign out").click()
        # The provider asks, and sends the browser back.
        await page.locator("button[value=yes]").click()
        await expect(page.get_by_role("heading", name="You are not signed in")).to_be_visible()
        # The provider is signed out too: it asks for the name again.
        await page.get_by_role("link", name="Sign in").click()
        await pass_provider(page, "cid")
        await expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
        await expect(page.locator("main")).to_contain_text("The account cid is known, but has no")
        assert page.faults == []


async def test_an_operator_ends_a_session_whose_page_is_open(tmp_path: Path, page_of: Any) -> None:
    axe = Path(sys.prefix).with_name(".venv-browser") / "node/node_modules/axe-core/axe.min.js"
    async with opened(tmp_path) as world:
        await world.start(1)
        ben = await page_of(world.sites[1], "")
        await sign_in(ben, "ben")
        await expect(ben.locator("header .who")).to_have_text("ben")
        await expect(ben.get_by_role("link", name="Audit")).to_have_count(0)
        ann = await page_of(f"{world.sites[0]}/sessions", "", viewport=PHONE)
        await sign_in(ann, "ann")
        lines = ann.locator("ul.effects li")
        await expect(lines).to_have_count(2)
        await expect(ann.locator("li", has_text="this browser")).to_contain_text("ann")
        await expect(ann.get_by_role("button", name="Sign out")).to_be_visible()
        await expect(ann.locator("header .who")).to_be_visible()
        await take_picture(ann, "sessions-phone")
        assert await ann.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        if axe.is_file():
            await ann.evaluate(axe.read_text())
            assert (await ann.evaluate("axe.run()"))["violations"] == []
        # By the keyboard.
        await ann.get_by_role("button", name="End this session of ben").focus()
        await ann.keyboard.press("Enter")
        await ann.get_by_role("dialog").get_by_role("button", name="End it").press("Enter")
        await expect(lines).to_have_count(1)
        # His page, at another server, says so by itself.
        await expect(ben.get_by_role("heading", name="You are not signed in")).to_be_visible()
        # Signing out at the provider ends hers without her browser: by its back channel.
        other = await ann.context.new_page()
        await other.goto(f"http://127.0.0.1:{world.provider_port}/session/end")
        await other.locator("button[value=yes]").click()
        await expect(ann.get_by_role("heading", name="You are not signed in")).to_be_visible()


async def test_a_session_outlives_a_kill_and_a_new_key_and_serves_two_servers(
    tmp_path: Path, page_of: Any
) -> None:
    async with opened(tmp_path) as world:
        await world.start(1)
        page = await page_of(f"{world.sites[0]}/runs", "")
        await sign_in(page, "ann")
        await expect(page.locator("header .who")).to_have_text("ann")
        # Cookies do not tell ports apart: the other server reads the session from the journal.
        await page.goto(f"{world.sites[1]}/runs")
        await expect(page.locator("header .who")).to_have_text("ann")
        await world.stop(0, signal.SIGKILL)
        await world.start(0)
        await page.goto(f"{world.sites[0]}/runs")
        await expect(page.locator("header .who")).to_have_text("ann")
        # The provider comes back with another key: the session stays, and a new one is made.
        world.provider.kill()
        await world.provider.wait()
        await world.start_provider()
        await page.reload()
        await expect(page.locator("header .who")).to_have_text("ann")
        other = await page_of(f"{world.sites[0]}/runs", "")
        await sign_in(other, "ben")
        await expect(other.locator("header .who")).to_have_text("ben")


async def test_a_server_of_another_client_is_refused(tmp_path: Path, page_of: Any) -> None:
    async with opened(tmp_path) as world:
        await world.start(1, **{"--client-id": "another"})
        page = await page_of(f"{world.sites[1]}/sign-in", "")
        await expect(page.locator("body")).to_contain_text("client is invalid")
