"""``python -m tests.fleet.chaining WHERE EFFECTS DIE_AT``: works on what is due, until it dies.

It kills itself when it is about to append an event or take a run for the DIE_AT-th time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from upshot import Agent, App, Handoff, ScriptedModel, ToolCall, tool

__all__ = ["make", "work"]


def _over(to: str) -> ToolCall:
    return ToolCall(f"to-{to}", f"transfer_to_{to}", {"reason": f"for {to}"})


def make(where: Any, effects: str) -> App:
    """Three agents, of which the first two hand over; the second one pays, a line in *effects*."""

    @tool(effect="write")
    async def pay(order: int) -> str:
        """Pay."""
        with open(effects, "a") as file:
            file.write(f"pay {order}\n")
        return "paid"

    paying = [ToolCall("p", "pay", {"order": 7})]
    desk = Agent[Any]("desk", model=ScriptedModel([_over("till")]), handoffs=[Handoff("till")])
    till = Agent[Any](
        "till",
        model=ScriptedModel([paying, _over("clerk")]),
        tools=[pay],
        handoffs=[Handoff("clerk")],
    )
    clerk = Agent[Any]("clerk", model=ScriptedModel(["Done."]))
    return App([desk, till, clerk], journal=where)


async def work(app: App) -> None:
    """Work on what is due, one run after the other."""
    while due := await app.due():
        await app.activate(due[0].run_id)


async def main(where: str, effects: str, die_at: str) -> None:
    """Work, and die on the way."""
    async with make(where, effects) as app:
        journal: Any = await app.open()
        left = int(die_at)

        def dying(step: Any) -> Any:
            def done(*given: Any, **more: Any) -> Any:
                nonlocal left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step(*given, **more)

            return done

        for name in ("append", "claim_free", "claim_turn"):
            setattr(journal, name, dying(getattr(journal, name)))
        await work(app)
        print(int(die_at) - left)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
