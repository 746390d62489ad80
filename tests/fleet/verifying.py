"""``python -m tests.fleet.verifying WHERE BANK``: a worker whose run pays, and waits for ever."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from upshot import Agent, App, ScriptedModel, ToolCall, UnknownEffect, tool
from upshot.fleet.worker import Worker

__all__ = ["make"]


def make(where: Any, bank: Path) -> App:
    """An agent that pays an order; *bank* is a file with a line for each that was paid."""

    def was_paid(asked: UnknownEffect) -> bool:
        return str(asked.arguments["order_id"]) in bank.read_text().split()

    @tool(effect="write", once="order_id", verify=was_paid)
    async def pay(order_id: str) -> str:
        if order_id.startswith("paid"):
            with bank.open("a") as lines:
                lines.write(f"{order_id}\n")
        print("under way", flush=True)
        return await asyncio.Event().wait() and ""

    agents = [
        Agent[Any](order, model=ScriptedModel([call, "Done."]), tools=[pay])
        for order in ("paid", "unpaid")
        if (call := ToolCall("c", "pay", {"order_id": f"{order} order".replace(" ", "-")}))
    ]
    return App(agents, journal=where)


async def main(where: str, bank: str) -> None:
    """Work, until the end of the process."""
    async with make(where, Path(bank)) as app:
        await Worker(app).work()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
