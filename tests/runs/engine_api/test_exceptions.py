"""Signals: a run ends as its engine says, whatever stands beside the reason."""

from __future__ import annotations

import asyncio
import pickle
from enum import Enum
from typing import Any

import pytest

from upshot import (
    Aborted,
    Agent,
    AgentError,
    AgentResult,
    Failed,
    Interrupt,
    Interrupted,
    Misuse,
    Parked,
    PendingQuestion,
    ScriptEngine,
    Status,
    decode,
    encode,
    run,
    start,
)


class Odd: ...


class Why(str, Enum):  # noqa: UP042  # its str() is another than its value
    USER = "user_cancel"


class Itself(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()
        self["self"] = self


async def ended_by(signal: Exception) -> AgentResult[Any]:
    async def script(run: Any, host: Any, board: Any) -> None:
        raise signal

    return await run(Agent("a", engine=ScriptEngine(script)), "Go.")


@pytest.mark.parametrize(
    ("details", "kept", "places"),
    [
        ({"odd": Odd(), "n": 1}, {"odd": "Odd", "n": 1}, ["/odd"]),
        ({"cause": ValueError("secret")}, {"cause": "ValueError"}, ["/cause"]),
        ({"n": float("nan"), "t": "\ud800"}, {"n": None, "t": "\ufffd"}, ["/n", "/t"]),
        ({"deep": Itself()}, {"deep": "Itself"}, ["/deep"]),
        ({(1, 2): 3}, {"(1, 2)": "int"}, ["/(1, 2)"]),
        ([1, 2], {"details": [1, 2]}, []),
        ({1: {2}}, {"1": [2]}, []),
        (None, {}, []),
    ],
    ids=["object", "exception", "lossy", "itself", "key", "list", "set", "none"],
)
async def test_details_that_are_no_json_cost_a_failure_no_code(
    details: Any, kept: Any, places: list[str]
) -> None:
    result = await ended_by(Failed("sold_out", "None is left.", details=details))
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("sold_out", "None is left.")
    assert result.error.details == kept
    told = [(one.code, one.message.partition(" has no JSON form")[0]) for one in result.warnings]
    assert told == [("lossy_value", f"details{place}") for place in places]
    assert decode(encode(result)) == result


async def test_a_failure_in_a_group_of_tasks_warns_too() -> None:
    async def fail() -> None:
        raise Failed("sold_out", "None is left.", details={"odd": Odd()})

    async def script(run: Any, host: Any, board: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    result = await run(Agent("a", engine=ScriptEngine(script)), "Go.")
    assert [warning.code for warning in result.warnings] == ["lossy_value"]


@pytest.mark.parametrize("signal", [Failed, lambda code, message: Aborted(message, code)])
async def test_an_exception_as_message_is_its_text(signal: Any) -> None:
    result = await ended_by(signal("sold_out", ValueError("None is left.")))
    assert result.error is not None
    assert result.status in (Status.FAILED, Status.ABORTED)
    assert (result.error.code, result.error.message) == ("sold_out", "None is left.")


QUESTION = PendingQuestion(id="q", question="Who?")


@pytest.mark.parametrize(
    ("given", "pending", "message"),
    [
        (("nobody is here",), (), "The run was parked: nobody is here"),
        ((QUESTION,), (QUESTION,), "The run waits for people: question q."),
        (((QUESTION,),), (QUESTION,), "The run waits for people: question q."),
        (("later", QUESTION), (QUESTION,), "The run waits for people: question q."),
        (((),), (), "The run was parked without a question"),
        (({QUESTION},), (QUESTION,), "The run waits for people: question q."),
        (({1: QUESTION}.values(),), (QUESTION,), "The run waits for people: question q."),
        ((iter([QUESTION]),), (QUESTION,), "The run waits for people: question q."),
    ],
    ids=["text", "question", "tuple", "both", "nothing", "set", "values", "iterator"],
)
async def test_a_run_is_parked_whatever_is_said_with_it(
    given: Any, pending: Any, message: str
) -> None:
    result = await ended_by(Parked(*given))
    assert result.error is not None
    assert (result.status, result.pending) == (Status.INPUT_REQUIRED, pending)
    assert result.error.message.startswith(message)
    assert decode(encode(result)) == result


async def test_a_host_may_say_why_it_does_not_answer_now() -> None:
    class Away:
        def ask_user(self, question: str) -> str:
            raise Parked("nobody is here")

    async def script(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Who?")

    result = await run(Agent[Any]("a", engine=ScriptEngine(script)), "Go.", host=Away())
    (pending,) = result.pending
    assert isinstance(pending, PendingQuestion)
    assert pending.question == "Who?"


async def test_the_reasons_of_tasks_that_park_are_kept() -> None:
    async def script(run: Any, host: Any, board: Any) -> None:
        raise ExceptionGroup("both", [Parked("one"), Parked("two")])

    result = await run(Agent[Any]("a", engine=ScriptEngine(script)), "Go.")
    assert result.error is not None
    assert result.error.message == "The run was parked: one two"


@pytest.mark.parametrize("given", [None, 3, [3], object, {"q": QUESTION}, b"q"], ids=repr)
def test_what_nobody_can_answer_is_misuse(given: Any) -> None:
    with pytest.raises(Misuse, match="give what the run waits for"):
        Parked(given)


@pytest.mark.parametrize(
    ("signal", "cause", "detail"),
    [
        (Interrupted("user_cancel", None), "user_cancel", ""),  # type: ignore[arg-type]
        (Interrupted(None), "", ""),  # type: ignore[arg-type]
        (Interrupted("user_cancel", 3), "user_cancel", "3"),  # type: ignore[arg-type]
        (Interrupted(Why.USER), "user_cancel", ""),
    ],
    ids=["no detail", "no cause", "number", "enum"],
)
async def test_an_interrupt_can_be_read_back_whatever_it_was_given(
    signal: Interrupted, cause: str, detail: str
) -> None:
    result = await ended_by(signal)
    assert (result.status, result.cause, result.detail) == (Status.INTERRUPTED, cause, detail)
    assert decode(encode(result)) == result


def test_an_interrupt_made_by_hand_is_text() -> None:
    wish = Interrupt(None, None)  # type: ignore[arg-type]
    assert (wish.cause, wish.detail) == ("", "")


@pytest.mark.parametrize("cause", [None, 3], ids=repr)
async def test_who_interrupts_names_a_cause(cause: Any) -> None:
    async def script(run: Any, host: Any, board: Any) -> str:
        return "done"

    async with start(Agent[Any]("a", engine=ScriptEngine(script)), "Go.") as live:
        with pytest.raises(Misuse, match="the cause of an interrupt must be a text, got"):
            live.interrupt(cause)
        assert (await live.result()).output == "done"


@pytest.mark.parametrize(
    ("signal", "code"),
    [
        (Aborted("no"), "internal"),
        (Aborted("no", code="sold_out"), "sold_out"),
        (Failed("conflict", "both"), "conflict"),
        (Failed(AgentError("timeout", "late")), "timeout"),
    ],
    ids=str,
)
def test_what_ends_a_run_with_an_error_tells_its_code(signal: Aborted | Failed, code: str) -> None:
    again = pickle.loads(pickle.dumps(signal))
    assert (signal.code, again.code, again.error) == (code, code, signal.error)
    assert str(again) == str(signal)
