"""Evaluators of pydantic-evals judge runs of the lab, and its report shows them."""

import io
from dataclasses import dataclass

import pytest
from pydantic_evals.evaluators import (
    ArgumentCorrectness,
    Contains,
    EqualsExpected,
    EvaluationReason,
    Evaluator,
    EvaluatorContext,
    HasMatchingSpan,
    IsInstance,
    MaxDuration,
    MaxModelRequests,
    MaxToolCalls,
    ToolCorrectness,
    TrajectoryMatch,
)
from rich.console import Console

from tests.lab_real.kit import desk, recorded, reported
from upshot import Misuse, lab


@dataclass
class Level(Evaluator):
    def evaluate(self, ctx: EvaluatorContext):
        level = ctx.metadata["level"]
        return {
            "level": level,
            "is_low": level < 3,
            "word": EvaluationReason("low" if level < 3 else "high", reason=f"it is {level}"),
        }


@dataclass
class Late(Evaluator):
    async def evaluate(self, ctx: EvaluatorContext) -> EvaluationReason:
        facts = (ctx.name, ctx.inputs, ctx.output, ctx.metrics["requests"], ctx.duration >= 0)
        return EvaluationReason(True, reason=repr(facts))


async def scores_of(*evaluators, expected="Order 1 is refunded."):
    (case,) = await recorded(range(1, 2))
    dataset = lab.Dataset("one", (lab.Case(**{**_fields(case), "expected": expected}),))
    report = await lab.run(dataset, desk(), scorers=evaluators, journal="memory:")
    return report, report.of("today")[0].scores


def _fields(case):
    return {name: getattr(case, name) for name in case.__struct_fields__}


async def test_evaluators_are_taken_as_they_are() -> None:
    _, scores = await scores_of(
        Contains(value="refunded"), EqualsExpected(), IsInstance(type_name="str"), Late()
    )
    values = {name: score.value for name, score in scores.items()}
    assert values == {"Contains": 1, "EqualsExpected": 1, "IsInstance": 1, "Late": 1}
    facts = "('r1', 'Refund order 1', 'Order 1 is refunded.', 3, True)"
    assert scores["Late"].reason == facts


async def test_several_scores_have_the_name_of_their_evaluator() -> None:
    report, scores = await scores_of(Level())
    assert report.scorers == ("Level.level", "Level.is_low", "Level.word")
    assert [scores[name].value for name in report.scorers] == [1, 1, "low"]
    assert scores["Level.word"].reason == "it is 1"
    assert report.compare("today", "Level.word").labels == {"low": 1}


async def test_evaluators_see_the_calls_as_spans() -> None:
    _, scores = await scores_of(
        ToolCorrectness(expected_tools=["find", "refund"]),
        TrajectoryMatch(expected_trajectory=["find", "refund"]),
        ArgumentCorrectness(tool_name="refund", expected_arguments={"id": 1}),
        MaxToolCalls(max_calls=2),
        MaxModelRequests(max_requests=3),
        HasMatchingSpan(query={"name_equals": "execute_tool refund"}),
        MaxDuration(seconds=60),
    )
    assert {score.value for score in scores.values()} == {1}, scores


async def test_what_the_spans_show_is_what_happened() -> None:
    _, scores = await scores_of(
        ToolCorrectness(expected_tools=["refund", "mail"]),
        ArgumentCorrectness(tool_name="refund", expected_arguments={"id": 2}),
        MaxToolCalls(max_calls=1),
        MaxModelRequests(max_requests=2),
    )
    assert {score.value for score in scores.values()} == {0}, scores


async def test_an_evaluator_that_raises_is_named() -> None:
    @dataclass
    class Broken(Evaluator):
        def evaluate(self, ctx: EvaluatorContext) -> bool:
            raise ValueError("no such field")

    report, _ = await scores_of(Broken())
    assert any("Broken raised ValueError: no such field" in one for one in report.sentences())


@pytest.mark.parametrize("repeat", [1, 2])
async def test_the_report_is_printed_by_pydantic_evals(repeat: int) -> None:
    report = await reported([Level()], repeat)
    made = report.to_pydantic_evals("hasty one")
    assert len(made.cases) == 4 * repeat
    assert made.cases[0].scores["same_effects"].value in (0, 1)
    console = Console(file=io.StringIO(), width=200)
    made.print(baseline=report.to_pydantic_evals(), console=console, include_reasons=True)
    said = console.file.getvalue()
    assert "same_effects" in said and "Level.word" in said and "r1" in said
    averages = made.averages()
    assert averages is not None and averages.scores["same_effects"] == pytest.approx(0.25)


async def test_the_record_is_a_report_too_and_a_wrong_name_is_refused() -> None:
    report = await reported()
    assert {case.output for case in report.to_pydantic_evals("record").cases} >= {
        "Order 1 is refunded."
    }
    with pytest.raises(Misuse, match="there is no variant 'new': there is record, today, hasty"):
        report.to_pydantic_evals("new")
