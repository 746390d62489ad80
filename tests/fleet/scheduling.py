"""A process that works on the runs of an App with a schedule, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from upshot import Agent, App, ScriptedModel
from upshot.fleet.worker import Worker


def make(where: str) -> App:
    """The App with the schedule ``tick``."""
    app = App([Agent("clerk", model=ScriptedModel(["Done."] * 1_000))], journal=where)
    every = timedelta(seconds=1)
    app.schedule("tick", "clerk", "Tick.", every=every, missed="all", overlap=True)
    return app


if __name__ == "__main__":
    asyncio.run(Worker(make(sys.argv[1])).work())
