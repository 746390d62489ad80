"""Tools that play a script, faults included."""

import pytest

from tests.processes import run_python
from upshot.contract import Effect, ToolFailure, ToolTimeout
from upshot.testing import CrashAfterStart, LateReturn, ScriptedTool, TimeoutAfterEffect
from upshot.tools import Toolbox, ToolCall, ToolError


async def play(scripted, *arguments):
    box = Toolbox([scripted.tool])
    outcomes = []
    for place, given in enumerate(arguments or ({},)):
        outcomes += await box.dispatch([ToolCall(f"c{place}", scripted.tool.name, given)])
        box.new_turn()
    return outcomes


async def test_each_call_plays_the_next_item():
    pay = ScriptedTool("pay", [{"a": 1}, ToolError("no"), lambda given: given["n"] + 1])
    first, second, third = await play(pay, {"n": 1}, {"n": 2}, {"n": 3})
    assert (first.output, second.error, third.output) == ({"a": 1}, "no", {"result": 4})
    assert (pay.calls, pay.applied) == ([{"n": 1}, {"n": 2}, {"n": 3}], [{"n": 1}, {"n": 3}])
    pay.assert_finished()


async def test_a_timeout_after_the_effect_is_unknown_to_the_caller_only():
    pay = ScriptedTool("pay", [TimeoutAfterEffect()], timeout_s=0.01)
    (outcome,) = await play(pay)
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.effect, outcome.retryable, pay.applied) == (Effect.UNKNOWN, False, [{}])


async def test_a_late_return_is_dropped():
    pay = ScriptedTool("pay", [LateReturn("late", delay_s=0.03)], timeout_s=0.01)
    (outcome,) = await play(pay)
    assert isinstance(outcome, ToolTimeout)
    assert pay.applied == [{}]


def test_a_crash_ends_the_process():
    program = (
        "import asyncio\n"
        "from upshot.testing import CrashAfterStart, ScriptedTool\n"
        "from upshot.tools import Toolbox, ToolCall\n"
        "pay = ScriptedTool('pay', [CrashAfterStart()])\n"
        "asyncio.run(Toolbox([pay.tool]).dispatch([ToolCall('c', 'pay', {})]))\n"
    )
    done = run_python("-c", program)
    assert done.returncode == -9
    assert CrashAfterStart() == CrashAfterStart(applied=False)


async def test_a_spent_script_says_so():
    (outcome,) = await play(ScriptedTool("pay", []))
    assert isinstance(outcome, ToolFailure)
    assert "has only 0 items" in outcome.error


def test_what_was_not_played_is_told():
    with pytest.raises(AssertionError, match="pay has 1 of 1 items left"):
        ScriptedTool("pay", [1]).assert_finished()
