"""The cost of a run regardless of its engine, for other cases to subtract."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import upshot

__all__ = ["idle", "running"]


class _Nothing:
    """An engine that does nothing."""

    async def execute(self, run: object, host: object, board: object) -> object:
        """Return at once."""
        return board


def running(engine: upshot.Engine) -> Callable[[], Awaitable[None]]:
    """Return a function that runs *engine* once, without a journal."""

    async def run() -> None:
        result = await upshot.run(upshot.Agent("bench"), "Go.", engine=engine)
        assert result.success, result.error

    return run


async def idle() -> None:
    """Run an engine that does nothing."""
    await running(_Nothing())()
