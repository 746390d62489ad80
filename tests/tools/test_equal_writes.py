"""A write is made once: in one reply, and as long as its effect is unknown."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from upshot import NotDone, Toolbox, ToolCall, ToolDenied, ToolError, ToolFailure, tool
from upshot.contract.tool_calls import ToolExecutionResult, outcome_to_model_content

paid: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


@tool(effect="write")
async def pay(order: str, *, then: str = "") -> str:
    """Pay."""
    paid.append(order)
    await asyncio.sleep(0)
    if then:
        raise RuntimeError(then)
    return f"paid {order}"


def call(id: str, order: str = "7", **more: Any) -> ToolCall:
    return ToolCall(id, "pay", {"order": order, **more})


def read(outcome: Any) -> dict[str, Any]:
    return json.loads(outcome_to_model_content(outcome))


async def test_two_equal_calls_of_a_reply_are_one_call():
    first, second, other = await Toolbox([pay]).dispatch([call("a"), call("b"), call("c", "8")])
    assert sorted(paid) == ["7", "8"]
    assert isinstance(second, ToolExecutionResult)
    assert (first.effect, second.effect, other.effect) == ("applied", "none", "applied")
    assert second.repeats is not None and second.repeats.call_id == "a"
    assert read(second)["result"] == "paid 7"
    assert "call a did this before" in read(second)["already_done"]


async def test_a_call_of_a_later_reply_is_another_call():
    box = Toolbox([pay])
    await box.dispatch([call("a")])
    (again,) = await box.dispatch([call("b")])
    assert paid == ["7", "7"] and again.repeats is None


@pytest.mark.parametrize("how", [{"idempotent": True}, {"repeatable": True}, {"effect": None}])
async def test_tools_that_may_run_twice_are_not_held_back(how: dict[str, Any]):
    await Toolbox([pay.but(**how)]).dispatch([call("a"), call("b", then="x"), call("c", then="x")])
    assert paid == ["7", "7", "7"]


async def test_an_exception_out_of_a_write_is_not_retryable_and_of_unknown_effect():
    box = Toolbox([pay])
    (failed,) = await box.dispatch([call("a", then="the line broke")])
    assert read(failed) == {
        "status": "error",
        "error": "RuntimeError: the line broke. It may have taken effect: do not call it again "
        "with these arguments; say that it is being checked.",
        "retryable": False,
        "effect": "unknown",
    }
    again, other = await box.dispatch([call("b", then="the line broke"), call("c", "8")])
    assert isinstance(again, ToolDenied) and again.reason == "effect_unknown"
    assert "call a of pay" in again.details
    assert paid == ["7", "8"] and other.effect == "applied"


async def test_what_is_unknown_stays_so_in_the_turns_that_follow():
    box = Toolbox([pay])
    await box.dispatch([call("a", then="x")])
    box.new_turn()
    (again,) = await box.dispatch([call("b", then="x")])
    assert isinstance(again, ToolDenied) and paid == ["7"]


async def test_the_second_of_two_equal_calls_gets_the_failure_of_the_first():
    first, second = await Toolbox([pay]).dispatch([call("a", then="x"), call("b", then="x")])
    assert paid == ["7"]
    assert isinstance(second, ToolFailure) and not second.retryable
    assert (first.effect, second.effect) == ("unknown", "none")
    assert "the same call as a" in second.error and "may have taken effect" in second.error


async def test_a_tool_without_an_effect_keeps_its_default_and_tells_the_doubt():
    (failed,) = await Toolbox([pay.but(effect=None)]).dispatch([call("a", then="x")])
    assert read(failed) == {
        "status": "error",
        "error": "RuntimeError: x. It may have taken effect.",
        "retryable": True,
        "effect": "unknown",
    }


@pytest.mark.parametrize(
    "error",
    [NotDone("the account is closed"), ToolError("no", effect="none"), ConnectionRefusedError(111)],
    ids=["NotDone", "ToolError", "refused"],
)
async def test_what_proves_that_nothing_was_done_may_be_made_again(error: Exception):
    @tool(effect="write")
    def pay(order: str) -> None:
        """Pay."""
        paid.append(order)
        raise error

    box = Toolbox([pay])
    for id in "ab":
        (failed,) = await box.dispatch([call(id)])
        assert isinstance(failed, ToolFailure) and failed.retryable
        assert failed.effect == "none" and "effect" not in read(failed)
    assert paid == ["7", "7"]


async def test_verify_says_that_a_write_may_be_made_again():
    box = Toolbox([pay.but(verify=lambda asked: "none")])
    (failed,) = await box.dispatch([call("a", then="x")])
    assert read(failed) == {
        "status": "error",
        "error": "RuntimeError: x. It was checked: the call has not taken effect.",
        "retryable": True,
        "effect": "none",
    }
    assert failed.settled is not None and failed.settled.by == "verify"
    await box.dispatch([call("b", then="x")])
    assert paid == ["7", "7"]


async def test_the_equal_of_a_denied_call_is_asked_about_itself():
    answers = iter([False, True])
    box = Toolbox([pay.but(approval=True)], approve=lambda asked: next(answers))
    first, second = await box.dispatch([call("a"), call("b")])
    assert isinstance(first, ToolDenied) and isinstance(second, ToolDenied) is False
    assert paid == ["7"]


@pytest.mark.parametrize("code", [400, 404, 409, 429, 500])
async def test_a_refused_request_did_nothing_and_concerns_its_own_arguments(code: int):
    from urllib.error import HTTPError

    @tool(effect="write")
    def pay(order: str) -> None:
        """Pay."""
        paid.append(order)
        raise HTTPError("http://127.0.0.1", code, "no", None, None)  # type: ignore[arg-type]

    box = Toolbox([pay])
    (failed,) = await box.dispatch([call("a")])
    assert isinstance(failed, ToolFailure)
    assert failed.effect == ("unknown" if code == 500 else "none")
    assert failed.retryable is (code == 429)
    await box.dispatch([call("b", "8")])
    assert paid == ["7", "8"]


@pytest.mark.parametrize("later", range(12))
async def test_a_call_never_waits_for_an_equal_one_that_has_just_ended(later):
    begun, over = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def put(x: int) -> str:
        begun.set()
        await over.wait()
        return "put"

    box = Toolbox([put])
    first = asyncio.ensure_future(box.dispatch([ToolCall("a", "put", {"x": 1})], turn=1))
    await begun.wait()
    over.set()
    for _ in range(later):
        await asyncio.sleep(0)
    second = box.dispatch([ToolCall("b", "put", {"x": 1})], turn=1)
    [outcome] = await asyncio.wait_for(second, 5)
    await first
    assert isinstance(outcome, ToolExecutionResult)
