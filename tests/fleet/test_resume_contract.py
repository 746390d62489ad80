"""What holds of a run that processes die of and race for, on a file and in PostgreSQL.

Prefix continuation: what was in the log stays there, and the rest follows. Exactly once: each
effect takes place once, or its outcome says that nobody knows. Consumed once: of the answers of
many the first one stands, and is logged once. Fork determinism and recovery determinism: processes
that go on from one point apart from each other come to the same. Checkpoint validity: the state at
a point is that which the log up to there gives.

``UPSHOT_FLEET=1`` has 2 to 16 processes, and a death at each event.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.fleet.resuming import RUN, make
from tests.places import Place
from tests.processes import start_python
from upshot import (
    AgentResult,
    Event,
    Status,
    ToolSettled,
    encode,
    open_journal,
    resume,
    run,
    states,
)
from upshot.contract import Request
from upshot.contract.tool_calls import outcome_to_model_content

IS_LARGE = bool(os.environ.get("UPSHOT_FLEET"))
COUNTS = [2, 4, 8, 16] if IS_LARGE else [2]
# Of a run up to its question: where a write has begun, and where it has ended.
DEATHS = range(2, 23) if IS_LARGE else [9, 16]
# Each number of processes comes with every fourth death: with all of them it takes an hour.
PAIRS = [(COUNTS[at % len(COUNTS)], at) for at in DEATHS]
EFFECTS = ["pay 1", "pay 2", "sign 3"]


def start(*arguments: object) -> Any:
    return start_python(
        "-m", "tests.fleet.resuming", *arguments, stdin=PIPE, stdout=PIPE, text=True
    )


def at_once(*calls: tuple[object, ...]) -> list[str]:
    """Have a process for each of *calls* do it; what they said, once all have ended well."""
    processes = [start(*call) for call in calls]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said


def die(place: Place, effects: Path, at: int) -> None:
    """Have a process work on the run until it kills itself, or until the run waits."""
    process = start("work", place.where, effects, RUN, at)
    process.communicate("\n")


async def log_of(place: Place, run_id: str = RUN) -> list[Event]:
    async with open_journal(place.where) as journal:
        return [event async for event in journal.events(run_id)]


def facts(result: AgentResult[Any]) -> tuple[object, ...]:
    """What a result says, but for ids and times."""
    return (
        result.status,
        result.content,
        [(one.role, one.content) for one in result.messages],
        [(one.call_id, one.outcome.kind, one.effect) for one in result.tool_records],
    )


def outline(events: list[Event]) -> list[tuple[object, ...]]:
    """What a log says, but for ids, times and sessions."""
    return [
        (event.kind, event.record.call_id, outcome_to_model_content(event.record.outcome))
        if isinstance(event, ToolSettled)
        else (event.kind,)
        for event in events
    ]


def unknown(events: list[Event]) -> set[str]:
    """The effects of which the log says that nobody knows."""
    return {
        f"pay {one.record.call_id.removeprefix('p')}"
        for one in events
        if isinstance(one, ToolSettled) and one.record.outcome.effect == "unknown"
    }


@pytest.mark.slow("*-16")
@pytest.mark.parametrize(("count", "at"), PAIRS)
async def test_a_run_is_worked_on_once_to_its_end_wherever_a_process_dies(
    place: Place, tmp_path: Path, count: int, at: int
) -> None:
    effects = tmp_path / "effects"
    die(place, effects, at)
    before = await log_of(place)
    said = at_once(*[("work", place.where, effects)] * count)
    # Whoever comes when it waits already finds it so.
    assert set(said) <= {"input_required", "elsewhere"} and "input_required" in said
    told = at_once(*[("give", place.where, effects, "yes", f"p{n}") for n in range(count)])
    assert Counter(told) == {"Taken yes": 1, **({"Outdated yes": count - 1} if count > 1 else {})}
    assert "completed" in at_once(*[("work", place.where, effects)] * count)
    after = await log_of(place)
    assert [encode(one) for one in after[: len(before)]] == [encode(one) for one in before]
    assert [one.seq for one in after] == list(range(1, len(after) + 1))
    kinds = Counter(one.kind for one in after)
    assert (kinds["run_started"], kinds["approval_answered"]) == (1, 1)
    settled = [one.record.call_id for one in after if isinstance(one, ToolSettled)]
    assert sorted(settled) == ["l", "p1", "p2", "s"]
    done = Counter(effects.read_text().splitlines())
    assert all(done[one] == 1 or one in unknown(after) for one in EFFECTS)
    assert max(done.values()) == 1
    result = await resume(RUN, make(str(effects)), journal=place.where)
    assert (result.status, result.content) == (Status.COMPLETED, "Done.")


@pytest.mark.parametrize("count", COUNTS)
async def test_the_first_answer_of_many_is_the_one_that_counts(
    place: Place, tmp_path: Path, count: int
) -> None:
    effects = tmp_path / "effects"
    assert at_once(("work", place.where, effects)) == ["input_required"]
    calls = [("give", place.where, effects, ("yes", "no")[n % 2], f"p{n}") for n in range(count)]
    told = at_once(*calls)
    (taken,) = [one for one in told if one.startswith("Taken")]
    verdict = taken.removeprefix("Taken ")
    assert set(told) - {taken} <= {f"Outdated {verdict}"}
    assert "completed" in at_once(*[("work", place.where, effects)] * count)
    assert ("sign 3" in effects.read_text()) == (verdict == "yes")
    kinds = Counter(one.kind for one in await log_of(place))
    assert kinds["approval_answered"] == 1


@pytest.mark.parametrize(("count", "at"), PAIRS if IS_LARGE else PAIRS[:1])
async def test_processes_that_go_on_from_one_point_apart_come_to_the_same(
    place: Place, tmp_path: Path, count: int, at: int
) -> None:
    whole, effects = tmp_path / "whole", tmp_path / "effects"
    await run(make(str(whole)), Request("Go.", run_id=RUN), journal=place.where)
    origin = await log_of(place)
    point = min(at, len(origin) - 1)
    forks = at_once(*[("fork", place.where, effects, point)] * count)
    assert len(set(forks)) == count
    assert await log_of(place) == origin
    first, *others = [outline(await log_of(place, fork)) for fork in forks]
    for other in others:
        assert [pair for pair in zip_longest(first, other) if pair[0] != pair[1]] == []
    results = [await resume(fork, make(str(effects)), journal=place.where) for fork in forks]
    assert all(facts(one) == facts(results[0]) for one in results)
    async with open_journal(place.where) as journal:
        boards = [await board_at(journal, one, point) for one in (RUN, *forks)]
    assert all(one == boards[0] for one in boards)


async def board_at(journal: Any, run_id: str, seq: int) -> object:
    async for event, state in states(journal.events(run_id)):
        if event.seq == seq:
            return encode(state.board.snapshot())
    raise AssertionError(f"{run_id} has no event {seq}")
