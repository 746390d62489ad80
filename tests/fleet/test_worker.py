"""Workers take up the runs of an App, leave them to others, and may be killed at any moment."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.places import Place
from tests.processes import start_python
from tests.runs.kit import kinds, log_of
from upshot import Agent, App, Misuse, ModelRequest, ModelResponse, ToolCall, run, tool
from upshot.fleet.worker import Worker, choose
from upshot.journal.shared import DueRun


@asynccontextmanager
async def at_work(app: App, **options: Any) -> AsyncGenerator[Worker]:
    """A worker that is stopped in the end, and gives all back."""
    worker = Worker(app, **options)
    task = asyncio.create_task(worker.work())
    yield worker
    worker.stop()
    assert await task


class Steps:
    """A model that makes these calls one after the other in every run, and is done."""

    def __init__(self, *calls: ToolCall) -> None:
        self.calls = calls

    async def call(self, request: ModelRequest) -> ModelResponse:
        said = sum(message.role == "assistant" for message in request.messages)
        if said < len(self.calls):
            return ModelResponse(tool_calls=(self.calls[said],))
        return ModelResponse(content="Done.")


def speaker(id: str = "a") -> Agent[Any]:
    return Agent(id, model=Steps())


async def test_a_worker_takes_up_what_is_submitted_before_and_while_it_works(journal: Any) -> None:
    async with App([speaker()], journal=journal) as app, asyncio.timeout(60):
        runs = [await app.submit("a", "?") for _ in range(3)]
        async with at_work(app, concurrency=2):
            runs += [await app.submit("a", "?") for _ in range(3)]
            results = [await run.result() for run in runs]
    assert [result and result.output for result in results] == ["Done."] * 6


async def test_no_more_runs_than_agreed_are_worked_on_at_once(journal: Any) -> None:
    under_way, most, both = 0, 0, asyncio.Event()

    @tool(effect="read")
    async def work() -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if most == 2:
            both.set()
        await both.wait()
        await asyncio.sleep(0.01)
        under_way -= 1
        return "worked"

    agent = Agent("a", model=Steps(ToolCall("w", "work")), tools=[work])
    async with App([agent], journal=journal) as app, asyncio.timeout(60):
        runs = [await app.submit("a", "?") for _ in range(5)]
        async with at_work(app, concurrency=2):
            for run in runs:
                await run.result()
    assert most == 2


class Office:
    """An agent whose tool waits until somebody lets it."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.done: list[str] = []

        @tool(effect="write")
        async def work() -> str:
            self.begun.set()
            await self.may_end.wait()
            self.done.append("worked")
            return "worked"

        self.agent = Agent("a", model=Steps(ToolCall("w", "work")), tools=[work])


async def test_a_worker_that_ends_lets_steps_in_hand_end_and_leaves_the_rest_to_another(
    journal: Any,
) -> None:
    office = Office()
    async with App([office.agent], journal=journal) as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        first = Worker(app)
        task = asyncio.create_task(first.work())
        await office.begun.wait()
        first.stop()
        office.may_end.set()
        assert await task
        logged = kinds(await log_of(journal, run.id))
        assert logged[-2:] == ["tool_settled", "run_released"]
        (due,) = await app.due()
        assert (due.run_id, due.reason) == (run.id, "drain")
        async with at_work(app):
            result = await run.result()
        assert result is not None and (result.output, office.done) == ("Done.", ["worked"])


async def test_what_does_not_end_within_the_grace_is_unknown(journal: Any) -> None:
    office = Office()
    async with App([office.agent], journal=journal) as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        first = Worker(app, grace_s=0)
        task = asyncio.create_task(first.work())
        await office.begun.wait()
        first.stop()
        assert await task
        async with at_work(app):
            result = await run.result()
        assert result is not None
        assert (result.output, office.done) == ("Done.", [])
        assert result.tool_outcomes[0].effect == "unknown"


async def test_a_run_that_began_with_other_code_is_left_to_that(journal: Any) -> None:
    office = Office()
    old, new = (
        App([office.agent], journal=journal),
        App([office.agent], journal=journal, version="2"),
    )
    async with old, new, asyncio.timeout(60):
        run = await old.submit("a", "?")
        first = Worker(old, grace_s=0)
        task = asyncio.create_task(first.work())
        await office.begun.wait()
        first.stop()
        await task
        async with at_work(new, only_same_version=True) as other:
            while run.id not in other.refused:
                await asyncio.sleep(0.001)
        assert other.refused == {run.id: f"it began with version {old.version}"}
        assert await run.result(0) is None
        async with at_work(old):
            assert await run.result() is not None


async def test_a_run_that_lacks_what_it_was_given_keeps_no_worker_from_the_others(
    journal: Any,
) -> None:
    async with (
        App([speaker()], journal=journal, secrets=["hush"]) as teller,
        App([speaker()], journal=journal) as app,
        asyncio.timeout(60),
    ):
        secret = await teller.submit("a", "hush")
        plain = await app.submit("a", "?")
        async with at_work(app, concurrency=1) as worker:
            assert await plain.result() is not None
            while secret.id not in worker.refused:
                await asyncio.sleep(0.001)
        assert "give App(secrets=...)" in worker.refused[secret.id]


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"grace_s": -1.0}])
def test_what_is_out_of_range_is_misuse(options: Any) -> None:
    with pytest.raises(Misuse, match="must be"):
        Worker(App([speaker()]), **options)


DUE = st.builds(
    DueRun,
    run_id=st.uuids().map(str),
    agent_id=st.sampled_from("abc"),
    conversation=st.sampled_from(["", "x", "y"]),
    priority=st.integers(-1, 1),
    reason=st.sampled_from(["submitted", "conversation", "died", "released"]),
)


@given(st.lists(DUE, max_size=12), st.integers(0, 12), st.lists(DUE, max_size=4))
def test_larger_priorities_come_first_and_agents_take_turns(
    due: list[DueRun], count: int, taken: list[DueRun]
) -> None:
    chosen = choose(due, count, taken)
    assert len(chosen) == min(count, len(due))
    left = [one for one in due if one not in chosen]
    for one in left:
        assert all(other.priority >= one.priority for other in chosen)
        equal = [other for other in chosen if other.priority == one.priority]
        # What was worked on does not wait for what is new.
        assert one.is_new or not any(other.is_new for other in equal)
    last = chosen[-1] if chosen else None
    if last is not None:
        busy = Counter(one.agent_id for one in (*taken, *chosen))
        for one in left:
            # It was no worse off than who was chosen last.
            is_equal = (one.priority, one.is_new) == (last.priority, last.is_new)
            if is_equal and one.agent_id != last.agent_id:
                assert busy[one.agent_id] >= busy[last.agent_id] - 1


PROGRAM = """
import asyncio, os, pathlib
from upshot import Agent, App, ScriptedModel, ToolCall, tool

HERE = pathlib.Path(__file__).parent

@tool(effect="write")
async def work(step: int) -> str:
    with open(HERE / "done", "a") as file:
        file.write(f"{os.getpid()} {step}\\n")
    if step == 1 and not (HERE / "go").exists():
        (HERE / f"waits-{os.getpid()}").touch()
        await asyncio.Event().wait()
    return "worked"

steps = [ToolCall(f"c{n}", "work", {"step": n}) for n in range(3)]
agent = Agent("a", model=ScriptedModel([*steps, "Done."]), tools=[work])
app = App([agent], journal="WHERE", version="1")
"""


@pytest.fixture
def workers(tmp_path: Path, place: Place) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    (tmp_path / "app.py").write_text(PROGRAM.replace("WHERE", place.where))
    begun: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        begun.append(start_python("-m", "upshot", "work", tmp_path / "app.py", "--grace", "0"))
        return begun[-1]

    yield begin
    for process in begun:
        with process:
            process.kill()


async def waits(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until a worker is in the middle of a step."""
    while not (folder / f"waits-{process.pid}").exists():
        assert process.poll() is None
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
async def test_the_run_of_a_process_that_is_ended_is_taken_up_by_another(
    how: signal.Signals,
    tmp_path: Path,
    place: Place,
    workers: Callable[[], subprocess.Popen[bytes]],
) -> None:
    async with App([speaker()], journal=place.where, version="1") as app, asyncio.timeout(60):
        run = await app.submit("a", "?")
        first = workers()
        await waits(tmp_path, first)
        (tmp_path / "go").touch()
        first.send_signal(how)
        assert first.wait(20) == (0 if how is signal.SIGTERM else -signal.SIGKILL)
        second = workers()
        result = await run.result()
        second.send_signal(signal.SIGTERM)
        assert second.wait(20) == 0
    assert result is not None and result.output == "Done."
    done = [line.split() for line in (tmp_path / "done").read_text().splitlines()]
    assert [step for _, step in done] == ["0", "1", "2"]
    assert [outcome.effect for outcome in result.tool_outcomes] == ["applied", "unknown", "applied"]


async def test_a_worker_adds_ended_runs_to_the_search_index(tmp_path: Path) -> None:
    app = App([speaker()], journal=str(tmp_path / "runs.db"))
    async with app:
        journal: Any = await app.open()
        await run(speaker(), "Where is order 7?", journal=journal)
        await journal.make_search_index()
        assert await journal.search_index() == (0, 1)
        async with at_work(app):
            with journal.watch() as changes:
                while await journal.search_index() != (1, 0):
                    await changes.changed(0.01)
