"""Which tools a Toolbox offers."""

import gc

from upshot import Agent, ScriptedModel, run
from upshot.contract import ModelRequest, ModelResponse, ToolCall, ToolDenied
from upshot.tools import Toolbox, tool


@tool
def one(a: int) -> int:
    return a


@tool
def two(a: int) -> int:
    return a


def test_only_what_is_offered_is_shown():
    offered = {"two"}
    box = Toolbox([one, two], offered=lambda: offered)
    assert [spec.name for spec in box.schemas()] == ["two"]
    offered.add("one")
    assert [spec.name for spec in box.schemas()] == ["one", "two"]


def test_find_knows_what_is_not_offered():
    box = Toolbox([one], offered=set)
    assert box.find("one") is one
    assert box.find("two") is None
    assert box.find("read_artifact") is not None


async def test_a_name_in_another_case_is_near():
    outcome = (await Toolbox([one]).dispatch([ToolCall("1", "ONE", {"a": 1})]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.hint == "Did you mean one?"


def toolboxes() -> int:
    return sum(type(found) is Toolbox for found in gc.get_objects())


async def test_a_run_that_calls_no_tool_makes_no_toolbox():
    seen: list[object] = []

    class Looking(ScriptedModel):
        async def call(self, request: ModelRequest) -> ModelResponse:
            seen.extend(([spec.name for spec in request.tools], toolboxes()))
            return await super().call(request)

    gc.collect()
    before = toolboxes()
    result = await run(Agent("a", model=Looking(["Done."]), tools=[one, two]), "?")
    assert result.content == "Done."
    assert seen == [["one", "two"], before]
