"""Turning telemetry on and off."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from tests.processes import run_python
from tests.telemetry.kit import Sight
from upshot import Agent, Misuse, ScriptedModel, run
from upshot.telemetry import instrument


def asker() -> Agent[Any]:
    return Agent("a", model=ScriptedModel(["Hi"]))


async def test_a_run_that_nobody_instruments_leaves_nothing() -> None:
    sight = Sight()
    await run(asker(), "?")
    assert not sight.spans()


async def test_after_close_nothing_is_recorded() -> None:
    sight = Sight()
    instrumentation = instrument(tracer_provider=sight.tracers, meter_provider=sight.meters)
    await run(asker(), "?")
    instrumentation.close()
    instrumentation.close()
    await run(asker(), "?")
    assert len(sight.spans("invoke_agent")) == 1


async def test_instrumenting_twice_counts_once(sight: Sight) -> None:
    with sight.instrumented():
        await run(asker(), "?")
    assert len(sight.spans("invoke_agent")) == 1
    assert sight.total("flatagents.agent.executions") == 1


async def test_two_back_ends_each_get_all(sight: Sight) -> None:
    with Sight().instrumented() as other:
        await run(asker(), "?")
    assert len(sight.spans()) == len(other.spans()) == 2


async def test_a_run_under_way_is_recorded_to_its_end() -> None:
    sight = Sight()
    instrumentation = instrument(tracer_provider=sight.tracers, meter_provider=sight.meters)

    def close(messages: Any) -> str:
        instrumentation.close()
        return "Hi"

    await run(Agent("a", model=ScriptedModel([close])), "?")
    assert len(sight.spans()) == 2


@pytest.mark.parametrize("other", [{"content": True}, {"prefix": "mine"}])
def test_another_choice_for_the_same_providers_is_misuse(
    sight: Sight, other: dict[str, Any]
) -> None:
    with pytest.raises(Misuse, match="instrumented with prefix='flatagents' and content=False"):
        instrument(tracer_provider=sight.tracers, meter_provider=sight.meters, **other)


def test_an_empty_prefix_is_misuse() -> None:
    with pytest.raises(Misuse, match="prefix is empty"):
        instrument(prefix="")


async def test_no_global_provider_is_set() -> None:
    before = trace.get_tracer_provider(), metrics.get_meter_provider()
    with instrument():
        await run(asker(), "?")
    assert (trace.get_tracer_provider(), metrics.get_meter_provider()) == before


class Broken(SpanProcessor):
    def on_end(self, span: Any) -> None:
        raise ConnectionError("no collector")


async def test_an_exporter_that_raises_fails_no_run() -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(Broken())
    with instrument(tracer_provider=tracers):
        result = await run(asker(), "?")
    assert result.content == "Hi"
    assert [warning.code for warning in result.warnings] == ["listener_failed"]


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from upshot.telemetry import instrument\n"
        "try: instrument()\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
    )
    done = run_python("-c", program, text=True, check=True)
    assert done.stdout == (
        "Misuse telemetry needs an extra: pip install 'upshot-agents[otel]', "
        "or in a clone pip install -e '.[otel]'\n"
    )


@pytest.mark.slow
def test_importing_it_loads_no_opentelemetry() -> None:
    program = (
        "import sys, upshot.telemetry as t; t.instrument\n"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
