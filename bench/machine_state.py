"""The cost of a machine's state: a chain and a cycle of functions, no journal."""

from __future__ import annotations

from typing import Any

import upshot
from bench.idle import idle, running
from bench.interleave import measure

__all__ = ["machine_state"]

STATES = 200
AIM_US = 50


def machine_state() -> None:
    """CPU of a state that calls a function and stores its return value."""
    engines = {"chain": _engine(_chain()), "cycle": _engine(_cycle())}
    engines["cycle with hooks"] = _engine(_cycle(), hooks=_Hooks())
    figures = measure({name: running(engine) for name, engine in engines.items()} | {"none": idle})
    for name in engines:
        cost_us = (figures[name] - figures["none"]) / STATES * 1e6
        print(f"machine state in a {name}\n  {cost_us:.0f} us CPU a state (aim <= {AIM_US} us)")


def _work(*transitions: dict[str, str]) -> dict[str, Any]:
    return {
        "function": "count",
        "input": {"n": "context.n"},
        "output_to_context": {"n": "output"},
        "transitions": list(transitions),
    }


def _chain() -> dict[str, Any]:
    states = {f"s{number}": _work({"to": f"s{number + 1}"}) for number in range(STATES - 1)}
    states["s0"]["type"] = "initial"
    return states | {f"s{STATES - 1}": {"type": "final", "output": {"n": "context.n"}}}


def _cycle() -> dict[str, Any]:
    on = {"when": f"context.n < {STATES - 1}", "to": "a"}
    return {
        "a": {"type": "initial", **_work(on, {"to": "b"})},
        "b": {"type": "final", "output": {"n": "context.n"}},
    }


def _engine(states: dict[str, Any], *, hooks: object = None) -> upshot.MachineEngine:
    machine = upshot.load_machine(
        {
            "spec": "upshot.machine/1",
            "context": {"n": 0},
            "settings": {"max_steps": STATES},
            "states": states,
        }
    )
    return upshot.MachineEngine(machine, functions={"count": _count}, hooks=hooks)


def _count(n: int) -> int:
    return n + 1


class _Hooks:
    """Hooks that observe, and change nothing."""

    def on_state_exit(self, state_name: str, context: dict[str, Any], output: object) -> None:
        """Observe the output of the state."""

    def on_transition(self, from_state: str, to_state: str, context: dict[str, Any]) -> None:
        """Observe the transition."""
