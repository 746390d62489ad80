"""What a Toolbox is given that it cannot work with is misuse, told at once and in one sentence."""

from typing import Any

import pytest

from upshot.contract import Approve, ToolArtifactReference, ToolCall
from upshot.errors import Misuse
from upshot.tools import InMemoryArtifacts, Toolbox, tool


@tool(effect="destructive")
async def wipe() -> str:
    return "x" * 20_000


@pytest.mark.parametrize(
    ("options", "due"),
    [
        ({"budget": 5}, "budget must be a Budget"),
        ({"budget": {"max_turns": 1}}, "must be a Budget"),
        ({"policy": "no"}, "policy must be a Policy"),
        ({"gates": 5}, "gates must be a list of gates"),
        ({"gates": "policy"}, "must be a list of gates"),
        ({"gates": [5]}, "5 is not a gate: a gate has a name and check"),
        ({"gates": len}, "the function of gates must return all gates, got "),
        ({"secrets": None}, "secrets are a list of strings"),
        ({"secrets": "sesame"}, "secrets are a list of strings"),
        ({"secrets": [5]}, "secrets are a list of strings"),
        ({"approve": True}, "approve must be a function"),
        ({"on_pre_tool_use": 5}, "on_pre_tool_use must be a function"),
        ({"repair": "model"}, "repair must be a function"),
        ({"artifacts": "dir"}, "artifacts must be an artifact store"),
        ({"artifacts": InMemoryArtifacts}, "must be an artifact store"),
        ({"journal": "x.db"}, "journal must be a journal, such as open_journal"),
        ({"journal": "memory:"}, "must be a journal"),
        ({"clock": 5}, "clock must be a clock"),
        ({"identity": "run-1"}, "identity must be a RunInfo"),
        ({"workers": 5}, "workers must be Workers"),
        ({"web_mode": "no"}, "web_mode must be True or False"),
        ({"parallel": "x"}, "parallel must be True, False, or how many"),
        ({"parallel": 0}, "got 0"),
        ({"parallel": 1.5}, "got 1.5"),
        ({"replay_scope": ["run"]}, "replay_scope must be turn, run or context, got list"),
        ({"emit": 5}, "emit must be a function"),
    ],
    ids=str,
)
def test_an_option_of_the_wrong_kind_is_misuse(options: dict[str, Any], due: str):
    with pytest.raises(Misuse) as caught:
        Toolbox([wipe], **options)
    assert due in str(caught.value)


@pytest.mark.parametrize("calls", [None, 5, ToolCall("1", "wipe"), "wipe", {"1": "wipe"}], ids=str)
async def test_calls_that_are_no_list_are_misuse(calls: Any):
    with pytest.raises(Misuse, match="ToolCall"):
        await Toolbox([wipe]).dispatch(calls)


async def test_a_label_that_is_no_number_is_misuse():
    label: Any = "one"
    with pytest.raises(Misuse, match="a number as turn, got list and str"):
        await Toolbox([wipe]).dispatch([], turn=label)


@pytest.mark.parametrize("answers", [None, Approve("1"), "yes"], ids=str)
async def test_answers_that_are_no_list_are_misuse(answers: Any):
    box = Toolbox([wipe])
    await box.dispatch([ToolCall("1", "wipe")])
    with pytest.raises(Misuse, match=r"answers must be a list|is not an answer"):
        await box.answer(answers)
    assert len(box.pending) == 1


async def test_a_store_that_is_empty_and_false_is_used_all_the_same():
    class Counted(InMemoryArtifacts):
        def __len__(self) -> int:
            return 0

    store = Counted()
    box = Toolbox([wipe.but(effect="read")], artifacts=store)
    (outcome,) = await box.dispatch([ToolCall("1", "wipe")])
    assert isinstance(outcome, ToolArtifactReference)
    assert await store.read(outcome.artifact_id, run_id=box.run_id, limit=1)
