"""Agents that wait for their user or for staff, and the site that the tests of doors use."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import upshot
from upshot import Agent, App, Board, Run, RunHost, ScriptedModel, ScriptEngine, ToolCall
from upshot.contract.user import User
from upshot.journal.shared import needs_shared
from upshot.journal.watching import of_run, watch
from upshot.serve.site import Site, working

__all__ = ["ANN", "BOB", "STAFF", "agents", "opened", "stop_placed"]

ANN, BOB = User("ann"), User("bob")
STAFF = User("sam", roles=("owner",))


@upshot.tool(effect="write", approval=True, ask="user")
def pay(order: int) -> str:
    """Pay an order."""
    return f"paid {order}"


@upshot.tool(effect="destructive", approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


@upshot.tool(effect="write", once="order", ask="user", on_unknown="ask")
def wire(order: int) -> str:
    """Wire the money for an order."""
    raise TimeoutError("the bank did not answer")


async def _ask(run: Run, host: RunHost, board: Board) -> str:
    size = await host.ask_user("Which size?", choices=("S", "M"), key="size")
    return f"Size {size}."


def agents() -> list[Agent[Any]]:
    """One that answers, and others that wait: for their user, for staff, and with questions."""
    paid = [ToolCall("p", "pay", {"order": 1}), "Paid."]
    wired = [ToolCall("w", "wire", {"order": 1}), "Wired."]
    back = [ToolCall("r", "refund", {"order": 1}), "Refunded."]
    return [
        Agent("echo", model=ScriptedModel(lambda messages: f"You said {messages[-1].text}")),
        Agent("payer", model=ScriptedModel(paid * 9), tools=[pay]),
        Agent("clerk", model=ScriptedModel(back * 9), tools=[refund]),
        Agent("wirer", model=ScriptedModel([*wired, *wired]), tools=[wire]),
        Agent("tailor", engine=ScriptEngine(_ask)),
    ]


@asynccontextmanager
async def opened(*more: Agent[Any], journal: Any = "memory:") -> AsyncGenerator[Site]:
    """A site whose runs are worked on; who asks says so in a header."""
    app = App([*agents(), *more], journal=journal)
    site = Site(app, user=lambda request: {"ann": ANN, "bob": BOB}.get(request.headers["who"]))
    async with app, working(app):
        yield site


async def stop_placed(site: Site, run_id: str) -> None:
    """Wait until somebody has wished that a run stop."""
    journal = needs_shared(await site.app.open())
    with watch(journal, of_run(run_id)) as changes:
        while not await journal.stops([run_id]):
            await changes.changed()
