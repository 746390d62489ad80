"""``python -m upshot.sim --port N --scenario FILE``: a simulator in a separate process."""

from __future__ import annotations

import argparse
import asyncio
import sys

from upshot.errors import Misuse
from upshot.sim.simulator import Simulator, serve_forever, until_signal


def main() -> int:
    """Serve until SIGINT or SIGTERM; writes the base URL as one line once it listens."""
    parser = argparse.ArgumentParser(
        prog="python -m upshot.sim", description="Simulate a model provider."
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) chooses a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--scenario", help="a JSON or YAML file; without it every answer is `ok`")
    arguments = parser.parse_args()
    serving = serve_forever(
        arguments.scenario, arguments.port, host=arguments.host, on_start=_announce
    )
    try:
        asyncio.run(until_signal(serving))
    except Misuse as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _announce(simulator: Simulator) -> None:
    sys.stdout.write(f"{simulator.base_url}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
