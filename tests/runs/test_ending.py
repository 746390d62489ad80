"""What becomes of a result, a reply or an error that an engine returns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from tests.runs.kit import Do, measured, raising
from upshot import (
    Aborted,
    Agent,
    AgentError,
    AgentResult,
    Answer,
    ErrorCode,
    Interrupted,
    ModelResponse,
    Parked,
    PendingQuestion,
    RunFailed,
    ScriptEngine,
    Status,
    ToolCall,
    resume,
    run,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


class Point(msgspec.Struct):
    x: int


@dataclass(eq=False)
class Grid:
    """What does not say whether it equals something, as arrays do not."""

    cells: list[int]

    def __eq__(self, other: object) -> bool:
        raise ValueError("The truth value of an array is ambiguous")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def giving(value: Any) -> dict[str, Any]:
    return {"engine": Do(lambda *_: value)}


def inside(agent: Agent[Any]) -> dict[str, Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return await run.child(agent, "?", key="inside")

    return {"engine": ScriptEngine(work)}


def ending(how: Any) -> Agent[Any]:
    def work(run: Any, host: Any, board: Any) -> Any:
        raise how

    return Agent("inner", engine=Do(work))


OUTER = Agent("outer")


async def test_the_answer_of_a_run_inside_is_that_of_its_script() -> None:
    inner = Agent("inner", model=ScriptedModel([measured("Hi.")]))
    result = await run(OUTER, "?", **inside(inner))
    assert (result.status, result.output, result.content) == ("completed", "Hi.", "Hi.")
    assert (result.usage.input_tokens, result.usage.api_calls) == (10, 1)


async def test_a_typed_answer_stays_typed() -> None:
    inner = Agent[Point]("inner", model=ScriptedModel(lambda _: '{"x": 1}'), output_type=Point)
    assert (await run(OUTER, "?", **inside(inner))).output == {"x": 1}
    typed = Agent[Point]("outer", output_type=Point)
    assert (await run(typed, "?", **inside(inner))).output == Point(1)


async def test_the_text_of_a_reply_is_read_as_the_type_that_is_wanted() -> None:
    reply = ModelResponse(content='{"x": 2}')
    typed = Agent[Point]("outer", output_type=Point)
    assert (await run(typed, "?", **giving(reply))).output == Point(2)
    assert (await run(OUTER, "?", **giving(reply))).output == '{"x": 2}'


async def test_an_output_that_cannot_be_compared_is_taken() -> None:
    told = AgentResult[Any](output=Grid([1, 2]), content="Done.")
    result = await run(OUTER, "?", **giving(told))
    assert (result.output, result.content) == ({"cells": [1, 2]}, "Done.")


@pytest.mark.parametrize(
    "value",
    [
        AgentError(ErrorCode.NOT_FOUND, "gone"),
        ModelResponse(error=AgentError(ErrorCode.NOT_FOUND, "gone")),
        AgentResult[Any](status=Status.FAILED, error=AgentError(ErrorCode.NOT_FOUND, "gone")),
        AgentResult[Any](status=Status.CANCELED, error=AgentError(ErrorCode.NOT_FOUND, "gone")),
    ],
)
async def test_what_failed_fails_the_run_with_its_error(value: Any) -> None:
    result = await run(OUTER, "?", **giving(value))
    assert result.error == AgentError(ErrorCode.NOT_FOUND, "gone")
    assert result.status == "failed"


async def test_what_raised_inside_is_the_cause_of_what_unwrapping_raises() -> None:
    result = await run(OUTER, "?", **inside(ending(KeyError("k"))))
    assert result.error is not None
    assert (result.status, result.error.message) == ("failed", "'k'")
    with pytest.raises(RunFailed) as caught:
        result.unwrap()
    cause = caught.value.__cause__
    assert cause is not None
    assert isinstance(cause.__cause__, KeyError)


async def test_a_text_of_a_run_that_failed_is_kept() -> None:
    failed = AgentResult[Any](
        status=Status.FAILED,
        content="Half.",
        error=AgentError(ErrorCode.TIMEOUT, "late"),
    )
    result = await run(OUTER, "?", **giving(failed))
    assert (result.status, result.content) == ("failed", "Half.")


async def test_a_run_ends_as_the_one_inside_was_aborted_or_interrupted() -> None:
    aborted = await run(OUTER, "?", **inside(ending(Aborted("no", "conflict"))))
    assert aborted.error is not None
    assert (aborted.status, aborted.error.code, aborted.error.message) == (
        "aborted",
        "conflict",
        "no",
    )
    stopped = await run(OUTER, "?", **inside(ending(Interrupted("user_input", "wait"))))
    assert (stopped.status, stopped.cause, stopped.detail) == ("interrupted", "user_input", "wait")


async def test_a_run_waits_with_the_one_inside_and_goes_on_with_it() -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Who?", key="who")

    options, journal = inside(Agent("inner", engine=Do(ask))), MemoryJournal()
    parked = await run(OUTER, "?", journal=journal, **options)
    assert (parked.status, [one.id for one in parked.pending]) == ("input_required", ["who"])
    answers = [Answer("who", "Ada")]
    done = await resume(parked.run_id, OUTER, journal=journal, answers=answers, **options)
    assert (done.status, done.output) == ("completed", "Ada")


async def test_a_reply_with_calls_and_no_text_is_no_answer() -> None:
    reply = ModelResponse(tool_calls=(ToolCall("1", "add", {}),))
    result = await run(OUTER, "?", **giving(reply))
    assert (result.status, result.output, result.content) == ("completed", None, None)


def unwrapping(*agents: Agent[Any]) -> dict[str, Any]:
    """A script that unwraps what its children gave, all at once."""

    async def one(run: Any, agent: Agent[Any]) -> None:
        (await run.child(agent, "?", key=agent.id)).unwrap()

    async def work(run: Any, host: Any, board: Any) -> str:
        if len(agents) == 1:
            await one(run, agents[0])
        async with asyncio.TaskGroup() as group:
            for agent in agents:
                group.create_task(one(run, agent))
        return "done"

    return {"engine": ScriptEngine(work)}


def asking(name: str) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user(f"{name}?", key=name)

    return Agent(name, engine=ScriptEngine(work))


async def test_unwrapping_a_run_that_waits_parks_the_script_until_it_is_answered() -> None:
    journal = MemoryJournal()
    parked = await run(OUTER, "?", journal=journal, **unwrapping(asking("a")))
    assert (parked.status, [one.id for one in parked.pending]) == ("input_required", ["a"])
    answers = [Answer("a", 1)]
    done = await resume(
        parked.run_id, OUTER, journal=journal, answers=answers, **unwrapping(asking("a"))
    )
    assert (done.status, done.output) == ("completed", "done")


async def test_all_that_several_unwrapped_runs_wait_for_is_asked() -> None:
    parked = await run(OUTER, "?", **unwrapping(asking("a"), asking("b")))
    assert (parked.status, {one.id for one in parked.pending}) == ("input_required", {"a", "b"})


async def test_unwrapping_a_run_that_failed_keeps_its_code() -> None:
    inner = Agent("inner", model=ScriptedModel([AgentError(ErrorCode.NOT_FOUND, "gone")]))
    result = await run(OUTER, "?", **unwrapping(inner))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "not_found")


async def test_an_unwrapped_failure_goes_before_what_waits() -> None:
    failed = AgentResult[Any](status=Status.FAILED, error=AgentError(ErrorCode.NOT_FOUND, "gone"))
    both = ExceptionGroup("two", [Parked(PendingQuestion(id="q", question="?")), RunFailed(failed)])
    result = await run(OUTER, "?", engine=raising(both))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "not_found")


async def test_unwrapping_a_reply_that_failed_keeps_its_code() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.call_model("?")).unwrap()

    model = ScriptedModel([AgentError(ErrorCode.AUTH_ERROR, "who are you?")])
    result = await run(OUTER, "?", model=model, engine=ScriptEngine(work))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "auth_error")
    with pytest.raises(RunFailed) as caught:
        result.unwrap()
    cause = caught.value.__cause__
    assert cause is not None
    assert isinstance(cause.__cause__, RunFailed)


async def test_a_bug_beside_an_unwrapped_failure_stays_a_bug() -> None:
    failed = AgentResult[Any](status=Status.FAILED, error=AgentError(ErrorCode.NOT_FOUND, "gone"))
    both = ExceptionGroup("two", [RunFailed(failed), KeyError("k")])
    result = await run(OUTER, "?", engine=raising(both))
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "internal")
