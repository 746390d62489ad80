"""A Toolbox's tools in the agents of other frameworks."""

import asyncio
import json

import pytest
from agents import Agent as SdkAgent
from agents import ModelResponse as SdkResponse
from agents import Runner, Usage
from agents.models.interface import Model as SdkModel
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from upshot.adapters import from_langchain, from_pydantic_ai
from upshot.contract import ToolDenied, ToolExecutionResult
from upshot.tools import Policy, Toolbox, tool


@pytest.fixture
def refunds():
    return []


@pytest.fixture
def box(refunds):
    @tool(effect="read", idempotent=True)
    async def status(order: int) -> dict:
        """What became of an order."""
        return {"order": order, "status": "sent"}

    @tool(effect="read")
    def broken(order: int) -> dict:
        raise ValueError("the database is away")

    @tool(effect="write", approval=True)
    async def refund(order: int) -> str:
        refunds.append(order)
        return "refunded"

    running = []

    @tool(effect="write")
    async def write(order: int) -> int:
        running.append(order)
        await asyncio.sleep(0.01)
        assert running.pop() == order, "two writers at once"
        return order

    return Toolbox([status, broken, refund, write])


def reasons(box):
    return [getattr(record.outcome, "reason", "ran") for record in box.records]


@pytest.fixture
def together():
    """How many calls of one kind of tool ran at the same time, at most."""
    return {"one": 0, "each": 0, "all": 0}


@pytest.fixture
def shelves(together):
    """Three tools that write: to one shelf, to that which is named, and to nobody knows which."""
    running = dict.fromkeys(together, 0)

    async def put(name):
        for kind in (name, "all"):
            running[kind] += 1
            together[kind] = max(together[kind], running[kind])
        await asyncio.sleep(0.01)
        for kind in (name, "all"):
            running[kind] -= 1

    @tool(effect="write", resources={"one"})
    async def one(shelf: int) -> None:
        await put("one")

    @tool(effect="write", resources=lambda given: {str(given.get("shelf", 0) // 10)})
    async def each(shelf: int) -> None:
        await put("each")

    @tool(effect="write", resources=lambda given: {given["no such argument"]})
    async def broken(shelf: int) -> None:
        raise AssertionError("nobody knows what it touches")

    return Toolbox([one, each, broken])


# Pydantic AI


def plays(*replies):
    left = list(replies)
    return FunctionModel(lambda messages, info: left.pop(0))


def calls(*wanted):
    return ModelResponse(parts=[ToolCallPart(*one) for one in wanted])


def returns(native):
    return [
        part
        for message in native.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


async def test_pydantic_ai_offers_the_schema(box):
    model = TestModel(call_tools=["status"])
    await Agent(model, tools=box.for_pydantic_ai()).run("Go")
    offered = model.last_model_request_parameters.function_tools
    assert [one.name for one in offered] == ["status", "broken", "refund", "write"]
    assert offered[0].parameters_json_schema == box.schemas()[0].parameters


async def test_pydantic_ai_calls_pass_the_gates(box):
    model = plays(
        calls(("status", {"order": "7"}, "c1"), ("broken", {"order": 1}, "c2")),
        calls(("status", {"order": 7}, "c3"), ("status", {"order": "x"}, "c4")),
        ModelResponse(parts=[TextPart("done")]),
    )
    native = await Agent(model, tools=box.for_pydantic_ai()).run("Go")
    assert native.output == "done"
    assert reasons(box) == ["ran", "ran", "duplicate", "validation"]
    found = returns(native)
    assert json.loads(found[0].content) == {"order": 7, "status": "sent"}
    assert json.loads(found[1].content)["error"] == "ValueError: the database is away"
    assert found[0].metadata["kind"] == "tool_execution_result"
    assert found[0].metadata["was_coerced"]


async def test_pydantic_ai_approves_in_its_own_way(box, refunds):
    model = plays(calls(("refund", {"order": 7}, "c1")), ModelResponse(parts=[TextPart("done")]))
    agent = Agent(model, tools=box.for_pydantic_ai(), output_type=[str, DeferredToolRequests])
    asked = await agent.run("Go")
    assert [one.tool_call_id for one in asked.output.approvals] == ["c1"]
    assert not refunds
    answers = DeferredToolResults(approvals={"c1": True})
    native = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers)
    assert (native.output, refunds) == ("done", [7])


async def test_pydantic_ai_calls_of_a_reply_that_a_filter_cut_are_not_made(box):
    cut = calls(("write", {"order": 7}, "c1"))
    cut.finish_reason = "content_filter"
    model = plays(
        cut, calls(("write", {"order": 8}, "c1")), ModelResponse(parts=[TextPart("done")])
    )
    await Agent(model, tools=box.for_pydantic_ai()).run("Go")
    denied, made = box.records
    assert isinstance(denied.outcome, ToolDenied)
    assert isinstance(made.outcome, ToolExecutionResult)


@pytest.fixture(params=["at once", "later"])
def paid(request):
    """The orders that were paid, by a body that ends at once or after its turn of the loop."""
    return [], request.param


@pytest.fixture
def desk(paid):
    orders, ends = paid

    @tool(effect="write")
    async def pay(order: int) -> str:
        orders.append(order)
        if ends == "later":
            await asyncio.sleep(0.01)
        return "paid"

    return Toolbox([pay])


PAY_7 = {"order": 7}


async def test_pydantic_ai_equal_calls_of_one_reply_are_one_call(desk, paid):
    model = plays(
        calls(("pay", PAY_7, "c1"), ("pay", {"order": "7"}, "c2"), ("pay", {"order": 8}, "c3")),
        calls(("pay", PAY_7, "c1")),
        ModelResponse(parts=[TextPart("done")]),
    )
    native = await Agent(model, tools=desk.for_pydantic_ai()).run("Go")
    assert sorted(paid[0]) == [7, 7, 8]
    second = returns(native)[1]
    assert second.tool_call_id == "c2"
    assert second.metadata["repeats"]["call_id"] == "c1"
    assert "did this before" in second.content


async def test_pydantic_ai_asks_for_two_equal_calls_and_makes_one(box, refunds):
    model = plays(
        calls(("refund", {"order": 7}, "c1"), ("refund", {"order": 7}, "c2")),
        ModelResponse(parts=[TextPart("done")]),
    )
    agent = Agent(model, tools=box.for_pydantic_ai(), output_type=[str, DeferredToolRequests])
    asked = await agent.run("Go")
    answers = DeferredToolResults(approvals={"c1": False, "c2": True})
    native = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers)
    assert (native.output, refunds) == ("done", [7])


async def test_pydantic_ai_writers_run_one_after_the_other(box):
    model = plays(
        calls(*(("write", {"order": n}, f"c{n}") for n in range(3))),
        ModelResponse(parts=[TextPart("done")]),
    )
    await Agent(model, tools=box.for_pydantic_ai()).run("Go")
    assert [type(record.outcome) for record in box.records] == [ToolExecutionResult] * 3


@pytest.mark.parametrize(
    ("name", "numbers", "at_once"),
    [("one", (1, 20), 1), ("each", (1, 20), 2), ("each", (1, 2), 1)],
)
async def test_pydantic_ai_writers_of_one_resource_run_one_after_the_other(
    shelves, together, name, numbers, at_once
):
    model = plays(
        calls(*((name, {"shelf": n}, f"c{n}") for n in numbers)),
        ModelResponse(parts=[TextPart("done")]),
    )
    await Agent(model, tools=shelves.for_pydantic_ai()).run("Go")
    assert together[name] == at_once


async def test_pydantic_ai_is_told_of_a_tool_that_cannot_say_what_it_touches(shelves):
    model = plays(calls(("broken", {"shelf": 1}, "c1")), ModelResponse(parts=[TextPart("done")]))
    native = await Agent(model, tools=shelves.for_pydantic_ai()).run("Go")
    assert "no such argument" in returns(native)[0].content


async def test_pydantic_ai_approval_runs_the_call_that_waited_and_makes_no_other(box, refunds):
    model = plays(calls(("refund", {"order": 7}, "c1")), ModelResponse(parts=[TextPart("done")]))
    agent = Agent(model, tools=box.for_pydantic_ai(), output_type=[str, DeferredToolRequests])
    asked = await agent.run("Go")
    answers = DeferredToolResults(approvals={"c1": True})
    await agent.run(message_history=asked.all_messages(), deferred_tool_results=answers)
    assert [(record.call_id, record.tool_name) for record in box.records] == [("c1", "refund")]
    assert not box.pending


async def test_pydantic_ai_need_not_say_which_call_it_is(box):
    status = box.for_pydantic_ai()[0]
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    for order in (7, 8):
        await status.function(context, order=order)
    first, second = (record.call_id for record in box.records)
    assert first
    assert second not in ("", first)


# The OpenAI Agents SDK


class Plays(SdkModel):
    def __init__(self, *replies):
        self.left = list(replies)
        self.inputs = []

    async def get_response(self, system_instructions, input, *args, **kwargs):
        self.inputs.append(input)
        return SdkResponse(output=self.left.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def sdk_call(name, arguments, call_id):
    return ResponseFunctionToolCall(
        name=name, arguments=arguments, call_id=call_id, type="function_call"
    )


def sdk_text(text):
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m", content=[part], role="assistant", status="completed", type="message"
    )


async def test_openai_agents_calls_pass_the_gates(box):
    model = Plays(
        [sdk_call("status", '{"order": "7"}', "c1"), sdk_call("broken", '{"order": 1}', "c2")],
        [sdk_call("status", "{", "c3")],
        [sdk_text("done")],
    )
    agent = SdkAgent(name="a", model=model, tools=box.for_openai_agents())
    native = await Runner.run(agent, "Go")
    assert native.final_output == "done"
    assert reasons(box) == ["ran", "ran", "validation"]
    outputs = [one["output"] for one in model.inputs[-1] if "output" in one]
    assert json.loads(outputs[0]) == {"order": 7, "status": "sent"}
    assert json.loads(outputs[2])["error"] == "argument_validation_failed"


async def test_openai_agents_equal_calls_of_one_reply_are_one_call(desk, paid):
    asked = [sdk_call("pay", '{"order": 7}', id) for id in ("c1", "c2")]
    agent = sdk_agent(desk, asked, [sdk_call("pay", '{"order": 7}', "c3")], [sdk_text("done")])
    await Runner.run(agent, "Go")
    assert paid[0] == [7, 7]
    repeats = [record.outcome.repeats for record in desk.records]
    assert [one and one.call_id for one in repeats] == [None, "c1", None]


async def test_openai_agents_approves_in_its_own_way(box, refunds):
    model = Plays([sdk_call("refund", '{"order": 7}', "c1")], [sdk_text("done")])
    agent = SdkAgent(name="a", model=model, tools=box.for_openai_agents())
    asked = await Runner.run(agent, "Go")
    assert not refunds
    state = asked.to_state()
    state.approve(asked.interruptions[0])
    native = await Runner.run(agent, state)
    assert (native.final_output, refunds) == ("done", [7])


def sdk_agent(box, *replies):
    return SdkAgent(name="a", model=Plays(*replies), tools=box.for_openai_agents())


def test_openai_agents_is_given_the_schema_as_it_is(box):
    status, _, refund, _ = box.for_openai_agents()
    assert status.params_json_schema == box.schemas()[0].parameters
    assert not status.strict_json_schema
    assert (status.needs_approval, refund.needs_approval) == (False, True)


@pytest.mark.parametrize(("approval", "asks"), [(None, True), (False, False), (True, True)])
def test_openai_agents_asks_before_what_destroys_unless_told_otherwise(approval, asks):
    @tool(effect="destructive", approval=approval)
    def drop() -> None: ...

    (native,) = Toolbox([drop]).for_openai_agents()
    assert native.needs_approval is asks


async def test_openai_agents_approval_of_a_call_that_does_not_come_to_wait_is_no_fault(box):
    agent = sdk_agent(box, [sdk_call("refund", '{"order": "x"}', "c1")], [sdk_text("done")])
    state = (asked := await Runner.run(agent, "Go")).to_state()
    state.approve(asked.interruptions[0])
    assert (await Runner.run(agent, state)).final_output == "done"
    assert reasons(box) == ["validation"]


async def test_openai_agents_is_told_of_a_call_that_waits_for_reasons_of_its_own():
    @tool(effect="read", trust="untrusted")
    def fetch() -> str:
        return "words of a stranger"

    @tool(effect="write")
    def send() -> str:
        raise AssertionError("nobody approved")

    box = Toolbox([fetch, send], policy=Policy(taint=True))
    agent = sdk_agent(
        box, [sdk_call("fetch", "{}", "c1")], [sdk_call("send", "{}", "c2")], [sdk_text("done")]
    )
    await Runner.run(agent, "Go")
    outputs = [one["output"] for one in agent.model.inputs[-1] if "output" in one]
    assert json.loads(outputs[1])["blocked"]
    assert [one.call_id for one in box.pending] == ["c2"]


@pytest.mark.parametrize("names", [("one", "one"), ("each", "each"), ("each", "one")])
async def test_openai_agents_writers_of_one_resource_or_an_unread_one_run_one_after_the_other(
    shelves, together, names
):
    asked = [sdk_call(name, f'{{"shelf": {n}0}}', f"c{n}") for n, name in enumerate(names)]
    await Runner.run(sdk_agent(shelves, asked, [sdk_text("done")]), "Go")
    assert together["all"] == 1


async def test_openai_agents_writers_of_two_resources_run_together():
    both = asyncio.Barrier(2)

    def make(name):
        @tool(name=name, effect="write", resources={name})
        async def write() -> None:
            await asyncio.wait_for(both.wait(), 20)

        return write

    box = Toolbox([make("a"), make("b")])
    asked = [sdk_call(name, "{}", f"c-{name}") for name in "ab"]
    await Runner.run(sdk_agent(box, asked, [sdk_text("done")]), "Go")
    assert reasons(box) == ["ran", "ran"]
    assert [type(record.outcome) for record in box.records] == [ToolExecutionResult] * 2


# LangChain


async def test_langchain_calls_pass_the_gates(box):
    asked = AIMessage(
        "",
        tool_calls=[
            {"name": "status", "args": {"order": "7"}, "id": "c1"},
            {"name": "broken", "args": {"order": 1}, "id": "c2"},
            {"name": "status", "args": {"order": 7}, "id": "c3"},
            {"name": "status", "args": {"order": "x"}, "id": "c4"},
        ],
    )
    reply = await GenericFakeChatModel(messages=iter([asked])).ainvoke("Go")
    tools = {one.name: one for one in box.for_langchain()}
    said = [await tools[call["name"]].ainvoke(call) for call in reply.tool_calls]
    assert [message.tool_call_id for message in said] == ["c1", "c2", "c3", "c4"]
    assert [record.call_id for record in box.records] == ["c1", "c2", "c3", "c4"]
    assert [message.status for message in said] == ["success", "error", "error", "error"]
    assert json.loads(said[0].content) == {"order": 7, "status": "sent"}
    assert reasons(box) == ["ran", "ran", "duplicate", "validation"]
    # A checkpointer has to write it.
    assert said[0].artifact["kind"] == "tool_execution_result"


async def test_langchain_is_told_of_a_failure_whichever_way_it_calls(box):
    broken = box.for_langchain()[1]
    message = await broken.arun({"order": 1}, tool_call_id="c1")
    assert (message.status, message.artifact["call_id"]) == ("error", "c1")


async def test_pydantic_ai_results_have_the_outcomes_of_our_tools(box):
    model = plays(calls(("status", {"order": 7}, "c1")), ModelResponse(parts=[TextPart("done")]))
    native = await Agent(model, tools=box.for_pydantic_ai()).run("Go")
    assert from_pydantic_ai(native).tool_outcomes == (box.records[0].outcome,)


async def test_langchain_messages_have_the_outcomes_of_our_tools(box):
    call = {"name": "status", "args": {"order": 7}, "id": "c1", "type": "tool_call"}
    said = await box.for_langchain()[0].ainvoke(call)
    asked = AIMessage("", tool_calls=[call])
    assert from_langchain([asked, said]).tool_outcomes == (box.records[0].outcome,)


async def test_langchain_takes_plain_arguments(box):
    status = box.for_langchain()[0]
    assert json.loads(await status.ainvoke({"order": 7}))["status"] == "sent"
    assert status.args_schema == box.schemas()[0].parameters


async def test_langchain_is_told_that_a_call_waits(box, refunds):
    refund = box.for_langchain()[2]
    call = {"name": "refund", "args": {"order": 7}, "id": "c1", "type": "tool_call"}
    message = await refund.ainvoke(call)
    assert "waits for the approval" in message.content
    assert [one.call_id for one in box.pending] == ["c1"]
    assert not refunds


async def test_langchain_calls_that_have_no_id_get_one_each(box):
    status = box.for_langchain()[0]
    await status.arun({"order": 7}, tool_call_id="c1")
    await status.ainvoke({"order": 8})
    await status.ainvoke({"order": 9})
    ids = [record.call_id for record in box.records]
    assert ids[0] == "c1"
    assert len({*ids, ""}) == 4


async def test_langchain_callbacks_are_told(box):
    told = []

    class Handler(BaseCallbackHandler):
        def on_tool_start(self, serialized, input_str, **kwargs):
            told.append(serialized["name"])

    await box.for_langchain()[0].ainvoke({"order": 7}, {"callbacks": [Handler()]})
    assert told == ["status"]


def test_langchain_is_told_that_its_plain_calls_do_not_go(box):
    with pytest.raises(NotImplementedError, match="status is async: use ainvoke"):
        box.for_langchain()[0].invoke({"order": 7})


async def test_langchain_call_that_is_made_again_while_it_waits_still_waits(box, refunds):
    refund = box.for_langchain()[2]
    call = {"name": "refund", "args": {"order": 7}, "id": "c1", "type": "tool_call"}
    said = [await refund.ainvoke(call) for _ in range(2)]
    assert ["waits for the approval" in message.content for message in said] == [True, True]
    assert [one.call_id for one in box.pending] == ["c1"]
    assert not refunds


class Bound(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def pays(*ids):
    asked = [{"name": "pay", "args": PAY_7, "id": id, "type": "tool_call"} for id in ids]
    return AIMessage("", tool_calls=asked)


async def test_langchain_equal_calls_of_one_reply_of_an_agent_are_one_call(desk, paid):
    model = Bound(messages=iter([pays("c1", "c2"), pays("c1"), AIMessage("done")]))
    agent = create_agent(model, desk.for_langchain())
    told = (await agent.ainvoke({"messages": [("user", "Go")]}))["messages"]
    assert paid[0] == [7, 7]
    said = [one for one in told if one.type == "tool"]
    assert ["repeats" in one.artifact for one in said] == [False, True, False]


async def test_langchain_equal_calls_that_are_made_together_are_one_call(desk, paid):
    (pay,) = desk.for_langchain()
    await asyncio.gather(*(pay.ainvoke(call) for call in pays("c1", "c2").tool_calls))
    await pay.ainvoke(pays("c3").tool_calls[0])
    assert paid[0] == [7, 7]
