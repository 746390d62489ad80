"""``python -m bench.effects.worker COLUMN``: does jobs that arrive as lines of JSON.

Each job has a separate process, forked from this one, which has imported the framework. The
processes of a case share only their folder and the bank.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.effects.bank import Client
from bench.effects.columns import COLUMNS, Column
from bench.effects.play import Play

# After so many exceptions of a framework the request is given up.
ASKS = 4
ENDS_S = 60


def refund_by(client: Client, *, dies: bool) -> Callable[..., str]:
    """Return the function: it calls the bank, and may be killed before it returns."""

    def refund(order_id: str, cents: int) -> str:
        """Refund an order.

        Args:
            order_id: The order.
            cents: How much.
        """
        receipt = client.pay(order_id, cents)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return receipt

    return refund


def sub_agent(
    desk: Any, refund: Callable[..., Any], folder: Path
) -> tuple[Callable[..., str], list[str]]:
    """Return a function that asks another agent for the refund, and what its model read."""
    told: list[str] = []

    def delegate(order_id: str, cents: int) -> str:
        """Ask the clerk for a refund.

        Args:
            order_id: The order.
            cents: How much.
        """
        play = Play([[{}]])
        session = f"child{len(told)}"
        talk = functools.partial(desk.talk, refund, play, session=session, folder=folder)
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(talk).result()
            except Exception as error:
                play.read_error(error)
        (text,) = play.told.values()
        told.append(text)
        return text

    return delegate, told


def do(column: Column, desk: Any, job: dict[str, Any], folder: Path) -> list[str] | None:
    """Do a job; returns what was read about each call, None if the desk has no such interface."""
    client = Client(job["bank"], refused=job["refused"], session=job["session"])
    refund = refund_by(client, dies=job["dies"])
    kind = job["do"]
    if kind == "function" and not hasattr(desk, kind):
        call = column.protect(refund, client, folder)
        try:
            return [call(order_id="7", cents=900)]
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
    protected = column.protect(refund, client, folder)
    play = Play(job["replies"])
    what = {"session": job["session"], "folder": folder}
    if kind == "delegate":
        play = Play(job["replies"], tool="delegate")
        delegate, told = sub_agent(desk, protected, folder)
        desk.talk(delegate, play, **what)
        return told
    known = {"resume": desk.talk, "fork": desk.talk, "take_over": desk.talk}
    if kind == "fork" and not hasattr(desk, kind):
        what["session"] = f"{job['session']}-fork"
    door = getattr(desk, kind, known.get(kind))
    if door is None:
        return None
    for _ in range(ASKS):
        try:
            door(protected, play, **what)
        except Exception as error:
            if "-v" in sys.argv:
                traceback.print_exc()
            play.read_error(error)
        if play.is_over:
            break
        # The caller asks again for the rest.
        door = desk.talk
    return list(play.told.values())


def serve(column: Column) -> None:
    """Answer each line with a line."""
    print(json.dumps(versions(column)), flush=True)
    desk = column.load()
    warm_up(column)
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            act(column, desk, job)
        threading.Thread(target=os.waitpid, args=(child, 0), daemon=True).start()


def warm_up(column: Column) -> None:
    """Import what every forked process would import again."""
    for name in column.imports:
        module = __import__(name)
        for one in getattr(module, "__all__", ()):
            getattr(module, one, None)


def act(column: Column, desk: Any, job: dict[str, Any]) -> None:
    """Do a job in a separate process, and leave the result in a file."""
    folder, number = Path(job["folder"]), job["number"]
    faults = folder / f"{number}.log"
    with open(faults, "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    signal.alarm(ENDS_S)
    try:
        told: Any = do(column, desk, job, folder)
    except BaseException as error:
        traceback.print_exc()
        told = [f"{type(error).__name__}: {error}"]
    new = folder / f"{number}.new"
    new.write_text(json.dumps(told))
    new.rename(folder / f"{number}.json")
    sys.stdout.flush()
    os._exit(0)


def versions(column: Column) -> dict[str, str]:
    """Return the exact version of each distribution."""
    module = __import__(f"bench.effects.desks.{column.desk}", fromlist=["PACKAGES"])
    return {one: metadata.version(one) for one in (*module.PACKAGES, *column.packages)}


def main() -> None:
    """Serve a column, or do the one job of a line and end."""
    warnings.simplefilter("ignore")
    column = COLUMNS[sys.argv[1]]
    if column.forks:
        serve(column)
        return
    print(json.dumps(versions(column)), flush=True)
    desk = column.load()
    print("ready", flush=True)
    act(column, desk, json.loads(sys.stdin.readline()))


if __name__ == "__main__":
    main()
