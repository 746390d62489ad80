"""``python -m tests.fleet.notifying WHERE URL`` tells what waits in a journal, until its end."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from upshot import Agent, App, ScriptedModel, ToolCall, tool
from upshot.fleet.notifier import Notifier

__all__ = ["KEY", "TIMEOUT_S", "make"]

KEY = "whsec_MTIzNDU2Nzg="
TIMEOUT_S = 0.4


@tool(effect="write", approval=True)
def send(to: str) -> str:
    """Send."""
    return "sent"


def make(where: Any) -> App:
    """An agent that asks whether to send two letters."""
    calls = [ToolCall("a", "send", {"to": "ann"}), ToolCall("b", "send", {"to": "bob"})]
    agent = Agent[Any]("sender", model=ScriptedModel([calls, "Sent."]), tools=[send])
    return App([agent], journal=where)


async def main(where: str, url: str) -> None:
    """Tell, until the end of the process."""
    async with make(where) as app:
        await Notifier(app, url, key=KEY, timeout_s=TIMEOUT_S).work()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
