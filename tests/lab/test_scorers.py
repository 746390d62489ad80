"""What scorers say of a trial."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    Misuse,
    Policy,
    Request,
    ScriptedModel,
    ToolCall,
    ToolError,
    lab,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.lab import Case, Dataset


@tool(effect="read")
def find(id: int) -> str:
    """Find."""
    raise ToolError("no such order")


@tool(effect="write", approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@tool(effect="write", deny=True)
def drop(id: int) -> str:
    """Drop."""
    return "dropped"


def desk(*calls: ToolCall) -> Agent[Any]:
    def reply(messages: Any) -> Any:
        return "Done." if any(one.tool_call_id for one in messages) else list(calls)

    return Agent("desk", model=ScriptedModel(reply), tools=[find, pay, drop])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1], {}], ids=str)
def test_the_value_of_a_score_is_a_finite_number_or_a_text(value: Any) -> None:
    with pytest.raises(Misuse, match="value"):
        lab.Score(value=value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lab.same_effects, r"same_effects does not take .* call it, as in lab.same_effects\(\)"),
        (lab.contains, r"contains does not take .* call it, as in lab.contains\(\.\.\.\)"),
        (lambda: 1, r"the scorer <lambda> does not take \(case, result\)$"),
    ],
    ids=["built in", "with arguments", "own"],
)
async def test_a_scorer_that_cannot_be_called_is_refused_at_the_start(
    given: Any, said: str
) -> None:
    dataset = Dataset("one", (Case(id="1", request=Request("Hi.")),))
    with pytest.raises(Misuse, match=said):
        await lab.run(dataset, desk(), scorers=[given], journal="memory:")


CALLS = [
    ToolCall("f", "find", {"id": 3}),
    ToolCall("p", "pay", {"cents": 5}),
    ToolCall("d", "drop", {"id": 1}),
]


async def scores_of(*scorers: Any, calls: Any = CALLS, **options: Any) -> dict[str, lab.Score]:
    journal = MemoryJournal()
    await run(desk(*CALLS), Request("Go.", run_id="r"), journal=journal, approve=lambda asked: True)
    dataset = await Dataset.from_journal(journal)
    options = {"journal": "memory:", "scorers": scorers, **options}
    report = await lab.run(dataset, desk(*calls), **options)
    return report.of("today")[0].scores


async def test_a_policy_is_scored_by_what_it_asks_about_and_denies() -> None:
    score = (await scores_of(lab.policy()))["policy"]
    assert score.value == 2
    assert score.reason == 'asked: pay {"cents": 5}; denied (deny_condition): drop {"id": 1}'
    calls = [ToolCall("p", "pay", {"cents": 9})]
    score = (await scores_of(lab.policy(), calls=calls))["policy"]
    assert score.value == 1
    assert score.reason == 'asked: pay {"cents": 9}; denied (not_recorded): pay {"cents": 9}'
    calls = [ToolCall("f", "find", {"id": 4})]
    assert (await scores_of(lab.policy(), calls=calls))["policy"].value == 0


async def test_another_policy_is_scored_by_what_it_denies() -> None:
    journal = MemoryJournal()
    await run(desk(CALLS[0]), Request("Go.", run_id="r"), journal=journal)
    strict = lab.Variant(desk(CALLS[0]), policy=Policy(deny=["find"]))
    report = await lab.run(
        await Dataset.from_journal(journal),
        {"today": desk(CALLS[0]), "strict": strict},
        scorers=[lab.policy()],
        journal="memory:",
    )
    assert [row.scores["policy"].value for row in report.rows[1:]] == [0, 1]


async def test_errors_are_failed_calls_and_a_failed_run() -> None:
    score = (await scores_of(lab.errors()))["errors"]
    assert (score.value, score.reason) == (1, 'find {"id": 3}: no such order')

    def broken(messages: Any) -> Any:
        raise ValueError("a bug")

    dataset = Dataset("one", (Case(id="1", request=Request("q")),))
    agent = Agent("desk", model=ScriptedModel(broken))
    report = await lab.run(dataset, agent, scorers=[lab.errors()], journal="memory:")
    score = report.of("today")[0].scores["errors"]
    assert (score.value, score.reason) == (1, "the run: internal")


async def test_a_scorer_may_give_several_scores() -> None:
    def both(case: Any, result: Any) -> Any:
        return {"short": len(result.content) < 9, "mood": lab.Score(value="kind", reason="why")}

    scores = await scores_of(both)
    assert scores["both.short"] == lab.Score(value=1.0)
    assert scores["both.mood"] == lab.Score(value="kind", reason="why")


async def test_the_names_of_several_scores_are_those_of_the_report() -> None:
    dataset = Dataset("one", (Case(id="1", request=Request("q")),))

    def both(case: Any, result: Any) -> Any:
        return {"a": 1, "b": 2}

    scorers: Any = [both, lab.completed()]
    report = await lab.run(dataset, desk(CALLS[0]), scorers=scorers, journal="memory:")
    assert report.scorers == ("both.a", "both.b", "completed")
    assert report.facts("today")["score"] == {"both_a": 1, "both_b": 2, "completed": 1}


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="the extra is installed")
@pytest.mark.parametrize("what", ["to_inspect", "to_pydantic_evals", "from_inspect"])
async def test_what_needs_the_extra_says_so(what: str, tmp_path: Path) -> None:
    dataset = Dataset("one", (Case(id="1", request=Request("q")),))
    report = await lab.run(dataset, desk(), journal="memory:")
    calls: dict[str, Any] = {
        "to_inspect": lambda: report.to_inspect(tmp_path),
        "to_pydantic_evals": report.to_pydantic_evals,
        "from_inspect": lambda: lab.from_inspect(tmp_path / "log.eval"),
    }
    with pytest.raises(Misuse, match=r"needs an extra: pip install 'upshot-agents\[lab\]'"):
        calls[what]()
