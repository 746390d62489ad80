"""``python -m tests.effects.refunding PLACE BOOK HOW``: refunds order 7, and may be killed then."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from upshot import Agent, Ledger, Request, ScriptedModel, Tool, ToolCall, open_journal, run, tool

__all__ = ["clerk", "refund_in"]


def refund_in(book: Path, *, dies: bool = False) -> Tool:
    """The tool; what it did is a line in *book*."""

    @tool(effect="write", once="order_id", may_differ="then")
    async def refund(order_id: str, then: str = "") -> str:
        """Refund an order."""
        with open(book, "a") as file:
            file.write(f"refund {order_id}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(3600 if then == "hang" else 0)
        if then == "raise":
            raise RuntimeError("the line broke")
        return f"re_{order_id}"

    return refund


def clerk(book: Path, *replies: Any, tools: Any = None) -> Agent[str]:
    """An agent that asks for the refund, once for each reply, or for each call of a list."""
    script: list[Any] = []
    for number, reply in enumerate(replies):
        calls: list[Any] = [reply] if isinstance(reply, dict) else reply
        script.append(
            [
                ToolCall(f"c{number}_{place}", "refund", {"order_id": "7", **call})
                for place, call in enumerate(calls)
            ]
        )
    model = ScriptedModel([*script, "done"])
    return Agent("clerk", model=model, tools=[refund_in(book)] if tools is None else tools)


async def _main(where: str, book: Path, how: str) -> None:
    if how == "die_in_ledger":
        Ledger(where).once("order_id", effect_name="refund", may_differ="then")(_pay(book))("7")
        return
    async with open_journal(where) as journal:
        if how == "die_refused":
            _die_at_the_refusal(journal)
        agent = clerk(book, {}, tools=[refund_in(book, dies=how == "die")])
        run_id = "" if how == "run" else "killed"
        await run(agent, Request("Refund order 7.", run_id=run_id), journal=journal)


def _pay(book: Path) -> Any:
    def refund(order_id: str, then: str = "") -> str:
        with open(book, "a") as file:
            file.write(f"refund {order_id}\n")
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    return refund


def _die_at_the_refusal(journal: Any) -> None:
    """Die where the start of the call is safe, and nothing was said of the refusal yet."""

    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    journal.refused_claim = die


if __name__ == "__main__":
    sys.stdin.readline()
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
