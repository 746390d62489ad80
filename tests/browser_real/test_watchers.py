"""Two hundred who watch one run over HTTP, and a browser among them."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import expect

from tests.browser_real.shop_process import ShopProcess
from tests.serve.kit import Client

MANY = 200


def cpu_s(pid: int) -> float:
    """The seconds of CPU that a process has used, of its own and of the system; proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
async def test_two_hundred_watchers_of_a_run_and_a_browser_all_see_its_end(
    tmp_path: Path, page_of: Any
) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        shop = ShopProcess(tmp_path, session)
        await shop.begin()
        try:
            client = Client(session, shop.url, "oz")
            request = {"agent": "clerk", "text": "Ask the carrier about order 1."}
            _, made = await client.post("/api/runs", request)
            run = made["run_id"]
            page = await page_of(f"{shop.url}/runs/{run}")
            await page.locator("button.row.tool", has_text="ask_carrier").wait_for()
            came: asyncio.Queue[None] = asyncio.Queue()

            async def watch() -> tuple[float, dict[str, Any], set[int], dict[int, str]]:
                """How late the end came, the last head, and all rows and messages."""
                head: dict[str, Any] = {}
                rows: set[int] = set()
                said: dict[int, str] = {}
                late_s = 0.0
                url = f"{shop.url}/api/runs/{run}/view"
                async with session.get(url, headers=client.headers) as reply:
                    async for line in reply.content:
                        if not line.startswith(b"data: {"):
                            continue
                        part = json.loads(line[6:])
                        if not head:
                            came.put_nowait(None)
                        head = part.get("head") or head
                        rows |= {row["id"] for row in part.get("rows", ())}
                        said |= {one["id"]: one.get("text", "") for one in part.get("messages", ())}
                        if part and head.get("has_ended"):
                            ended_at = datetime.fromisoformat(head["updated_at"])
                            late_s = (datetime.now(UTC) - ended_at).total_seconds()
                return late_s, head, rows, said

            before = cpu_s(shop.process.pid)
            watching = [asyncio.create_task(watch()) for _ in range(MANY)]
            for _ in watching:
                await came.get()
            joined = cpu_s(shop.process.pid)
            shop.gate.touch()
            seen = await asyncio.gather(*watching)
            told = cpu_s(shop.process.pid)
            await expect(page.locator(".head .badge", has_text="completed")).to_be_visible()
            late = sorted(late_s for late_s, *_ in seen)
            print(
                f"\n{MANY} watchers: {joined - before:.2f} s of CPU to join, {told - joined:.2f} s"
                f" for the end; it came after {1000 * late[MANY // 2]:.0f} ms (median),"
                f" {1000 * late[-1]:.0f} ms (last)"
            )
            _, view = await client.get(f"/api/runs/{run}")
            rows = {row["id"] for row in view["rows"]}
            said = {one["id"]: one.get("text", "") for one in view["messages"]}
            for _, head, its_rows, its_said in seen:
                assert head["status"] == "completed"
                assert (its_rows, its_said) == (rows, said)
            await expect(page.locator(".transcript")).to_contain_text("The carrier has it.")
            assert page.faults == []
        finally:
            await shop.end()
