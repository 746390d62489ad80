"""upshot's own agents, with a journal in SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.effects.play import Play
from upshot import (
    Agent,
    Edit,
    Ledger,
    Message,
    ScriptedModel,
    Tool,
    ToolCall,
    open_journal,
    run,
    tool,
)
from upshot import (
    fork as fork_run,
)
from upshot import (
    resume as resume_run,
)

PACKAGES = ("upshot-agents",)


def tool_of(refund: Callable[..., Any]) -> Tool:
    """The function as a tool; a refund is one for each order."""
    if refund.__name__ == "refund":
        return tool(effect="write", once="order_id")(refund)
    return tool(effect="write", repeatable=True)(refund)


def _agent(refund: Callable[..., Any], play: Play, *, asks: bool = False) -> Agent[str]:
    def reply(messages: Sequence[Message]) -> str | list[ToolCall]:
        for message in messages:
            if message.role == "tool":
                play.read(message.tool_call_id or "", message.text)
        calls = [ToolCall(one.id, play.tool, one.arguments) for one in play.next()]
        return calls or "done"

    made = tool_of(refund).but(approval=asks)
    return Agent("clerk", model=ScriptedModel(reply), tools=[made])


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""
    where = folder / "effects.db"
    asyncio.run(run(_agent(refund, play), "Refund order 7.", journal=where, conversation=session))


async def _last_run(journal: Any) -> str:
    (one,) = await journal.runs()
    return one.run_id


def resume(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """Go on with the run."""

    async def work() -> None:
        async with open_journal(folder / "effects.db") as journal:
            await resume_run(await _last_run(journal), _agent(refund, play), journal=journal)

    asyncio.run(work())


def fork(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """A new run from the beginning of the other one."""

    async def work() -> None:
        async with open_journal(folder / "effects.db") as journal:
            new = await fork_run(await _last_run(journal), at=1, journal=journal)
            await resume_run(new, _agent(refund, play), journal=journal)

    asyncio.run(work())


def edit(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """The model asks for order 8, and a person answers: yes, but order 7."""

    async def work() -> None:
        agent = _agent(refund, play, asks=True)
        async with open_journal(folder / "effects.db") as journal:
            parked = await run(agent, "Refund order 8.", journal=journal)
            said = {"order_id": "7", "cents": 900}
            answers = [Edit(one.id, said, by="ann") for one in parked.pending]
            await resume_run(parked.run_id, agent, journal=journal, answers=answers)

    asyncio.run(work())


def function(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """The plain function, which is the same effect."""
    ledger = Ledger(folder / "effects.db")
    (one,) = play.next()
    play.read(one.id, ledger.once("order_id")(refund)(**one.arguments))
    asyncio.run(ledger.aclose())
