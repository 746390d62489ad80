"""What a step raises that failed, each time that it is asked for."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, AgentError, Answer, ErrorCode, Failed, ScriptEngine, resume, run
from upshot.journal import MemoryJournal
from upshot.runs.steps import Steps


class Mine(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Unlike(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


async def asking_twice(error: Exception) -> list[BaseException]:
    caught: list[BaseException] = []

    def body() -> None:
        raise error

    async def work(run: Any, host: Any, board: Any) -> None:
        for _ in range(3):
            try:
                await host.once("one", "write", body)
            except Exception as raised:
                caught.append(raised)

    assert (await run(Agent("a", engine=Do(work)), "?")).success
    return caught


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("k"), OSError(2, "gone"), Mine(7), UnicodeError("odd")]
)
async def test_it_raises_the_like_of_what_its_body_raised(error: Exception) -> None:
    first, second, third = await asking_twice(error)
    assert first is error
    assert type(first) is type(second) is type(third)
    assert str(first) == str(second) == str(third)
    assert vars(first).get("code") == vars(third).get("code")


async def test_what_cannot_be_made_again_is_a_failure_with_its_error() -> None:
    _, second, _ = await asking_twice(Unlike("one", "two"))
    assert isinstance(second, Failed)
    assert (second.error.type, second.error.message) == ("Unlike", "one two")


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("k"), OSError("gone")])
async def test_a_later_sitting_catches_it_as_the_first_one_did(error: Exception) -> None:
    def body() -> None:
        raise error

    async def script(run: Any, host: Any, board: Any) -> Any:
        try:
            await host.once("one", "write", body)
        except type(error) as raised:
            answer = await host.ask_user("Go on?", key="go")
            return [answer, isinstance(raised, Failed)]

    agent, journal = Agent("a", engine=ScriptEngine(script)), MemoryJournal()
    parked = await run(agent, "?", journal=journal)
    answers = [Answer("go", "yes")]
    done = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert (done.status, done.output) == ("completed", ["yes", True])


async def test_a_later_sitting_that_does_not_catch_it_fails_as_the_first_one_would() -> None:
    def body() -> None:
        raise ValueError("no")

    async def script(run: Any, host: Any, board: Any) -> Any:
        if not host.is_settled("one"):
            with pytest.raises(ValueError, match="no"):
                await host.once("one", "read", body)
            await host.ask_user("Go on?", key="go")
        await host.once("one", "read", body)

    agent, journal = Agent("a", engine=ScriptEngine(script)), MemoryJournal()
    parked = await run(agent, "?", journal=journal)
    answers = [Answer("go", "yes")]
    failed = await resume(parked.run_id, agent, journal=journal, answers=answers)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("failed", "internal")
    assert (failed.error.type, failed.error.message) == ("ValueError", "no")
    assert failed.error.details["raised_by"] == "the step 'one'"


@pytest.mark.parametrize(
    "kind",
    [kind for kind in vars(builtins).values() if isinstance(kind, type)],
)
def test_whatever_the_log_names_something_can_be_raised(kind: type) -> None:
    error = AgentError(ErrorCode.INTERNAL, "it was so", type=kind.__name__)
    raised = Steps().raised("one", error)
    assert isinstance(raised, Failed)
    assert raised.error is error
