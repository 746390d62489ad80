"""What a process counts for Prometheus: names, labels, and that no text of a run is among them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from upshot import (
    Agent,
    AgentError,
    Budget,
    Cost,
    Failed,
    ModelResponse,
    Retry,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolError,
    Usage,
    run,
    tool,
)
from upshot.telemetry.prometheus import Names, ProcessMetrics
from upshot.testing import FakeClock


class Counts:
    """The counts of this process, by name and labels."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.metrics = ProcessMetrics(self._registry)

    def of(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(f"upshot_{name}", labels)

    def label_values(self) -> set[str]:
        return {
            value
            for metric in self._registry.collect()
            for sample in metric.samples
            for label, value in sample.labels.items()
            if label != "le"
        }


@pytest.fixture
def counts() -> Iterator[Counts]:
    found = Counts()
    yield found
    found.metrics.close()


@tool(effect="write")
def send(to: str) -> str:
    """Send."""
    if to == "nobody":
        raise TimeoutError("secret text")
    return "sent"


def agent(*replies: Any, **options: Any) -> Agent[Any]:
    model = ScriptedModel([*replies], name="openai:gpt-5")
    return Agent("desk", model=model, tools=[send], **options)


async def test_runs_are_counted_by_status_and_error_with_their_time(counts: Counts) -> None:
    await run(agent("Done."), "?")
    await run(agent(ModelResponse(error=AgentError("auth_error", "no"))), "?")
    ended = {"agent": "desk", "status": "completed", "error": ""}
    assert counts.of("runs_ended_total", **ended) == 1
    ended |= {"status": "failed", "error": "auth_error"}
    assert counts.of("runs_ended_total", **ended) == 1
    assert counts.of("run_seconds_count", agent="desk") == 2


async def test_a_parked_run_has_not_ended(counts: Counts) -> None:
    asking = agent(ToolCall("c", "send", {"to": "ann"}), "Done.").but(
        tools=[send.but(approval=True)]
    )
    await run(asking, "?")
    assert counts.of("runs_parked_total", agent="desk") == 1
    assert counts.of("run_seconds_count", agent="desk") is None


async def test_tool_calls_are_counted_by_outcome_and_a_made_up_name_is_not_a_label(
    counts: Counts,
) -> None:
    calls = [ToolCall("a", "send", {"to": "ann"}), ToolCall("b", "secret-name", {})]
    await run(agent(*calls, "Done."), "?")
    assert counts.of("tool_calls_total", tool="send", outcome="ok") == 1
    assert counts.of("tool_calls_total", tool="(unknown)", outcome="unknown_tool") == 1
    assert "secret-name" not in counts.label_values()


@tool(effect="write")
def pay(card: str) -> str:
    """Pay."""
    raise ToolError("no", code=f"card_{card}_refused")


async def test_codes_that_a_tool_a_model_or_an_engine_makes_up_are_not_labels(
    counts: Counts,
) -> None:
    secret = "4242-ann@example.org"
    error = AgentError(f"said_{secret}", "no", retryable=True)
    replies = [ToolCall("a", "pay", {"card": secret}), ModelResponse(error=error), "Done."]
    paying = Agent("desk", model=ScriptedModel(replies), tools=[pay])
    await run(paying, "?", clock=FakeClock(), retry=Retry(max_tries=2))

    async def fails(*_: object) -> str:
        raise Failed(f"end_{secret}", "no")

    await run(Agent("own", engine=ScriptEngine(fails)), "?")
    assert counts.of("tool_calls_total", tool="pay", outcome="other") == 1
    model = {"model": "scripted:script"}
    assert counts.of("model_calls_total", **model, outcome="other") == 1
    assert counts.of("model_waits_total", **model, reason="other") == 1
    assert counts.of("runs_ended_total", agent="own", status="failed", error="other") == 1
    assert not [one for one in counts.label_values() if secret in one]


async def test_a_made_up_tool_that_another_gate_refuses_is_not_a_label(counts: Counts) -> None:
    calls = [ToolCall("a", "secret-a", {}), ToolCall("b", "secret-b", {})]
    calls.append(ToolCall("c", "send", {"to": "x"}))
    await run(agent(calls, "Done.", budget=Budget(max_denials=1)), "?")
    assert counts.of("tool_calls_total", tool="(unknown)", outcome="budget") == 1
    assert counts.of("tool_calls_total", tool="send", outcome="budget") == 1
    assert not [one for one in counts.label_values() if "secret" in one]


async def test_model_calls_tokens_cost_and_waits_are_counted(counts: Counts) -> None:
    busy = ModelResponse(
        error=AgentError("rate_limit", "slow down", retryable=True, retry_after_s=3)
    )
    answer = ModelResponse(
        content="Done.",
        usage=Usage(input_tokens=7, output_tokens=5),
        cost=Cost(total=Decimal("0.25"), output=Decimal("0.25")),
        provider_data={"paced_ms": 1500},
    )
    await run(agent(busy, answer), "?", clock=FakeClock(), retry=Retry(max_tries=2))
    of = {"model": "openai:gpt-5"}
    assert counts.of("model_calls_total", **of, outcome="rate_limit") == 1
    assert counts.of("model_calls_total", **of, outcome="ok") == 1
    assert counts.of("model_tokens_total", **of, kind="input") == 7
    assert counts.of("model_tokens_total", **of, kind="output") == 5
    assert counts.of("model_cost_usd_total", **of) == 0.25
    assert counts.of("model_waits_total", **of, reason="rate_limit") == 1
    assert counts.of("model_wait_seconds_total", **of, reason="turn") == 1.5


def test_the_values_of_a_label_are_cleaned_and_bounded() -> None:
    names = Names(most=2)
    assert names.clean('a "b"\nc') == "a_b_c"
    assert names.clean("ä" * 3) == "_"
    assert names.clean("third") == "other"
    assert names.clean('a "b"\nc') == "a_b_c"
    assert len(Names().clean("x" * 500)) == 80


async def test_nothing_is_counted_after_the_end(counts: Counts) -> None:
    counts.metrics.close()
    await run(agent("Done."), "?")
    assert counts.of("run_seconds_count", agent="desk") is None
