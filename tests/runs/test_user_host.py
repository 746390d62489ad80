"""What a user's host may give, and what becomes of it where it is broken."""

from __future__ import annotations

import asyncio
import enum
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runs.kit import ADD, Do, add, measured
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Answer,
    Board,
    Budget,
    Cost,
    ErrorCode,
    Interrupted,
    ModelResponse,
    Parked,
    Retry,
    TextDelta,
    ToolCall,
    Usage,
    resume,
    run,
    run_sync,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


def warned(result: AgentResult[Any]) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in result.warnings]


class Cause(enum.Enum):
    CLOSING = "host_shutdown"


class Word(str, enum.Enum):  # noqa: UP042  # its str() is another than its value
    LUNCH = "lunch"


# -- the wish to stop


@pytest.mark.parametrize(
    ("given", "cause", "detail"),
    [
        (SimpleNamespace(cause="host_shutdown", detail="bye"), "host_shutdown", "bye"),
        (SimpleNamespace(cause=Cause.CLOSING), "host_shutdown", ""),
        (SimpleNamespace(cause=None, detail=7), "", "7"),
        (Interrupted("user_input", "wait"), "user_input", "wait"),
        ({"cause": "deadline", "detail": "late"}, "deadline", "late"),
        ({"cause": "lunch"}, "lunch", ""),
        ("user_cancel", "user_cancel", ""),
        (Word.LUNCH, "lunch", ""),
        ("we close", "we close", ""),
        (True, "", ""),
    ],
)
async def test_cause_and_detail_are_read_from_whatever_says_them(
    given: Any, cause: str, detail: str
) -> None:
    for host in (SimpleNamespace(interrupts=given), SimpleNamespace(interrupts=lambda: given)):
        result = await run(Agent("a", model=ScriptedModel(["Hi."])), "?", host=host)
        assert (result.status, result.cause, result.detail) == ("interrupted", cause, detail)


class Property:
    """A host whose property of one name raises."""

    def __init__(self, name: str, error: BaseException) -> None:
        self._name, self._error = name, error

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise self._error
        raise AttributeError(name)


def looking(times: int) -> Do:
    async def work(run: Any, host: Any, board: Any) -> str:
        for _ in range(times):
            assert not host.interrupts
            assert await host.interrupts() is None
        return "fine"

    return Do(work)


@pytest.mark.parametrize(
    "name", ["publish", "interrupts", "ask_user", "checkpoint", "report_usage"]
)
@pytest.mark.parametrize("error", [ValueError("no host"), SystemExit("no host")])
async def test_a_property_that_raises_is_one_warning(name: str, error: BaseException) -> None:
    def use(run: Any, host: Any, board: Any) -> Any:
        host.report_usage(Usage(input_tokens=1))
        assert host.keeps_checkpoints is (name == "checkpoint")

    async def work(run: Any, host: Any, board: Any) -> str:
        use(run, host, board)
        await looking(2).execute(run, host, board)
        for _ in range(2):
            await host.checkpoint(host_point(run, board))
        with pytest.raises(Parked):
            await host.ask_user("Who?")
        return "fine"

    result = await run(Agent("a", engine=Do(work)), "?", host=Property(name, error))
    kind = type(error).__name__
    assert (result.status, result.output) == ("completed", "fine")
    assert warned(result) == [("host_failed", f"host.{name} raised {kind}: no host")]


def host_point(run: Any, board: Any) -> Any:
    from upshot import Checkpoint

    return Checkpoint(run.id, "s", board.snapshot())


async def test_a_failure_is_told_once_for_each_kind() -> None:
    errors: list[Exception] = [ValueError("one"), ValueError("two"), KeyError("three")] * 2

    def interrupts() -> None:
        raise errors.pop()

    host = SimpleNamespace(interrupts=interrupts)
    result = await run(Agent("a", engine=looking(3)), "?", host=host)
    assert sorted(message.split(":")[0] for _, message in warned(result)) == [
        "host.interrupts raised KeyError",
        "host.interrupts raised ValueError",
    ]


async def test_a_wish_that_cannot_be_read_is_none_and_a_warning() -> None:
    class Odd:
        def __bool__(self) -> bool:
            raise ValueError("neither true nor false")

    result = await run(Agent("a", engine=looking(2)), "?", host=SimpleNamespace(interrupts=Odd()))
    assert result.success
    assert [code for code, _ in warned(result)] == ["host_failed"]


@pytest.mark.parametrize("name", ["publish", "report_usage"])
async def test_what_an_async_host_raises_late_is_told_before_the_run_ends(name: str) -> None:
    async def broken(_: object) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        raise ValueError("no host")

    seen = list[AgentResult[Any]]()
    observer = SimpleNamespace(on_run_end=lambda info, result: seen.append(result))
    reply = ModelResponse(content="Hi.", usage=Usage(input_tokens=1))
    agent = Agent("a", model=ScriptedModel([reply]), observers=[observer])
    result = await run(agent, "?", host=SimpleNamespace(**{name: broken}))
    assert (result.status, result.content) == ("completed", "Hi.")
    assert warned(result) == [("host_failed", f"host.{name} raised ValueError: no host")]
    assert seen == [result]


async def test_an_async_host_that_hangs_is_waited_for_once() -> None:
    told = list[str]()

    async def publish(event: Any) -> None:
        told.append(event.kind)
        await asyncio.Event().wait()

    host = SimpleNamespace(publish=publish)
    budget = Budget(deadline_s=0.05)
    result = await run(Agent("a", engine=Do(looking(1).execute)), "?", host=host, budget=budget)
    ((code, message),) = warned(result)
    assert (result.output, code) == ("fine", "host_failed")
    assert message == "host.publish raised TimeoutError: it took too long and was cancelled"
    assert told == ["run_started"]


async def test_a_host_that_hangs_keeps_no_observer_from_the_end_of_a_cancelled_run() -> None:
    heard, seen = asyncio.Event(), list[str]()

    async def publish(event: Any) -> None:
        heard.set()
        await asyncio.Event().wait()

    async def on_run_end(info: Any, result: AgentResult[Any]) -> None:
        await asyncio.sleep(0)
        seen.append(result.status)

    async def work(run: Any, host: Any, board: Any) -> None:
        await asyncio.Event().wait()

    agent = Agent("a", engine=Do(work), observers=[SimpleNamespace(on_run_end=on_run_end)])
    task = asyncio.ensure_future(run(agent, "?", host=SimpleNamespace(publish=publish)))
    await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["canceled"]


# -- what an engine tells it


@pytest.mark.parametrize("given", [{"k": 1}, "text", None])
async def test_what_is_no_event_is_told_in_one_warning(given: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        await host.publish(given)
        host.publish(given)
        host.publish(TextDelta(text="fine"))
        return "fine"

    result = await run(Agent("a", engine=Do(work)), "?")
    ((code, message),) = warned(result)
    assert (result.output, code) == ("fine", "event_refused")
    assert f"of type {type(given).__name__}, which is not an event" in message


async def test_what_is_no_checkpoint_is_misuse_in_one_sentence() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await host.checkpoint(5)

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert result.error.type == "Misuse"
    assert result.error.message.startswith("host.checkpoint was given a value of type int: give")


# -- what it prepares, and what it waits for


async def test_a_seeder_may_give_a_board_of_its_own_making() -> None:
    board = Board()
    board.set("seeded", value=True)
    made = SimpleNamespace(snapshot=board.snapshot)
    engine = Do(lambda run, host, board: board.get("seeded"))
    result = await run(Agent("a", engine=engine), "?", prepare=lambda *_: made)
    assert result.output is True


async def test_a_person_who_is_asked_may_end_the_run() -> None:
    def ask_user(question: str) -> str:
        raise Interrupted("user_input", "not now")

    async def work(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("May I?")

    host = SimpleNamespace(ask_user=ask_user)
    result = await run(Agent("a", engine=Do(work)), "?", host=host)
    assert (result.status, result.cause, result.detail) == ("interrupted", "user_input", "not now")


@pytest.mark.parametrize("made", [5, "board", [1]])
async def test_a_seeder_that_gives_no_board_is_told_so_in_one_sentence(made: Any) -> None:
    result = await run(Agent("a", engine=Do(print)), "?", prepare=lambda *_: made)
    assert result.error is not None
    kind = type(made).__name__
    assert result.error.message == (
        f"prepare returned a value of type {kind}: return the Board that the run must start with"
    )


async def test_a_run_that_parks_without_a_question_says_how_it_goes_on() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        raise Parked

    result = await run(Agent("a", engine=Do(work)), "?")
    assert result.error is not None
    assert (result.status, result.pending) == ("input_required", ())
    assert "without a question: resume it to continue" in result.error.message


# -- what was used


class Meter:
    """A host that adds up what it is told."""

    def __init__(self) -> None:
        self.told: list[Usage] = []

    def report_usage(self, delta: Usage) -> None:
        assert delta.api_calls is not None
        self.told.append(delta)

    def tokens(self) -> list[int | None]:
        return [delta.input_tokens for delta in self.told]

    def money(self) -> list[float | None]:
        return [delta.estimated_cost for delta in self.told]


class SlowMeter(Meter):
    async def report_usage(self, delta: Usage) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().report_usage(delta)


def priced(content: str | None = None, *calls: ToolCall) -> ModelResponse:
    return measured(content, *calls, cost=Cost(total="0.5"))


@pytest.mark.parametrize("meter", [Meter, SlowMeter])
async def test_the_host_is_told_what_each_model_call_used(meter: type[Meter]) -> None:
    host = meter()
    model = ScriptedModel([priced(None, ADD), measured("Three.")])
    result = await run(Agent("a", model=model, tools=[add]), "?", host=host)
    assert (host.tokens(), host.money()) == ([10, 10], [0.5, None])
    assert sum(host.told, Usage()) == result.usage


async def test_failed_tries_are_told_too() -> None:
    host = Meter()
    model = ScriptedModel([AgentError(ErrorCode.SERVER_ERROR, retryable=True), measured("Hi.")])
    await run(Agent("a", model=model, retry=Retry(base_s=0)), "?", host=host)
    assert [delta.api_calls for delta in host.told] == [1, 1]


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("levels", [1, 2])
async def test_what_runs_inside_use_is_told_once(is_shared: bool, levels: int) -> None:
    host = Meter()
    inner = Agent("b", model=ScriptedModel(lambda _: priced("Hi.")))

    def calling(level: int) -> Agent[Any]:
        async def work(run: Any, _: Any, board: Any) -> None:
            options: dict[str, Any] = {"host": host} if is_shared and level == 1 else {}
            await run.child(inner if level == 1 else calling(level - 1), "?", **options)

        return Agent("a", engine=Do(work))

    result = await run(calling(levels), "?", host=host)
    assert (host.tokens(), host.money()) == ([10], [0.5])
    assert sum(host.told, Usage()) == result.usage


async def test_a_run_inside_in_another_thread_is_told_in_the_loop_of_the_host() -> None:
    inner = Agent("b", model=ScriptedModel(lambda _: measured("Hi.")))
    loops: list[Any] = []

    class Here(Meter):
        def report_usage(self, delta: Usage) -> None:
            loops.append(asyncio.get_running_loop())
            super().report_usage(delta)

    host = Here()

    async def work(run: Any, _: Any, board: Any) -> None:
        await asyncio.to_thread(run_sync, inner, "?")

    await run(Agent("a", engine=Do(work)), "?", host=host)
    assert (host.tokens(), loops) == ([10], [asyncio.get_running_loop()])


@pytest.mark.parametrize(
    "delta", [Usage(input_tokens=3), ModelResponse(usage=Usage(input_tokens=3))]
)
async def test_what_an_engine_reports_reaches_the_host_as_usage(delta: Any) -> None:
    host = Meter()

    def work(run: Any, inner: Any, board: Any) -> None:
        inner.report_usage(delta)

    await run(Agent("a", engine=Do(work)), "?", host=host)
    assert (host.tokens(), host.money()) == ([3], [None])


async def test_a_session_tells_only_what_it_used_itself() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        await run.call_model("one")
        answer = await host.ask_user("Go?", key="go")
        await run.call_model("two")
        return answer

    first, second, journal = Meter(), Meter(), MemoryJournal()
    model = ScriptedModel(lambda _: measured("Hi."))
    agent = Agent("a", model=model, engine=Do(work))
    parked = await run(agent, "?", host=first, journal=journal)
    answers = [Answer("go", "yes")]
    result = await resume(parked.run_id, agent, journal=journal, host=second, answers=answers)
    assert (first.tokens(), second.tokens()) == ([10], [10, 10])
    assert result.usage.api_calls == 3


@pytest.mark.parametrize("given", [asyncio.Queue(), asyncio.Event(), 5, [1], object()])
async def test_what_is_no_request_to_stop_is_a_warning(given: Any) -> None:
    for host in (SimpleNamespace(interrupts=given), SimpleNamespace(interrupts=lambda: given)):
        result = await run(Agent("a", model=ScriptedModel(["Hi."])), "?", host=host)
        assert result.content == "Hi."
        (warning,) = result.warnings
        assert (warning.code, "not a request to stop" in warning.message) == ("host_failed", True)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", ["publish", "report_usage"])
async def test_one_call_that_raises_is_the_only_one_lost(*, name: str, is_async: bool) -> None:
    told: list[Any] = []

    class Looker:
        pass

    def take(fact: Any) -> None:
        told.append(fact)
        if len(told) == 1:
            raise ValueError("once")

    async def take_later(fact: Any) -> None:
        take(fact)

    setattr(Looker, name, staticmethod(take_later if is_async else take))
    model = ScriptedModel([ToolCall("c", "nope", {}), "Done."])
    result = await run(Agent("a", model=model), "?", host=Looker())
    assert len(told) > 1
    assert [one.code for one in result.warnings] == ["host_failed"]


async def test_an_engine_reaches_what_else_the_users_host_has() -> None:
    class Desk:
        name = "front"

        async def look_up(self, order: int) -> str:
            return f"order {order}"

    async def work(run: Any, host: Any, board: Any) -> str:
        assert not hasattr(host, "_secret")
        assert not hasattr(host, "nothing_like_it")
        return f"{host.name}: {await host.look_up(7)}"

    result = await run(Agent("a", engine=Do(work)), "?", host=Desk())
    assert result.output == "front: order 7"


async def test_without_a_host_there_is_nothing_else_to_reach() -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        return str(hasattr(host, "look_up"))

    assert (await run(Agent("a", engine=Do(work)), "?")).output == "False"
