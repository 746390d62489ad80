"""Faults that are left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runs.kit import Ordered, measured
from tests.runs.test_reused_call_ids import DID, approved, call, look, loop, pay, put, scripted, whole
from upshot import Agent, LoopEngine, ScriptedModel, ScriptEngine, ToolCall, replay


@pytest.mark.parametrize("engine", [LoopEngine(), ScriptEngine(loop)], ids=["loop", "script"])
async def test_a_call_that_waits_is_not_answered_by_the_denial_of_another_of_its_id(
    engine: Any,
) -> None:
    asked = measured(None, call("pay", 5), call("look", 6))

    def make() -> Agent[Any]:
        model = ScriptedModel(lambda said: "Done." if said[-1].role == "tool" else asked)
        return Agent("a", engine=engine, model=model, tools=[put, pay, look])

    DID.clear()
    result, journal = await whole(make)
    result = await approved(make, result, journal)
    assert DID == {5: 1}
    assert [message.role for message in result.messages].count("tool") == 2


@pytest.mark.parametrize("in_step", [False, True])
async def test_calls_side_by_side_replay_alike(in_step: bool) -> None:
    async def script(run: Any, host: Any, board: Any) -> None:
        async def second() -> str:
            (outcome,) = await run.tools.dispatch([ToolCall("d", "put", {"x": 9})])
            return outcome.kind

        await asyncio.gather(
            run.tools.dispatch([ToolCall("c", "put", {"x": 1})]),
            host.once("k", "write", second, idempotent=True) if in_step else second(),
        )

    make = scripted(script)
    _, journal = await whole(make)
    told = await replay("r", make(), journal=journal)
    assert told.difference is None
