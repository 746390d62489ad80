"""What each framework tells: measured with its real package on the simulator, kept as JSON.

``python -m tests.adapters_real.told`` measures the frameworks that are installed in its environment
and writes them to ``told.json``; ``make adapters`` does so in each environment and fails if that
changed anything. ``tests.docs.tables`` makes the tables of docs/adapters.md of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.adapters_real.plays import CASES, NATIVE, PROMPT, QUIET, Desk, is_here, play
from upshot import adapters
from upshot.contract import AgentResult, FinishReason, ToolFailure
from upshot.native.objects import as_items

__all__ = ["FACTS", "FILE", "case_rows", "fact_rows", "measure", "stored"]

FILE = Path(__file__).with_name("told.json")
# How many replies of the model a case has; for its usage to be whole.
REPLIES = {"text": 1, "two calls": 2, "length": 1, "a tool raises": 2, "cancel": 1}


def _lacks(*names: str) -> Callable[[AgentResult[Any]], bool]:
    return lambda result: not {*names} & {*_unknown(result)}


def _unknown(result: AgentResult[Any]) -> list[str]:
    return [str(name) for name in as_items(result.metadata["unknown"])]


# What a result of the case "two calls" may tell, by the head of its column.
FACTS: dict[str, Callable[[AgentResult[Any]], bool]] = {
    "request": lambda result: any(PROMPT in one.text for one in result.seeded),
    "tokens": _lacks("usage.input_tokens", "usage.output_tokens"),
    "cached": _lacks("usage.cache_read_tokens"),
    "reasoning": _lacks("usage.reasoning_tokens"),
    "cost": _lacks("cost"),
    "finish reason": _lacks("finish_reason"),
    "model": _lacks("provider_data.model"),
    "response id": lambda result: "response_id" in result.provider_data,
    "request id": _lacks("provider_data.request_id"),
    "rate limit": _lacks("rate_limit"),
    "time": _lacks("duration_ms"),
    "time of tools": _lacks("tool_outcomes.elapsed_ms"),
}


def describe(case: str, result: AgentResult[Any], desk: Desk) -> str:
    """The cell of one case: how the run ended, and what the framework lost of it."""
    ended = str(result.status) if result.error is None else str(result.error.code)
    told = [f"`{ended}`", *_told(case, result)]
    lost = list(_lost(case, result, desk))
    return ", ".join(told) + (f"; no {', no '.join(lost)}" if lost else "")


def _told(case: str, result: AgentResult[Any]) -> Iterator[str]:
    failed = sum(isinstance(outcome, ToolFailure) for outcome in result.tool_outcomes)
    made = len(result.tool_outcomes) - failed
    if made:
        yield f"{made} outcome{'s' if made > 1 else ''}"
    if failed:
        yield f"{failed} failure{'s' if failed > 1 else ''}"
    if result.finish_reason is FinishReason.LENGTH:
        yield "length"
    if result.error is not None and result.error.retry_after_s is not None:
        yield f"{result.error.retry_after_s:g} s"


def _lost(case: str, result: AgentResult[Any], desk: Desk) -> Iterator[str]:
    error = result.error
    if case in ("text", "length") and not result.content:
        yield "text"
    if len(result.tool_outcomes) < len(desk.made):
        yield "outcome"
    if case == "length" and result.finish_reason is not FinishReason.LENGTH:
        yield "reason"
    if case == "429" and (error is None or error.retry_after_s is None):
        yield "wait"
    if case in ("429", "500") and (error is None or error.status_code is None):
        yield "status"
    if case in REPLIES and result.usage.input_tokens is None:
        yield "tokens"


async def measure(name: str) -> dict[str, dict[str, str]]:
    """Play all cases of a framework: its cells, and which facts it tells."""
    read: Any = getattr(adapters, f"from_{name}")
    cells, facts = dict[str, str](), dict[str, str]()
    for case in CASES:
        native, desk = await play(name, case)
        result = read(native)
        cells[case] = describe(case, result, desk)
        if case == "two calls":
            facts = {fact: "yes" if tells(result) else "-" for fact, tells in FACTS.items()}
    return {"cases": cells, "facts": facts}


def stored() -> dict[str, dict[str, dict[str, str]]]:
    """What was measured, by the name of the framework."""
    return json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}


def case_rows() -> list[tuple[str, ...]]:
    """The rows of the table of cases."""
    known = stored()
    return [(f"`from_{name}`", *(known[name]["cases"][case] for case in CASES)) for name in NATIVE]


def fact_rows() -> list[tuple[str, ...]]:
    """The rows of the table of facts."""
    known = stored()
    return [(f"`from_{name}`", *(known[name]["facts"][fact] for fact in FACTS)) for name in NATIVE]


def _main() -> None:
    os.environ.update(QUIET)
    logging.disable(logging.CRITICAL)
    known = stored()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UPSHOT_PLAYS"] = folder
        known |= {name: asyncio.run(measure(name)) for name in NATIVE if is_here(name)}
    ordered = {name: known[name] for name in NATIVE if name in known}
    FILE.write_text(json.dumps(ordered, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    _main()
