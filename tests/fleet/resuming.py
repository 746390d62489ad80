"""``python -m tests.fleet.resuming``: works on a run, and is killed at an event where asked.

It says "ready", waits for a line, works, and says what came of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import upshot
from upshot import (
    Agent,
    Approve,
    JournalError,
    Misuse,
    Request,
    ScriptedModel,
    ToolCall,
)

__all__ = ["RUN", "make"]

RUN = "r"
_ELSEWHERE = ("process", "epoch", "already", "has ended")


def make(effects: str) -> Agent[Any]:
    """An agent that looks, pays twice and signs; what it does is a line in the file *effects*."""

    def note(line: str) -> None:
        with open(effects, "a") as file:
            file.write(f"{line}\n")

    @upshot.tool(effect="read")
    async def look(at: str) -> str:
        """Look."""
        return f"{at} is fine"

    @upshot.tool(effect="write")
    async def pay(order: int) -> str:
        """Pay."""
        note(f"pay {order}")
        return "paid"

    @upshot.tool(effect="destructive", approval=True)
    async def sign(order: int) -> str:
        """Sign."""
        note(f"sign {order}")
        return "signed"

    script = [
        [ToolCall("l", "look", {"at": "till"}), ToolCall("p1", "pay", {"order": 1})],
        ToolCall("p2", "pay", {"order": 2}),
        ToolCall("s", "sign", {"order": 3}),
        "Done.",
    ]
    return Agent("till", model=ScriptedModel(script), tools=[look, pay, sign])


async def _live(log: Any, agent: Agent[Any], run_id: str) -> Any:
    if await log.runs(run_id=run_id):
        return upshot.reopen(run_id, agent, journal=log)
    return upshot.start(agent, Request("Go.", run_id=run_id), journal=log)


async def work(where: str, effects: str, run_id: str = RUN, die_at: str = "0") -> str:
    """Begin a run or go on with it; this process dies at the event of that number."""
    async with (
        upshot.open_journal(where) as log,
        await _live(log, make(effects), run_id) as live,
    ):
        async for event in live:
            if getattr(event, "seq", 0) == int(die_at):
                os.kill(os.getpid(), signal.SIGKILL)
        return str((await live.result()).status)


async def give(where: str, effects: str, word: str, by: str) -> str:
    """Answer the question of the run, and say whether the answer was taken."""
    async with upshot.attach(RUN, journal=where) as handle:
        # What was seen, also where another one has answered since.
        (item,) = (await handle.state()).pending
        assert isinstance(item, upshot.PendingApproval)
        said = item.approve(by=by) if word == "yes" else item.deny("no", by=by)
        (told,) = await handle.answer(said)
    stands = told.answer if isinstance(told, upshot.Taken) else told.decision
    return f"{type(told).__name__} {'yes' if isinstance(stands, Approve) else 'no'}"


async def go_apart(where: str, effects: str, at: str) -> str:
    """Fork the run and work on the fork, and say which one it is."""
    fork = await upshot.fork(RUN, at=int(at), journal=where)
    await work(where, effects, fork)
    return fork


async def main(step: str, *arguments: str) -> None:
    """Do a step once a line has come."""
    print("ready", flush=True)
    sys.stdin.readline()
    steps: dict[str, Any] = {"work": work, "give": give, "fork": go_apart}
    try:
        print(await steps[step](*arguments))
    except (Misuse, JournalError) as error:
        # Another process has the run, has begun it or has ended it; nobody else has a fork.
        if step == "fork" or not any(word in str(error) for word in _ELSEWHERE):
            raise
        print("elsewhere")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
