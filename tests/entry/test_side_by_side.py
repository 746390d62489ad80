"""Two tasks of one process that want the same run: one has it, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import Do, log_of
from upshot import (
    Agent,
    AgentResult,
    Answer,
    JournalError,
    Misuse,
    Request,
    RunStarted,
    open_journal,
    resume,
    run,
)


@pytest.fixture(params=["file", "memory"])
async def journal(request: Any, tmp_path: Path) -> Any:
    where = tmp_path / "runs.db" if request.param == "file" else "memory:"
    async with open_journal(where) as opened:
        yield opened


def asking(bodies: list[Any], wait_s: float) -> Agent:
    async def work(run: Any, host: Any, board: Any) -> Any:
        answer = await host.ask_user("?")
        bodies.append(answer)
        await asyncio.sleep(wait_s)
        return answer

    return Agent("a", engine=Do(work))


@pytest.mark.parametrize("wait_s", [0, 0.005])
@pytest.mark.parametrize("ahead", range(4))
async def test_of_two_that_resume_one_is_told_and_in_the_log(
    journal: Any, wait_s: float, ahead: int
) -> None:
    agent = asking([], wait_s)
    first = await run(agent, Request("?", run_id="r"), journal=journal)
    (waits,) = first.pending

    async def go_on(word: str) -> Any:
        for _ in range(ahead if word == "B" else 0):
            await asyncio.sleep(0)
        answers = [Answer(waits.id, word)]
        return await resume("r", agent, journal=journal, answers=answers)

    both = await asyncio.gather(go_on("A"), go_on("B"), return_exceptions=True)
    done = [one for one in both if isinstance(one, AgentResult) and one.success]
    later = await resume("r", agent, journal=journal)
    assert later.success
    assert {one.output for one in done} == {later.output}
    assert (await log_of(journal, "r"))[-1].kind == "run_settled"


async def test_of_two_runs_with_one_id_the_second_is_refused(journal: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        await asyncio.sleep(0.005)
        return run.request.text

    agent = Agent("a", engine=Do(work))
    first, second = await asyncio.gather(
        *(run(agent, Request(word, run_id="r"), journal=journal) for word in "AB"),
        return_exceptions=True,
    )
    assert not isinstance(first, BaseException)
    assert first.output == "A"
    assert isinstance(second, Misuse)
    assert [event.kind for event in await log_of(journal, "r")][-1] == "run_settled"
    with pytest.raises(Misuse, match="continue it with resume"):
        await run(agent, Request("C", run_id="r"), journal=journal)


async def test_who_is_taken_over_from_can_append_nothing_more(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "runs.db") as journal:
        epochs = await asyncio.gather(*(journal.claim("r") for _ in range(3)))
        mine = RunStarted(run_id="r", seq=1, request=Request("?"))
        for epoch in sorted(epochs)[:-1]:
            with pytest.raises(JournalError, match="has taken it"):
                journal.append(mine, epoch=epoch)
        journal.append(mine, epoch=max(epochs))
        await journal.durable("r", 1)


@pytest.mark.parametrize("ahead", range(4))
async def test_a_claim_that_fails_leaves_the_run_that_is_under_way(
    tmp_path: Path, ahead: int
) -> None:
    path = tmp_path / "runs.db"
    refused: list[Any] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        await host.once("before", "write", lambda: 1)
        with contextlib.closing(sqlite3.connect(path)) as file, file:
            file.execute("UPDATE events SET body = 'x' WHERE id & 4294967295 = 1")
        claim = asyncio.create_task(journal.claim("r"))
        for _ in range(ahead):
            await asyncio.sleep(0)
        await host.once("after", "read", lambda: 1)
        refused.extend(await asyncio.gather(claim, return_exceptions=True))
        return "Done."

    async with open_journal(path) as journal:
        agent = Agent("a", engine=Do(work))
        result = await run(agent, Request("?", run_id="r"), journal=journal)
    assert (result.status, result.output, result.error) == ("completed", "Done.", None)
    assert isinstance(refused[0], JournalError)
    with contextlib.closing(sqlite3.connect(path)) as file:
        kinds = file.execute("SELECT kind FROM events ORDER BY id").fetchall()
    assert kinds[-1] == ("run_settled",)
