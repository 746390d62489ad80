"""Listeners of all runs in the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.runs.kit import Do, kinds, measured
from upshot import Agent, ModelResponse, RunEvent, ScriptedModel, run, start
from upshot.runs.recorder import listen

Facts = list[Any]
AGENT = Agent("listened")


@pytest.fixture
def heard() -> Iterator[Facts]:
    facts: Facts = []
    end = listen(lambda plan: facts.append)
    yield facts
    end()


async def test_a_listener_hears_every_event_of_every_run(heard: Facts) -> None:
    for text in ("one", "two"):
        await run(AGENT, "Hi", model=ScriptedModel([text]))
    ids = [event.run_id for event in heard]
    assert len(set(ids)) == 2
    assert (heard[0].kind, heard[-1].kind) == ("run_started", "run_settled")
    assert kinds(heard).count("model_replied") == 2


async def test_a_listener_hears_a_child_run_too(heard: Facts) -> None:
    async def work(engine_run: Any, host: Any, board: Any) -> None:
        await engine_run.child(Agent("inner"), "Hi", model=ScriptedModel(["inner"]))

    await run(AGENT, "Hi", engine=Do(work))
    assert kinds(heard).count("run_settled") == 2


async def test_a_listener_makes_no_model_stream(heard: Facts) -> None:
    await run(AGENT, "Hi", model=ScriptedModel(["a text"]))
    assert "text_delta" not in kinds(heard)
    async with start(AGENT, "Hi", model=ScriptedModel(["a text"])) as live:
        await live.result()
    assert "text_delta" in kinds(heard)


async def test_a_listener_hears_what_an_engine_reports(heard: Facts) -> None:
    reported = measured("by other ways")
    await run(AGENT, "Hi", engine=Do(lambda run, host, board: host.report_usage(reported)))
    assert [fact for fact in heard if isinstance(fact, ModelResponse)] == [reported]
    assert all(isinstance(fact, RunEvent | ModelResponse) for fact in heard)


async def test_who_has_ended_listening_hears_nothing_more() -> None:
    facts: Facts = []
    end: Callable[[], None] = listen(lambda plan: facts.append)
    end()
    await run(AGENT, "Hi", model=ScriptedModel(["one"]))
    assert not facts


async def test_a_listener_may_have_no_interest_in_a_run() -> None:
    facts: Facts = []
    end = listen(lambda plan: facts.append if plan.agent.id == "other" else None)
    await run(AGENT, "Hi", model=ScriptedModel(["one"]))
    end()
    assert not facts


async def test_a_listener_that_raises_fails_no_run_and_is_told_nothing_more() -> None:
    told: Facts = []

    def take(fact: Any) -> None:
        told.append(fact)
        raise ValueError("broken")

    end = listen(lambda plan: take)
    result = await run(AGENT, "Hi", model=ScriptedModel(["one"]))
    end()
    assert result.content == "one"
    assert len(told) == 1
    (warning,) = result.warnings
    assert warning.code == "listener_failed"
    assert "ValueError: broken" in warning.message
