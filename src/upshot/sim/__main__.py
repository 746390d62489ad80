"""``python -m upshot.sim --port N --scenario FILE``: a simulator in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from upshot.errors import Misuse
from upshot.sim.simulator import Simulator, serve_forever


def main() -> int:
    """Serve until SIGINT or SIGTERM; writes the base URL as one line once it listens."""
    parser = argparse.ArgumentParser(
        prog="python -m upshot.sim", description="Simulate a model provider."
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) chooses a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--scenario", help="a JSON or YAML file; without it every answer is `ok`")
    arguments = parser.parse_args()
    try:
        asyncio.run(_serve(arguments.scenario, arguments.host, arguments.port))
    except Misuse as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


async def _serve(scenario: str | None, host: str, port: int) -> None:
    serving = asyncio.ensure_future(serve_forever(scenario, port, host=host, on_start=_announce))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        # Only a signal cancels it, and a signal is how a server is meant to end.
        return


def _announce(simulator: Simulator) -> None:
    sys.stdout.write(f"{simulator.base_url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
