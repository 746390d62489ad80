"""What a step raises that failed, each time that it is asked for."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from tests.runs.kit import Do, Ordered
from upshot import Agent, AgentError, Answer, ErrorCode, Event, Failed, ScriptEngine, resume, run
from upshot.journal import MemoryJournal
from upshot.runs.engine_api.steps import Steps
from upshot.state.run_state import RunState


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
async def test_a_later_session_catches_it_as_the_first_one_did(error: Exception) -> None:
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


async def test_a_later_session_that_does_not_catch_it_fails_as_the_first_one_would() -> None:
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


@pytest.mark.parametrize("effect", ["read", "write", "destructive"])
async def test_a_step_that_asks_a_person_goes_on_with_the_answer(effect: str) -> None:
    ran: list[str] = []

    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> Any:
            ran.append("body")
            return await host.ask_user("Sure?", key="sure")

        return await host.once("pay", effect, body)

    agent, journal = Agent("a", engine=ScriptEngine(script)), MemoryJournal()
    parked = await run(agent, "?", journal=journal)
    again = await resume(parked.run_id, agent, journal=journal)
    assert (parked.status, again.status) == ("input_required", "input_required")
    done = await resume(parked.run_id, agent, journal=journal, answers=[Answer("sure", "yes")])
    assert (done.status, done.output) == ("completed", "yes")
    assert ran == ["body"] * 3


async def test_a_step_that_broke_off_after_it_had_asked_is_not_done_again() -> None:
    journal = Ordered()
    ran: list[str] = []

    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> Any:
            sure = await host.ask_user("Sure?", key="sure")
            ran.append("paid")
            return sure

        return await host.once("pay", "write", body)

    agent = Agent("a", engine=ScriptEngine(script))
    parked = await run(agent, "?", journal=journal)
    answers = [Answer("sure", "yes")]
    await resume(parked.run_id, agent, journal=journal, answers=answers)
    begun = [place for place, event in enumerate(journal.order) if event.kind == "step_started"]
    killed = journal.cut(begun[-1] + 1)
    result = await resume(parked.run_id, agent, journal=killed)
    assert result.error is not None
    assert (result.error.code, ran) == ("interrupted", ["paid"])


async def test_a_class_with_the_name_of_a_built_in_one_is_not_caught_as_that_one() -> None:
    mine = type("TimeoutError", (Exception,), {})

    def body() -> None:
        raise mine("late")

    async def script(run: Any, host: Any, board: Any) -> Any:
        try:
            await host.once("one", "read", body)
        except TimeoutError:
            return "the built-in one"
        except (mine, Failed) as raised:
            await host.ask_user("Go on?", key="go")
            return raised.error.details["module"]  # type: ignore[union-attr]

    agent, journal = Agent("a", engine=ScriptEngine(script)), MemoryJournal()
    parked = await run(agent, "?", journal=journal)
    done = await resume(parked.run_id, agent, journal=journal, answers=[Answer("go", "yes")])
    assert done.output == __name__


def test_whatever_the_log_names_something_can_be_raised() -> None:
    for kind in [kind for kind in vars(builtins).values() if isinstance(kind, type)]:
        error = AgentError(ErrorCode.INTERNAL, "it was so", type=kind.__name__)
        raised = Steps(RunState()).raised("one", error)
        assert isinstance(raised, Failed), kind
        assert raised.error is error


class Forgetful(MemoryJournal):
    """A journal whose process may die any moment: only what somebody waited for is on disk."""

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Event] = []
        self._safe = 0

    def append(self, event: Event, *, epoch: int | None = None) -> None:
        super().append(event, epoch=epoch)
        self._all.append(event)

    async def durable(self, run_id: str, seq: int) -> None:
        await super().durable(run_id, seq)
        self._safe = len(self._all)

    def after_a_crash(self) -> MemoryJournal:
        journal = MemoryJournal()
        for event in self._all[: self._safe]:
            journal.append(event)
        return journal


@pytest.mark.parametrize("failing", [False, True], ids=["done", "failed"])
async def test_what_came_of_a_step_that_may_not_run_again_outlives_the_process(
    failing: bool,
) -> None:
    journal, left, done = Forgetful(), list[MemoryJournal](), list[str]()

    def pay() -> str:
        done.append("paid")
        if failing:
            raise ValueError("no money")
        return "paid"

    async def work(run: Any, host: Any, board: Any) -> str:
        try:
            said = await host.once("pay", "write", pay)
        except ValueError:
            said = "failed"
        left.append(journal.after_a_crash())
        return said

    agent = Agent("a", engine=ScriptEngine(work))
    first = await run(agent, "?", journal=journal)
    assert (await resume(first.run_id, agent, journal=left[0])).output == first.output
    assert done == ["paid"]
