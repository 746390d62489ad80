"""``make bench``, or ``python -m bench NAME ...`` for some of it."""

from __future__ import annotations

import sys

from bench.claims import claims
from bench.durable import journal
from bench.durable_postgres import postgres
from bench.framework import in_process
from bench.gateway import gateway
from bench.graph_node import graph_node
from bench.headers import headers
from bench.in_flight import in_flight, in_flight_tls
from bench.lab import lab
from bench.lifecycle import lifecycle
from bench.machine_state import machine_state
from bench.overview import overview
from bench.pages import pages
from bench.parallel import gates, parallel
from bench.start_up import start_up
from bench.streaming import streaming
from bench.submit import submit
from bench.tool_step import long_run, tool_step
from bench.turns import turns

CASES = {
    "lifecycle": lifecycle,
    "start_up": start_up,
    "tool_step": tool_step,
    "long_run": long_run,
    "turns": turns,
    "streaming": streaming,
    "in_flight": in_flight,
    "in_flight_tls": in_flight_tls,
    "in_process": in_process,
    "gates": gates,
    "parallel": parallel,
    "graph_node": graph_node,
    "machine_state": machine_state,
    "headers": headers,
    "journal": journal,
    "claims": claims,
    "gateway": gateway,
    "postgres": postgres,
    "submit": submit,
    "lab": lab,
    "overview": overview,
    "pages": pages,
}


def main(names: list[str]) -> int:
    """Run the cases named, or all of them."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"no case {unknown[0]!r}: there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    for name in names or CASES:
        CASES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
