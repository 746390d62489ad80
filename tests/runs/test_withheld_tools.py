"""Tools that a decider leaves out of a model call: what the model calls nevertheless is denied."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    Decider,
    Message,
    ModelRequest,
    ModelStarted,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    replay,
    resume,
    run,
    tool,
)

LOOK = ToolCall("l", "look")
PAY = ToolCall("p", "pay")


class LookFirst(Decider):
    """Offers ``pay`` only after ``look`` was called."""

    def before_model(self, info: Any, request: ModelRequest) -> ModelRequest | None:
        if any(message.name == "look" for message in request.messages):
            return None
        return replace(request, tools=tuple(one for one in request.tools if one.name != "pay"))


class Shop:
    def __init__(self, *replies: Any) -> None:
        self.paid: list[bool] = []

        @tool(effect="read")
        def look() -> str:
            return "it is due"

        @tool(effect="write")
        def pay() -> str:
            self.paid.append(True)
            return "paid"

        self.model = ScriptedModel([*replies, "Done."])
        tools = [look, pay]
        self.agent = Agent("clerk", model=self.model, tools=tools, deciders=[LookFirst()])


async def test_what_is_offered_changes_from_call_to_call() -> None:
    shop, journal = Shop(measured(None, LOOK), measured(None, PAY)), Ordered()
    result = await run(shop.agent, "Go.", journal=journal)
    assert (result.content, shop.paid) == ("Done.", [True])
    offered = [[one.name for one in request.tools] for request in shop.model.calls]
    assert offered == [["look"], ["look", "pay"], ["look", "pay"]]
    started = [one for one in journal.order if isinstance(one, ModelStarted)]
    assert [one.withheld for one in started] == [("pay",), (), ()]


async def test_a_call_of_a_tool_that_was_left_out_is_denied() -> None:
    shop = Shop(measured(None, PAY), measured(None, LOOK), measured(None, PAY))
    result = await run(shop.agent, "Go.")
    denied, looked, paid = result.tool_outcomes
    assert isinstance(denied, ToolDenied)
    assert denied.reason == "unknown_tool"
    assert denied.details == "there is no tool 'pay'. Tools: look."
    assert isinstance(looked, ToolExecutionResult)
    assert isinstance(paid, ToolExecutionResult)
    assert shop.paid == [True]


async def test_it_is_denied_after_any_crash_too() -> None:
    shop, journal = Shop(measured(None, PAY)), Ordered()
    await run(shop.agent, Request("Go.", run_id="r"), journal=journal)
    for length in range(1, len(journal.order) + 1):
        fresh = Shop(measured(None, PAY))
        result = await resume("r", fresh.agent, journal=journal.cut(length))
        assert result.success, length
        assert fresh.paid == [], length
    assert (await replay("r", Shop(measured(None, PAY)).agent, journal=journal)).difference is None


async def test_a_decider_of_the_parent_leaves_out_tools_of_a_child_run() -> None:
    shop = Shop(measured(None, PAY))
    inner = shop.agent.but(deciders=[])

    async def work(child: Any, host: Any, board: Any) -> str:
        return str((await child.child(inner, "Go.")).content)

    outer = Agent[Any]("outer", engine=ScriptEngine(work), deciders=[LookFirst()])
    result = await run(outer, "Go.")
    assert (result.output, shop.paid) == ("Done.", [])


async def test_a_call_of_the_engine_itself_is_not_denied() -> None:
    shop = Shop()

    async def work(child: Any, host: Any, board: Any) -> str:
        request = ModelRequest((Message("user", "?"),), tools=child.schemas)
        await child.call_model(request)
        (outcome,) = await child.tools.dispatch([PAY])
        return str(outcome.kind)

    result = await run(shop.agent, "Go.", engine=ScriptEngine(work))
    assert (result.output, shop.paid) == ("tool_execution_result", [True])
