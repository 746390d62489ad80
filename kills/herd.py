"""``python -m kills.herd [ROUNDS] [--postgres]``: 64 callers ask for one effect at one moment.

Four processes have sixteen callers each: half are runs with a tool, half are callers of a
``Ledger``. In each round all of them are released at once with a new key. One body may run, and all
the others get its output.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kills.__main__ import ENDED, FAULTY, HANGS_S, ended, fork, load
from kills.duplicates import Bank, place
from upshot import (
    Agent,
    Journal,
    Ledger,
    ScriptedModel,
    ToolCall,
    ToolExecutionResult,
    open_journal,
    run,
    tool,
)

PROCESSES = 4
CALLERS = 16
_GO = b"g"


class Callers:
    """The callers of one process.

    Args:
        journal: Where the effect is claimed.
        bank: Records each body that ran.
    """

    def __init__(self, journal: Journal, bank: Bank) -> None:
        self._journal = journal

        @tool(effect="write", once="order", effect_name="refund")
        async def refund(order: str) -> str:
            bank.pay(order)
            await asyncio.sleep(0)
            return f"re_{order}"

        self._tool = refund
        self._call: Any = Ledger(journal).once("order", effect_name="refund")(refund.body.function)

    async def round(self, order: str) -> int:
        """Make all callers ask at once; returns how many did not get the output of the one body."""
        asked = [self._of_run(order) if n % 2 else self._of_ledger(order) for n in range(CALLERS)]
        return sum(one != f"re_{order}" for one in await asyncio.gather(*asked))

    async def _of_run(self, order: str) -> Any:
        model = ScriptedModel([ToolCall("c", "refund", {"order": order}), "Done."])
        agent = Agent("clerk", model=model, tools=[self._tool])
        (outcome,) = (await run(agent, "Refund it.", journal=self._journal)).tool_outcomes
        return outcome.output["result"] if isinstance(outcome, ToolExecutionResult) else outcome

    async def _of_ledger(self, order: str) -> Any:
        return await self._call(order=order)


async def live(url: str, bank: Bank, rounds: int, let_go: int, done: int) -> int:
    """Take part in every round, each after *let_go*; returns 0 if all callers got the output."""
    wrong = 0
    async with open_journal(url) as journal:
        callers = Callers(journal, bank)
        for number in range(rounds):
            os.write(done, _GO)
            await asyncio.to_thread(os.read, let_go, 1)
            wrong += await callers.round(str(number))
    return FAULTY if wrong else ENDED


def main() -> int:
    """Run a number of rounds; returns 1 if a body ran twice or not at all in any of them."""
    given = [one for one in sys.argv[1:] if not one.startswith("-")]
    rounds, began = int(given[0]) if given else 1000, time.monotonic()
    load()
    with (
        tempfile.TemporaryDirectory() as folder,
        place(Path(folder), in_postgres="--postgres" in sys.argv) as (url, _),
    ):
        bank = Bank(Path(folder) / "bank")
        ready, done = os.pipe()
        gates = [os.pipe() for _ in range(PROCESSES)]
        pids = [fork(lambda gate=gate: live(url, bank, rounds, gate, done)) for gate, _ in gates]
        os.close(done)
        for _ in range(rounds):
            for _ in range(PROCESSES):
                if not os.read(ready, 1):
                    break
            for _, gate in gates:
                os.write(gate, _GO)
        codes = [ended(pid, HANGS_S) for pid in pids]
        paid = bank.paid()
    twice = sum(count > 1 for count in paid.values())
    none = rounds - len(paid)
    took = time.monotonic() - began
    print(
        f"{rounds} rounds of {PROCESSES * CALLERS} callers in {took:.0f} s: {twice} made twice, "
        f"{none} not made, processes ended with {codes}"
    )
    return 0 if (twice, none, {*codes}) == (0, 0, {ENDED}) else 1


if __name__ == "__main__":
    sys.exit(main())
