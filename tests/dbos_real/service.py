"""A process in which DBOS works on the runs of a journal: ``service.py JOURNAL DATABASE``."""

from __future__ import annotations

import asyncio
import signal
import sys

from dbos import DBOS

from examples.fleet.service import make_app
from upshot.fleet import dbos_driver


async def main(journal: str, database: str) -> None:
    """Work until SIGTERM."""
    DBOS(
        config={
            "name": "fleet",
            "system_database_url": database,
            "log_level": "ERROR",
            "sys_db_pool_size": 4,
        }
    )
    driver = dbos_driver(make_app(journal))
    await asyncio.to_thread(DBOS.launch)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with driver:
        print("works", flush=True)
        await ended.wait()
    await asyncio.to_thread(DBOS.destroy)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
