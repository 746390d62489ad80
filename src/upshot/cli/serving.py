"""Serving the provider simulator from the command line."""

from __future__ import annotations

import asyncio
import signal

from ..contract import encode
from ..sim import Simulator, serve_forever
from .terminal import Terminal

__all__ = ["serve_simulator"]


async def serve_simulator(
    scenario: str,
    terminal: Terminal,
    *,
    host: str,
    port: int,
    limits: dict[str, int],
    as_json: bool,
) -> int:
    """Serve until SIGINT or SIGTERM; the base URL is written as one line once it listens.

    Args:
        scenario: Its file, "" answers "ok" to everything.
        terminal: Where to print.
        host: Where to listen.
        port: 0 takes a free one.
        limits: Fields of ``Limits``; empty takes the scenario's.
        as_json: Write the URL as one line of JSON.

    Returns:
        The exit code.

    Raises:
        Misuse: The scenario does not fit, or the address cannot be had.
    """

    def announce(simulator: Simulator) -> None:
        if as_json:
            terminal.put_json(encode({"base_url": simulator.base_url}))
        else:
            terminal.put(f"{simulator.base_url}\n")

    loop = asyncio.get_running_loop()
    serving = loop.create_task(
        serve_forever(scenario or None, port, host=host, limits=limits or None, on_start=announce)
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        # Only a signal cancels it, and a signal is how a server is meant to end.
        return 0
    return 0
