"""Pydantic AI behind upshot's guard."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.effects.desks import pydantic_ai
from bench.effects.desks.upshot_agents import tool_of
from bench.effects.play import Play
from upshot import Ledger
from upshot.guard import guard

PACKAGES = ("upshot-agents", "pydantic-ai-slim")


def tools_of(refund: Callable[..., Any], folder: Path, session: str, *, asks: bool) -> list[Any]:
    """The tools of the agent, as the guard makes them."""
    tool = tool_of(refund).but(approval=asks)
    return guard([tool], journal=folder / "effects.db", run_id=session).for_pydantic_ai()


talk = functools.partial(pydantic_ai.talk, tools=tools_of)
resume = functools.partial(pydantic_ai.resume, tools=tools_of)
fork = functools.partial(pydantic_ai.fork, tools=tools_of)
edit = functools.partial(pydantic_ai.edit, tools=tools_of)


def function(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """The plain function, which is the same effect."""
    ledger = Ledger(folder / "effects.db")
    (one,) = play.next()
    play.read(one.id, ledger.once("order_id")(refund)(**one.arguments))
    asyncio.run(ledger.aclose())
