"""A Toolbox's tools for other frameworks, as far as that can be seen without them."""

import asyncio
import importlib.util

import pytest

from upshot.contract.tool_calls import ToolCall
from upshot.errors import Misuse
from upshot.tools import Toolbox, tool
from upshot.tools.export import BoxDesk, Conversation, Decision, ForeignCall


@pytest.mark.parametrize(
    ("method", "module", "package"),
    [
        ("for_pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
        ("for_openai_agents", "agents", "openai-agents"),
        ("for_langchain", "langchain_core", "langchain-core"),
    ],
)
def test_a_framework_that_is_missing_is_named(method, module, package):
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(Misuse, match=rf"is not installed: pip install {package}$"):
        getattr(Toolbox([]), method)()


@pytest.fixture
def paid():
    return []


@pytest.fixture
def pay(paid):
    @tool(effect="write")
    async def pay(order: str) -> str:
        """Pay."""
        paid.append(order)
        return f"paid {order}"

    return pay


def asked(id, order="7", *, reply=None, yes=None):
    decision = None if yes is None else Decision(is_yes=yes, by="a framework")
    conversation = Conversation(reply=reply)
    call = ToolCall(id, "pay", {"order": order})
    return ForeignCall(call, decision, conversation=lambda: conversation)


async def test_equal_calls_of_one_reply_are_one_call_and_those_of_two_are_two(pay, paid):
    desk = BoxDesk(Toolbox([pay]))
    first, second = [await desk.make(asked(id, reply=1)) for id in "ab"]
    third = await desk.make(asked("c", reply=2))
    assert paid == ["7", "7"]
    assert (first.outcome.repeats, third.outcome.repeats) == (None, None)
    assert second.outcome.repeats.call_id == "a"


async def test_equal_calls_that_are_made_together_stand_in_one_reply_if_nobody_says_in_which(
    pay, paid
):
    desk = BoxDesk(Toolbox([pay]))
    await asyncio.gather(*(desk.make(asked(*one)) for one in ("a7", "b7", "c8")))
    await desk.make(asked("d"))
    assert paid == ["7", "8", "7"]


async def test_the_approval_of_one_of_two_equal_calls_makes_the_call_once(pay, paid):
    desk = BoxDesk(Toolbox([pay.but(approval=True)]))
    first, second = [await desk.make(asked(id, reply=1)) for id in "ab"]
    assert first.pending == second.pending is not None
    handed = [await desk.make(asked(id, reply=1, yes=True)) for id in "ab"]
    assert [one.outcome.call_id for one in handed] == ["a", "b"]
    assert paid == ["7"]


async def test_an_approval_of_the_second_of_two_equal_calls_alone_makes_it(pay, paid):
    desk = BoxDesk(Toolbox([pay.but(approval=True)]))
    for id in "ab":
        await desk.make(asked(id, reply=1))
    handed = await desk.make(asked("b", reply=1, yes=True))
    assert handed.outcome.call_id == "b" and "paid 7" in handed.content
    assert paid == ["7"]
