"""``python -m kills.duplicates [KILLS] [SEED] [--postgres]``: many ask for one refund, and die.

In each round four processes ask for the same refunds at random, each several times, in separate
runs on one journal. They are killed (SIGKILL) at random moments and restarted, or stopped (SIGSTOP)
for a while and continued. With ``--postgres`` the database also crashes and restarts, or closes all
connections, at any moment. A file of the bank shows what was really paid. In the end one more
process asks once for each, with a ``verify`` that reads that file. Then the bank and the ledger are
compared:

- twice: a refund was paid two times;
- lost: a refund was not paid although each was asked for;
- unknown: the ledger does not know of an effect although ``verify`` was asked;
- untrue: the ledger says applied and nothing was paid, or the other way round.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from kills.__main__ import BUSY, ENDED, HANGS_S, ended, fork, load
from upshot import (
    Agent,
    Journal,
    JournalError,
    ScriptedModel,
    Tool,
    ToolCall,
    UnknownEffect,
    open_journal,
    run,
    tool,
)

ASKERS = 4
ORDERS = 6
KILLS_A_ROUND = 12


class Bank:
    """The payments: one line each, in a file that no kill can corrupt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def pay(self, order: str) -> None:
        """Refund an order, as often as requested."""
        os.write(self._file, f"{order}\n".encode())

    def paid(self) -> Counter[str]:
        """Return how many times each order was refunded."""
        return Counter(self._path.read_text().split())


def refunds(bank: Bank, rng: random.Random, *, verified: bool) -> list[Tool[..., Any]]:
    """Return two tools with the same effect: one on the event loop, one in a thread."""
    verify = (lambda asked: was_paid(bank, asked)) if verified else None

    @tool(effect="write", once="order", effect_name="refund", verify=verify)
    async def refund(order: str) -> str:
        await asyncio.sleep(rng.uniform(0, 0.004))
        bank.pay(order)
        await asyncio.sleep(rng.uniform(0, 0.004))
        if rng.random() < 0.1:
            raise TimeoutError("the bank did not answer")
        return f"re_{order}"

    @tool(effect="write", once="order", effect_name="refund", verify=verify)
    def pay_back(order: str) -> str:
        time.sleep(rng.uniform(0, 0.004))
        bank.pay(order)
        time.sleep(rng.uniform(0, 0.004))
        return f"re_{order}"

    return [refund, pay_back]


def was_paid(bank: Bank, asked: UnknownEffect) -> bool:
    """Return what the bank says about an order."""
    return bank.paid()[str(asked.arguments["order"])] > 0


async def ask(journal: Journal, tools: list[Tool[..., Any]], name: str, order: str) -> None:
    """Ask for a refund in a separate run."""
    model = ScriptedModel([ToolCall("c", name, {"order": order}), "Done."])
    await run(Agent("clerk", model=model, tools=tools), "Refund it.", journal=journal)


async def work(url: str, bank: Bank, orders: list[str], seed: str) -> int:
    """Ask for all orders in random order, some of them twice."""
    rng = random.Random(seed)
    tools = refunds(bank, rng, verified=False)
    wanted = [*orders, *rng.choices(orders, k=len(orders) // 2)]
    rng.shuffle(wanted)
    try:
        async with open_journal(url) as journal:
            while wanted:
                some = [wanted.pop() for _ in range(min(len(wanted), rng.randint(1, 3)))]
                asked = [ask(journal, tools, rng.choice(tools).name, order) for order in some]
                await asyncio.gather(*asked)
    except JournalError:
        # The database is gone; another process asks again.
        return BUSY
    return ENDED


async def settle(url: str, bank: Bank, orders: list[str]) -> int:
    """Ask once more for each, with verify; the processes that had started are gone."""
    tools = refunds(bank, random.Random(0), verified=True)
    async with open_journal(url) as journal:
        for order in orders:
            await ask(journal, tools, tools[0].name, order)
    return ENDED


async def judge(url: str, bank: Bank, orders: list[str]) -> list[str]:
    """Return the faults of a round."""
    paid, faults = bank.paid(), list[str]()
    async with open_journal(url) as journal:
        known = {one.key: one for one in await journal.effects(tool="refund", limit=None)}
    for order in orders:
        entry, count = known.get(f'{{"order":"{order}"}}'), paid[order]
        state = "missing" if entry is None else entry.state
        if count > 1:
            faults.append(f"twice: {order} was paid {count} times")
        if not count:
            faults.append(f"lost: {order} was not paid, the ledger says {state}")
        elif state != "applied":
            faults.append(f"{'unknown' if state == 'unknown' else 'untrue'}: {order} is {state}")
    return faults


class Round:
    """Some refunds, and the processes that ask for them."""

    def __init__(self, url: str, bank: Bank, name: str) -> None:
        self._url, self._bank, self._name = url, bank, name
        self._rng = random.Random(name)
        self.orders = [f"{name}-{number}" for number in range(ORDERS)]
        self.kills = self.stops = self.crashes = self.begun = 0

    def live(self, crash: Callable[[], None] | None) -> list[str]:
        """Disturb the processes until all have asked; returns the faults.

        Args:
            crash: Crashes and restarts the database; None if there is none.
        """
        alive = {self._start() for _ in range(ASKERS)}
        end = time.monotonic() + HANGS_S
        while alive:
            time.sleep(self._rng.uniform(0, 0.05))
            for pid in [*alive]:
                code = ended(pid, 0)
                if code is None:
                    continue
                alive.remove(pid)
                if code == BUSY:
                    alive.add(self._start())
                elif code != ENDED:
                    return [f"{self._name}: one who asks ended with {code}"]
            if alive and self.kills < KILLS_A_ROUND:
                self._hurt(alive, crash)
            if time.monotonic() > end:
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                return [f"{self._name}: lost: it did not end within {HANGS_S} s"]
        last = fork(lambda: settle(self._url, self._bank, self.orders))
        if ended(last, HANGS_S) != ENDED:
            return [f"{self._name}: the last one who asked did not end well"]
        return asyncio.run(judge(self._url, self._bank, self.orders))

    def _start(self) -> int:
        self.begun += 1
        seed = f"{self._name} {self.begun}"
        return fork(lambda: work(self._url, self._bank, self.orders, seed))

    def _hurt(self, alive: set[int], crash: Callable[[], None] | None) -> None:
        pid, how = self._rng.choice(sorted(alive)), self._rng.random()
        if how < 0.15:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self._rng.uniform(0, 0.3))
            os.kill(pid, signal.SIGCONT)
            self.stops += 1
        elif how < 0.25 and crash is not None:
            crash()
            self.crashes += 1
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            alive.remove(pid)
            self.kills += 1
            alive.add(self._start())


@contextlib.contextmanager
def place(folder: Path, *, in_postgres: bool) -> Generator[tuple[str, Callable[[], None] | None]]:
    """Yield the journal, and a function that crashes its database (None for a file)."""
    if not in_postgres:
        yield str(folder / "runs.db"), None
        return
    from tests.postgres import started_server

    rng = random.Random()
    with started_server() as server:
        name = server.new_database()

        def crash() -> None:
            if rng.random() < 0.5 and server.is_ours:
                server.stop()
                server.start()
            else:
                server.do(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                    f"'{name}'"
                )

        yield server.url(name), crash


def main() -> int:
    """Kill as often as the command line says; returns 1 if anything broke."""
    given = [one for one in sys.argv[1:] if not one.startswith("-")]
    kills = int(given[0]) if given else 300
    first = given[1] if len(given) > 1 else str(random.randrange(1 << 24))
    load()
    done, stops, crashes, rounds, faults = 0, 0, 0, 0, list[str]()
    with (
        tempfile.TemporaryDirectory() as folder,
        place(Path(folder), in_postgres="--postgres" in sys.argv) as (url, crash),
    ):
        while done < kills:
            bank = Bank(Path(folder) / f"bank-{rounds}")
            one = Round(url, bank, f"{first}.{rounds}")
            found = one.live(crash)
            print(*found, sep="\n", end="\n" if found else "", flush=True)
            faults += found
            done, stops, crashes = done + one.kills, stops + one.stops, crashes + one.crashes
            rounds += 1
    hurt = f"{done} kills, {stops} stops, {crashes} crashes of the database"
    print(f"{rounds * ORDERS} refunds from seed {first} on, {hurt}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
