"""The gate on repetitions."""

import asyncio

import pytest

from upshot.contract import ToolCall, ToolDenied, ToolOutcome
from upshot.tools import Toolbox, ToolError, tool

RAN: list[int] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@tool(effect="read", idempotent=True, resources=["shelf"])
async def look(a: int = 0, fails: bool = False) -> int:
    RAN.append(a)
    await asyncio.sleep(0)
    if fails:
        raise ToolError("not now")
    return a


@tool(effect="read", idempotent=True, repeatable=True)
async def poll(a: int = 0) -> int:
    RAN.append(a)
    return a


@tool(effect="write", resources=lambda arguments: [str(arguments["where"])])
async def put(where: str) -> None: ...


@tool
async def undeclared(a: int = 0) -> int:
    RAN.append(a)
    return a


def kinds(outcomes: list[ToolOutcome]) -> list[str]:
    return [str(one.reason) if isinstance(one, ToolDenied) else one.kind for one in outcomes]


async def run(box: Toolbox, *calls: ToolCall) -> list[str]:
    return kinds(await box.dispatch(calls))


async def test_a_repetition_after_a_success_is_denied_and_names_the_first():
    box = Toolbox([look])
    await run(box, ToolCall("first", "look", '{"a": 5}'))
    outcome = (await box.dispatch([ToolCall("2", "look", '{"a":"5","fails":false}')]))[0]
    assert isinstance(outcome, ToolDenied)
    assert outcome.reason == "duplicate"
    assert "first" in outcome.details
    assert RAN == [5]


async def test_other_arguments_are_another_call():
    box = Toolbox([look])
    assert (
        await run(box, ToolCall("1", "look", {"a": 1}), ToolCall("2", "look", {"a": 2}))
        == ["tool_execution_result"] * 2
    )


async def test_of_two_equal_calls_in_one_reply_the_second_waits_and_is_denied():
    box = Toolbox([look])
    assert await run(box, ToolCall("1", "look"), ToolCall("2", "look"), ToolCall("3", "look")) == [
        "tool_execution_result",
        "duplicate",
        "duplicate",
    ]
    assert len(RAN) == 1


async def test_the_second_runs_when_the_first_fails():
    box = Toolbox([look])
    calls = [ToolCall(id, "look", {"fails": True}) for id in "12"]
    assert kinds(await box.dispatch(calls)) == ["tool_failure"] * 2
    assert len(RAN) == 2


async def test_a_twin_of_a_call_that_is_not_let_run_goes_its_own_way():
    one = look.but(approval=True)
    answers = iter([False, True])
    box = Toolbox([one], approve=lambda request: next(answers))
    assert await run(box, ToolCall("1", "look"), ToolCall("2", "look")) == [
        "write_denied",
        "tool_execution_result",
    ]


@pytest.mark.parametrize("name", ["poll", "undeclared"])
async def test_repeatable_and_undeclared_tools_may_be_repeated(name: str):
    box = Toolbox([poll, undeclared])
    await run(box, ToolCall("1", name), ToolCall("2", name))
    await run(box, ToolCall("3", name))
    assert len(RAN) == 3


@pytest.mark.parametrize(("where", "again"), [("shelf", True), ("cellar", False)])
async def test_a_write_to_what_was_read_lets_it_be_read_again(where: str, again: bool):
    box = Toolbox([look, put])
    await run(box, ToolCall("1", "look"))
    await run(box, ToolCall("2", "put", {"where": where}))
    assert await run(box, ToolCall("3", "look")) == [
        "tool_execution_result" if again else "duplicate"
    ]


@pytest.mark.parametrize(("scope", "again"), [("turn", True), ("run", False), ("context", False)])
async def test_the_scope_says_how_long_it_is_remembered(scope: str, again: bool):
    box = Toolbox([look], replay_scope=scope)  # type: ignore[arg-type]
    await run(box, ToolCall("1", "look"))
    box.new_turn()
    assert await run(box, ToolCall("2", "look")) == [
        "tool_execution_result" if again else "duplicate"
    ]


async def test_a_read_behind_a_write_of_the_same_reply_is_no_repetition():
    box = Toolbox([look, put])
    asked = [ToolCall("1", "look"), ToolCall("2", "put", {"where": "shelf"}), ToolCall("3", "look")]
    outcomes = await box.dispatch(asked)
    assert not any(isinstance(outcome, ToolDenied) for outcome in outcomes)
    assert RAN == [0, 0]
