"""Which tools a Toolbox offers."""

from upshot.contract import ToolCall, ToolDenied
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


def test_a_run_that_calls_no_tool_makes_no_toolbox():
    seen: list[object] = []

    class Looking(ScriptedModel):
        async def call(self, request: ModelRequest) -> ModelResponse:
            seen.append([spec.name for spec in request.tools])
            seen.extend(one for one in gc.get_objects() if isinstance(one, Toolbox))
            return await super().call(request)

    gc.collect()
    assert run_sync(Agent("a", model=Looking(["Done."]), tools=[alone]), "?").content == "Done."
    assert seen == [["alone"]]
