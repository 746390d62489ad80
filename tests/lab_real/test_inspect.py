"""Scorers of Inspect judge runs of the lab, and its own reader reads our reports."""

import json
from pathlib import Path

import pytest
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ModelAPI, ModelOutput, get_model, modelapi
from inspect_ai.scorer import (
    Score,
    Scorer,
    Target,
    accuracy,
    exact,
    includes,
    match,
    mean,
    model_graded_qa,
    scorer,
)
from inspect_ai.solver import TaskState

from tests.lab_real.kit import desk, recorded, reported
from upshot import Misuse, lab


@scorer(metrics=[accuracy()])
def seen() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        facts = [
            str(state.sample_id),
            state.input_text,
            state.output.completion,
            state.metadata["level"],
            [one.role for one in state.messages],
            [
                call.function
                for one in state.messages
                for call in getattr(one, "tool_calls", ()) or ()
            ],
            target.text,
        ]
        return Score(value="P", explanation=json.dumps(facts))

    return score


@scorer(metrics={"*": [mean()]})
def several() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value={"length": len(state.output.completion), "polite": "I"})

    return score


@modelapi(name="fixed")
class Fixed(ModelAPI):
    """Gives outputs in their order; their own mock counts tokens with a file of the internet."""

    def __init__(self, model_name, base_url=None, api_key=None, config=None, outputs=()):
        super().__init__(model_name)
        self.outputs = list(outputs)

    async def generate(self, input, tools, tool_choice, config):
        return self.outputs.pop(0)


async def row_of(*scorers, expected="Order 1 is refunded."):
    (case,) = await recorded(range(1, 2))
    fields = {name: getattr(case, name) for name in case.__struct_fields__}
    dataset = lab.Dataset("one", (lab.Case(**{**fields, "expected": expected}),))
    report = await lab.run(dataset, desk(), scorers=scorers, journal="memory:")
    return report.of("today")[0]


async def test_scorers_are_taken_as_they_are() -> None:
    row = await row_of(match(), includes(), exact(), seen(), several())
    values = {name: score.value for name, score in row.scores.items()}
    assert values == {
        "match": 1,
        "includes": 1,
        "exact": 1,
        "seen": 0.5,
        "several.length": 20,
        "several.polite": 0,
    }
    assert json.loads(row.scores["seen"].reason) == [
        "r1",
        "Refund order 1",
        "Order 1 is refunded.",
        1,
        ["user", "assistant", "tool", "assistant", "tool", "assistant"],
        ["find", "refund"],
        "Order 1 is refunded.",
    ]


async def test_a_wrong_answer_and_one_of_several_targets() -> None:
    row = await row_of(match(), expected="Order 2 is refunded.")
    assert row.scores["match"].value == 0
    row = await row_of(includes(), expected=["sent", "refunded"])
    assert row.scores["includes"].value == 1


async def test_a_scorer_that_asks_a_model_of_its_own() -> None:
    graded = ModelOutput.from_content("fixed/model", "Fine.\n\nGRADE: C")
    model = get_model("fixed/model", outputs=[graded])
    row = await row_of(model_graded_qa(model=model))
    assert row.scores["model_graded_qa"].value == 1, row.scores


async def test_what_makes_a_scorer_is_refused_with_what_to_do() -> None:
    with pytest.raises(Misuse, match=r"match makes a scorer of Inspect: call it"):
        await row_of(match)


async def test_their_reader_reads_our_report(tmp_path: Path) -> None:
    report = await reported(repeat=2)
    files = report.to_inspect(tmp_path / "logs")
    assert [file.name for file in files] == ["record.eval", "today.eval", "hasty-one.eval"]
    log = read_eval_log(str(files[2]))
    assert isinstance(log, EvalLog) and log.status == "success"
    assert log.eval.task == report.name and log.eval.dataset.name == "refunds"
    assert len(log.samples) == 8
    sample = next(one for one in log.samples if (one.id, one.epoch) == ("r2", 2))
    assert (sample.input, sample.output.completion) == ("Refund order 2", "Order 2 is refunded.")
    assert sample.scores["same_effects"].value == 0
    assert sample.metadata["new_effects"] == [{"tool": "refund", "arguments": {"id": 102}}]
    (score,) = log.results.scores
    assert score.metrics["mean"].value == pytest.approx(0.25)


async def test_a_log_is_a_dataset_again(tmp_path: Path) -> None:
    report = await reported()
    (record, *_) = report.to_inspect(tmp_path)
    found = lab.from_inspect(record)
    assert (found.name, len(found)) == ("refunds", 4)
    rows = {row.case: row for row in report.of("record")}
    assert {case.id: case.answer for case in found} == {id: rows[id].answer for id in rows}
    assert {case.id: case.request.text for case in found} == report.requests
    assert lab.from_inspect(read_eval_log(str(record))) == found


async def test_an_evaluation_of_inspect_is_a_dataset_with_its_calls(tmp_path: Path) -> None:
    from inspect_ai import Task, eval_async
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import tool

    @tool
    def find():
        async def execute(id: int) -> str:
            """Find an order.

            Args:
                id: The order.
            """
            return f"order {id}"

        return execute

    outputs = [
        ModelOutput.for_tool_call("fixed/model", "find", {"id": 7}),
        ModelOutput.from_content("fixed/model", "It is order 7."),
    ]
    task = Task(
        dataset=[Sample("Which order?", target="order 7", metadata={"level": 2})],
        solver=[use_tools(find()), generate()],
        scorer=includes(),
    )
    model = get_model("fixed/model", outputs=outputs)
    (log,) = await eval_async(task, model=model, log_dir=str(tmp_path))
    (case,) = lab.from_inspect(log)
    assert (case.request.text, case.expected, case.answer) == (
        "Which order?",
        "order 7",
        "It is order 7.",
    )
    assert case.attributes == {"level": 2}
    (call,) = case.calls
    assert (call.tool, call.arguments) == ("find", {"id": 7})
    assert call.outcome.output == {"result": "order 7"}


@pytest.mark.parametrize(
    ("given", "said"),
    [(5, "takes an EvalLog or a path, got 5"), ("gone.eval", "gone.eval cannot be read")],
    ids=["no log", "no file"],
)
def test_what_is_no_log_is_refused(given, said) -> None:
    with pytest.raises(Misuse, match=said):
        lab.from_inspect(given)
