"""Numbers among the options: what is none, or says nothing, is misuse where it is given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from upshot import (
    Agent,
    Budget,
    Circuit,
    ForEach,
    Graph,
    LoopEngine,
    Misuse,
    Node,
    Price,
    ProcessLimits,
    Rate,
    Retry,
    ScriptedModel,
    Toolbox,
    run_sync,
    tool,
)
from upshot.journal import MemoryArtifactStore
from upshot.journal.artifact_store import check_limits
from upshot.models import AiohttpTransport, Timeouts
from upshot.sim import CutFault, Latency, Limits, Reply, Simulator, SlowFault, StatusFault, Tokens
from upshot.testing import LateReturn
from upshot.tools import Workers


async def work() -> None: ...


async def step(board: object) -> None: ...


def asked(**options: Any) -> Any:
    return run_sync(Agent("a", model=ScriptedModel(["Done."])), "?", **options)


WHOLE: dict[str, tuple[Callable[[Any], Any], int]] = {
    "max_attempts": (lambda value: asked(max_attempts=value), 1),
    "Budget.max_turns": (lambda value: Budget(max_turns=value), 0),
    "Budget.max_depth": (lambda value: Budget(max_depth=value), 0),
    "Retry.max_tries": (lambda value: Retry(max_tries=value), 1),
    "Rate.calls": (Rate, 1),
    "Circuit.failures": (Circuit, 1),
    "tool.retries": (lambda value: tool(effect="read", retries=value)(work), 0),
    "tool.concurrency": (lambda value: tool(effect="read", concurrency=value)(work), 1),
    "Graph.max_steps": (lambda value: Graph({"a": step}, max_steps=value), 1),
    "ForEach.at_once": (lambda value: ForEach("items", step, at_once=value), 1),
    "Node.attempts": (lambda value: Node(step, attempts=value), 1),
    "LoopEngine": (lambda value: LoopEngine(corrective_turns=value), 0),
    "Workers": (Workers, 1),
    "ProcessLimits": (lambda value: ProcessLimits(memory_bytes=value), 1),
    "port": (lambda value: Simulator(port=value), 0),
    "keep_requests": (lambda value: Simulator(keep_requests=value), 0),
    "Limits": (lambda value: Limits(requests_per_minute=value), 1),
    "Latency": (lambda value: Latency(first_byte_ms=value), 0),
    "Tokens": (lambda value: Tokens(input_tokens=value), 0),
    "Reply": (lambda value: Reply(chunk_chars=value), 1),
    "SlowFault": (lambda value: SlowFault(first_byte_ms=value), 0),
    "CutFault": (lambda value: CutFault(after_events=value), 0),
    "at": (lambda value: CutFault(at=value), 0),
    "times": (lambda value: CutFault(times=value), 1),
    "status": (lambda value: StatusFault(status=value), 400),
}
# With what is just below what each takes.
AMOUNTS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "Budget.deadline_s": (lambda value: Budget(deadline_s=value), -0.1),
    "Budget.tool_timeout_s": (lambda value: Budget(tool_timeout_s=value), -0.1),
    "Retry.base_s": (lambda value: Retry(base_s=value), -0.1),
    "Rate.per_s": (lambda value: Rate(1, value), 0),
    "Circuit.open_s": (lambda value: Circuit(open_s=value), 0),
    "tool.timeout_s": (lambda value: tool(effect="read", timeout_s=value)(work), -0.1),
    "ProcessLimits.cpu_s": (lambda value: ProcessLimits(cpu_s=value), 0),
    "Timeouts.read_s": (lambda value: Timeouts(read_s=value), 0),
    "keepalive_s": (lambda value: AiohttpTransport(keepalive_s=value), -0.1),
    "Node.backoff_s": (lambda value: Node(step, backoff_s=value), -0.1),
    "artifacts": (lambda value: MemoryArtifactStore(max_bytes=value), -0.1),
    "prune.max_age_s": (lambda value: check_limits(value, 1), -0.1),
    "prune.max_bytes": (lambda value: check_limits(1, value), -0.1),
    "LateReturn": (lambda value: LateReturn(delay_s=value), -0.1),
    "retry_after_s": (lambda value: StatusFault(status=500, retry_after_s=value), -0.1),
}


@pytest.mark.parametrize(("give", "least"), WHOLE.values(), ids=WHOLE)
def test_a_whole_number_is_no_boolean_no_fraction_and_no_text(
    give: Callable[[Any], Any], least: int
) -> None:
    for value in (True, False, math.nan, math.inf, 1.5, "3", least - 1):
        with pytest.raises(Misuse):
            give(value)
    give(least)


@pytest.mark.parametrize(("give", "below"), AMOUNTS.values(), ids=AMOUNTS)
def test_an_amount_is_no_boolean_and_can_be_measured(
    give: Callable[[Any], Any], below: float
) -> None:
    for value in (True, False, math.nan, -math.inf, "3", 10**400, below):
        with pytest.raises(Misuse):
            give(value)
    give(1)
    give(0.5)


@pytest.mark.parametrize("value", [True, math.nan, "soon"])
def test_a_moment_that_is_none_is_no_deadline(value: Any) -> None:
    with pytest.raises(Misuse, match=r"^deadline must be a moment of the clock, or None, got "):
        Toolbox([], deadline=value)


def test_what_cannot_be_waited_for_is_refused() -> None:
    for give in (
        lambda: Node(step, backoff_s=math.inf),
        lambda: ProcessLimits(cpu_s=math.inf),
        lambda: LateReturn(delay_s=math.inf),
    ):
        with pytest.raises(Misuse):
            give()


def test_a_price_has_the_two_rates_that_every_call_needs() -> None:
    needed: Any = {"input_per_mtok": 1, "output_per_mtok": 1}
    for name in needed:
        for value in (None, True, math.nan, -1, "dear"):
            with pytest.raises(Misuse):
                Price(**{**needed, name: value})


def test_the_message_says_what_to_give() -> None:
    with pytest.raises(Misuse) as caught:
        asked(max_attempts=True)
    assert str(caught.value) == "max_attempts must be a whole number of at least 1, got True"
    with pytest.raises(Misuse) as caught:
        Node(step, backoff_s=10**9999)
    said = "Node.backoff_s must be a number of seconds at least 0, got a number of too many digits"
    assert str(caught.value) == said
    with pytest.raises(Misuse) as caught:
        Timeouts(read_s=0)
    assert (
        str(caught.value)
        == "read_s must be a number of seconds above 0, or None for no limit, got 0"
    )
