"""What a door that goes on with a run says of wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentResult,
    Decider,
    FinalizeDecision,
    Misuse,
    Observer,
    ToolCall,
    Usage,
    fork,
    reopen,
    replay,
    resume,
    run,
    run_with_handoffs,
)
from upshot.models import ScriptedModel


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


async def go_on_by_reopen(run_id: Any, agent: Any, **options: Any) -> None:
    async with reopen(run_id, agent, **options):
        pass


async def go_on_by_fork(run_id: Any, agent: Any, **options: Any) -> None:
    await fork(run_id, at=1, **options)


DOORS = pytest.mark.parametrize("door", [resume, go_on_by_reopen, replay, go_on_by_fork])


@DOORS
async def test_a_result_in_place_of_the_runs_id_is_told(
    tmp_path: Path, door: Callable[..., Any]
) -> None:
    result = AgentResult[str](run_id="r1")
    with pytest.raises(
        Misuse, match=r"must be the id of a run, .* got AgentResult: give its run_id"
    ):
        await door(result, hello(), journal=tmp_path / "runs.db")


@DOORS
async def test_an_agent_in_place_of_the_runs_id_is_told(
    tmp_path: Path, door: Callable[..., Any]
) -> None:
    with pytest.raises(Misuse, match="give the run's id first, then the agent"):
        await door(hello(), "r1", journal=tmp_path / "runs.db")


@pytest.mark.parametrize("door", [resume, go_on_by_reopen])
@pytest.mark.parametrize(
    ("wrong", "right"), [("answer", "answers"), ("takeover", "take_over"), ("jurnal", "journal")]
)
async def test_a_typo_names_what_resume_takes_beside_the_options(
    tmp_path: Path, door: Callable[..., Any], wrong: str, right: str
) -> None:
    journal = tmp_path / "runs.db"
    await run(hello(), "?", journal=journal)
    with pytest.raises(Misuse, match=f"no option '{wrong}': did you mean '{right}'"):
        await door("r1", hello(), journal=journal, **{wrong: []})


async def test_the_list_of_options_has_what_resume_takes_and_nothing_internal(
    tmp_path: Path,
) -> None:
    options: Any = {"zzz": 1}
    with pytest.raises(Misuse) as caught:
        await resume("r1", hello(), journal=tmp_path / "runs.db", **options)
    named = str(caught.value).partition("there are ")[2].split(", ")
    assert {"answers", "budget", "journal", "take_over"} <= set(named)
    assert "launch" not in named


async def test_an_option_of_another_kind_is_named_as_it_is_said() -> None:
    budget: Any = Usage()
    with pytest.raises(Misuse, match="budget must be a Budget, got Usage"):
        await run(hello(), "?", budget=budget)


class Told(Observer):
    def __init__(self) -> None:
        self.by: list[str] = []

    def on_run_end(self, info: Any, result: Any) -> None:
        self.by.append(info.agent_id)


class Guard(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.discard("never")


async def test_hooks_that_can_be_read_only_once_are_asked_all_the_same() -> None:
    told, guards = Told(), [Guard()]
    observers, deciders = iter([told]), (guard for guard in guards)
    result = await run(hello(), "Go.", observers=observers, deciders=deciders)
    assert (told.by, result.committed) == (["a"], False)


async def test_hooks_that_can_be_read_only_once_hold_for_every_agent_on_the_way() -> None:
    first = Agent(
        "first",
        model=ScriptedModel([ToolCall("c1", "transfer_to_a", {})]),
        handoffs=[hello()],
    )
    told = Told()
    result = await run_with_handoffs([first], "Go.", observers=iter([told]))
    assert (result.content, told.by) == ("Hello.", ["first", "a"])


async def test_what_can_be_read_only_once_is_looked_at_too() -> None:
    with pytest.raises(Misuse, match="committers must be a list of functions, got 1 in it"):
        await run(hello(), "Go.", committers=iter([1]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("max_turns", "budget=Budget(max_turns=...)"),
        ("temperature", "settings=ModelSettings(temperature=...)"),
        ("taint", "policy=Policy(taint=...)"),
        ("context_id", "Request(context_id=...)"),
    ],
)
async def test_a_field_in_place_of_an_option_is_told_where_it_goes(name: str, home: str) -> None:
    options: Any = {name: 1}
    with pytest.raises(Misuse) as caught:
        await run(hello(), "?", **options)
    assert str(caught.value) == f"a run has no option {name!r}: give {home}"
