"""What is on disk when: before money is spent, before a write, before anybody is told."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import Safe, kinds, log_of
from upshot import (
    Agent,
    AgentError,
    ErrorCode,
    Interrupted,
    JournalError,
    ModelRequest,
    ModelResponse,
    Request,
    Retry,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    open_journal,
    run,
    start,
    tool,
)


class Looking:
    """Looks what is on disk while a model, a tool or a step is at work."""

    def __init__(self) -> None:
        self.journal = Safe()
        self.seen: list[str] = []

    def look(self, *_: Any) -> str:
        assert self.journal.safe == self.journal.order
        self.seen.append(self.journal.safe[-1].kind)
        return "seen"


@pytest.mark.parametrize("effect", ["write", "destructive"])
async def test_the_intent_of_a_tool_that_writes_is_on_disk_before_its_body(effect: Any) -> None:
    looking = Looking()

    @tool(effect=effect, approval=False)
    async def put() -> str:
        return looking.look()

    agent: Agent[str] = Agent("a", model=ScriptedModel([ToolCall("1", "put"), "Ok."]), tools=[put])
    assert (await run(agent, "?", journal=looking.journal)).success
    assert looking.seen == ["tool_started"]


async def test_all_that_was_done_is_on_disk_before_a_model_is_asked() -> None:
    looking = Looking()

    @tool(effect="read")
    async def read() -> int:
        return 1

    class Asked:
        name = "own:asked"

        async def call(self, request: ModelRequest) -> ModelResponse:
            looking.look()
            calls = () if len(looking.seen) > 1 else (ToolCall("1", "read"),)
            return ModelResponse(content="Ok.", tool_calls=calls)

    agent: Agent[str] = Agent("a", model=Asked(), tools=[read])  # type: ignore[arg-type]
    assert (await run(agent, "?", journal=looking.journal)).success
    assert looking.seen == ["model_started"] * 2


async def test_what_a_failed_try_used_is_on_disk_before_the_model_is_asked_again() -> None:
    looking = Looking()
    busy = AgentError(ErrorCode.SERVER_ERROR, "Busy.", retryable=True)

    def reply(_: Any) -> Any:
        looking.look()
        return busy if len(looking.seen) == 1 else "Ok."

    agent: Agent[str] = Agent("a", model=ScriptedModel(reply), retry=Retry(base_s=0))
    assert (await run(agent, "?", journal=looking.journal)).success
    assert looking.seen == ["model_started", "model_retried"]


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
async def test_a_step_that_writes_is_on_disk_before_and_after_it(*, fails: bool) -> None:
    looking = Looking()

    def write() -> str:
        looking.look()
        if fails:
            raise ValueError("no")
        return "done"

    async def work(run: Any, host: Any, board: Any) -> None:
        with contextlib.suppress(ValueError):
            await host.once("step", "write", write)
        looking.look()

    agent = Agent[Any]("a", engine=ScriptEngine(work))
    assert (await run(agent, "?", journal=looking.journal)).success
    assert looking.seen == ["step_started", "step_settled"]


@pytest.mark.parametrize("how", ["run", "start"])
@pytest.mark.parametrize("error", [None, Interrupted("custom"), ValueError("no")], ids=repr)
async def test_the_end_of_a_run_is_on_disk_when_its_result_is_there(
    how: str, error: Exception | None
) -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        if error is not None:
            raise error

    journal, agent = Safe(), Agent[Any]("a", engine=ScriptEngine(work))
    if how == "run":
        await run(agent, "?", journal=journal)
    else:
        async with start(agent, "?", journal=journal) as live:
            await live.result()
    assert journal.safe[-1].kind == "run_settled"


@pytest.fixture(params=["memory:", "runs.db"])
async def journal(request: Any, tmp_path: Path) -> AsyncIterator[Any]:
    where = request.param if request.param == "memory:" else tmp_path / request.param
    async with open_journal(where) as journal:
        yield journal


@pytest.mark.parametrize("how", ["run", "start"])
async def test_whose_run_was_taken_writes_no_more(how: str, journal: Any) -> None:
    async def robbed(run: Any, host: Any, board: Any) -> None:
        await journal.claim("r")
        board.set("late", value=True)

    agent, request = Agent[Any]("a", engine=ScriptEngine(robbed)), Request("?", run_id="r")
    if how == "run":
        result = await run(agent, request, journal=journal)
    else:
        async with start(agent, request, journal=journal) as live:
            result = await live.result()
    log = await log_of(journal, "r")
    assert kinds(log)[-1] in ("attempt_started", "board_changed")
    assert not any("late" in getattr(event, "variables", ()) for event in log)
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.type == JournalError.__name__
