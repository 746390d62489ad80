"""ScriptEngine: an async function drives the steps."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from tests.runs.kit import log_of
from upshot import (
    Agent,
    Misuse,
    Parked,
    PendingQuestion,
    ScriptedModel,
    ScriptEngine,
    Status,
    resume,
    run,
)
from upshot.journal import MemoryJournal


def agent(script: Any) -> Agent[Any]:
    return Agent("script", engine=ScriptEngine(script), output_type=dict[str, Any])


@pytest.mark.parametrize("value", [{"a": 1}, {}])
async def test_what_it_returns_is_the_output(value: Any) -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        return value

    assert (await run(agent(script), "Go.")).unwrap() == value


async def test_a_finished_step_is_not_done_again_after_a_resume() -> None:
    done: list[str] = []
    is_ready = False

    async def script(run: Any, host: Any, board: Any) -> Any:
        number = await host.once("draw", "write", lambda: done.append("drawn") or 7)
        if not is_ready:
            raise Parked(PendingQuestion(id="q", question="Ready?"))
        return {"number": number}

    journal = MemoryJournal()
    parked = await run(agent(script), "Go.", journal=journal)
    assert parked.status is Status.INPUT_REQUIRED
    is_ready = True
    result = await resume(parked.run_id, agent(script), journal=journal)
    assert result.unwrap() == {"number": 7}
    assert done == ["drawn"]
    steps = [event for event in await log_of(journal, result.run_id) if "step" in event.kind]
    assert len(steps) == 2


async def test_what_it_raises_ends_the_run() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        raise ValueError("no")

    result = await run(agent(script), "Go.")
    assert result.error is not None
    assert result.error.type == "ValueError"


def test_a_script_has_to_be_a_function() -> None:
    with pytest.raises(Misuse, match="async function"):
        ScriptEngine("script")  # pyright: ignore[reportArgumentType]


FIXED = [
    "id",
    "identity",
    "parent_run_id",
    "depth",
    "agent",
    "request",
    "attempt",
    "feedback",
    "instructions",
    "settings",
    "output",
    "dependencies",
    "budget",
    "resume_from",
    "tools",
    "attributes",
    "handoff",
    "engine",
    "model",
]


@pytest.mark.parametrize("name", FIXED)
async def test_a_script_cannot_change_what_its_run_is(name: str) -> None:
    def script(run: Any, host: Any, board: Any) -> None:
        before = getattr(run, name)
        with pytest.raises((Misuse, AttributeError), match=name):
            setattr(run, name, "x")
        assert getattr(run, name) == before

    agent = Agent("a", model=ScriptedModel([]), engine=ScriptEngine(script))
    result = await run(agent, "?", dependencies={"x": 1})
    assert result.error is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda: None, "too many positional arguments"),
        (lambda run, host: None, "too many positional arguments"),
        (lambda run, host, board, more: None, "missing a required argument: 'more'"),
    ],
)
def test_a_script_that_takes_other_arguments_is_misuse_at_once(script: Any, said: str) -> None:
    with pytest.raises(Misuse, match="a script is called with .run, host, board., .*" + said):
        ScriptEngine(script)


async def test_a_decorator_may_give_a_script_more_than_it_is_called_with() -> None:
    async def script(run: Any, host: Any, board: Any, more: str) -> str:
        return more

    @functools.wraps(script)
    async def inner(run: Any, host: Any, board: Any) -> str:
        return await script(run, host, board, "more")

    result = await run(Agent("a", engine=ScriptEngine(inner)), "?")
    assert result.output == "more"


def test_a_script_may_be_any_callable_that_takes_them() -> None:
    class Callable_:
        def __call__(self, run: Any, host: Any, board: Any = None) -> None: ...

    for script in (Callable_(), lambda *given: None, functools.partial(lambda a, *b: None, 1)):
        assert ScriptEngine(script)
