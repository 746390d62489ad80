"""Tools whose names hold dots, which some providers refuse."""

import json

import pytest

from upshot.contract import Message, ModelRequest, ModelSettings, ToolCall, ToolCallDelta, ToolSpec
from upshot.errors import Misuse
from upshot.models import aclose_transports, resolve

DOTTED = ToolSpec(name="math.sum", parameters={"type": "object"})
CALL = {"id": "c1", "type": "function", "function": {"name": "math_sum", "arguments": "{}"}}
CHAT = {"choices": [{"message": {"role": "assistant", "tool_calls": [CALL]}}]}
BLOCK = {"type": "tool_use", "id": "c1", "name": "math_sum", "input": {}}
MESSAGES = {"role": "assistant", "content": [BLOCK], "stop_reason": "tool_use"}
ITEM = {"type": "function_call", "call_id": "c1", "name": "math_sum", "arguments": "{}"}
RESPONSES = {"status": "completed", "output": [ITEM]}
ASKED = ModelRequest(
    [
        Message("user", "hi"),
        Message("assistant", "", tool_calls=(ToolCall("c0", "math.sum", "{}"),)),
        Message("tool", "3", tool_call_id="c0", name="math.sum"),
    ],
    tools=(DOTTED,),
    settings=ModelSettings(tool_choice="math.sum"),
)


@pytest.fixture(autouse=True)
async def closed_transports():
    yield
    await aclose_transports()


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("openai:m", CHAT),
        ("anthropic:m", MESSAGES),
        ("openai-responses:m", RESPONSES),
    ],
)
async def test_the_provider_sees_no_dot_and_the_run_its_own_name(serve, http_reply, name, reply):
    async with serve(http_reply(reply)) as server:
        response = await resolve(name, base_url=server.url).call(ASKED)
    assert "math.sum" not in json.dumps(server.asked[0].json())
    assert [call.name for call in response.tool_calls] == ["math.sum"]


async def test_pieces_of_a_call_have_the_runs_own_name(serve, http_reply):
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0, **CALL}]}}]}
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in (call, end)) + "data: [DONE]\n\n"
    events = http_reply(body.encode(), headers={"content-type": "text/event-stream"})
    async with serve(events) as server:
        items = [item async for item in resolve("openai:m", base_url=server.url).stream(ASKED)]
    names = {item.name for item in items if isinstance(item, ToolCallDelta)}
    assert names == {"math.sum"}
    assert items[-1].tool_calls[0].name == "math.sum"


async def test_two_tools_with_one_name_on_the_wire_are_misuse(serve, http_reply):
    asked = ModelRequest("hi", tools=(DOTTED, ToolSpec(name="math_sum")))
    async with serve(http_reply(CHAT)) as server:
        with pytest.raises(Misuse, match=r"'math\.sum' and 'math_sum'"):
            await resolve("openai:m", base_url=server.url).call(asked)
        assert server.asked == []
