"""ScriptedModel: its replies, its place in the script, and scripts as JSON."""

import asyncio
import json

import pytest

from upshot.contract import (
    AgentError,
    ErrorCode,
    FinishReason,
    Message,
    MessageList,
    ModelRequest,
    ModelResponse,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from upshot.errors import Misuse
from upshot.models import ScriptedModel, open_script

ADD = ToolCall("c1", "add", {"a": 1})


async def test_a_text_is_an_answer():
    response = await ScriptedModel(["hello"]).call("hi")
    assert (response.content, response.finish_reason) == ("hello", FinishReason.STOP)
    assert response.usage.unmeasured_calls == 1


@pytest.mark.parametrize("item", [ADD, [ADD], (ADD,)], ids=["one", "list", "tuple"])
async def test_calls_ask_for_tools(item):
    response = await ScriptedModel([item]).call("hi")
    assert (response.tool_calls, response.finish_reason) == ((ADD,), FinishReason.TOOL_USE)


async def test_a_response_is_given_as_it_is():
    given = ModelResponse(content="x", usage=Usage(input_tokens=1), provider_data={"model": "m"})
    assert await ScriptedModel([given]).call("hi") is given


async def test_an_error_is_a_value():
    error = AgentError(ErrorCode.RATE_LIMIT, "slow", retryable=True, retry_after_s=1.2)
    response = await ScriptedModel([error]).call("hi")
    assert response.error is error
    assert response.rate_limit is not None
    assert (response.rate_limit.limited, response.rate_limit.retry_after) == (True, 2)


async def test_a_function_sees_the_messages_and_may_be_async():
    async def later(messages):
        return f"{len(messages)} messages"

    model = ScriptedModel([lambda messages: messages[-1].text.upper(), later])
    assert (await model.call("hi")).content == "HI"
    assert (await model.call([Message("user", "a")])).content == "1 messages"


async def test_one_function_answers_every_call():
    model = ScriptedModel(lambda messages: messages[-1].text)
    assert [(await model.call(text)).content for text in "abc"] == ["a", "b", "c"]
    model.assert_finished()


async def test_what_a_function_raises_is_its_own():
    def broken(messages):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ScriptedModel([broken]).call("hi")


async def test_a_spent_script_is_an_error_that_counts_its_replies():
    model = ScriptedModel(["one"])
    await model.call("hi")
    error = (await model.call("hi")).error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.INVALID_REQUEST, False)
    assert "it had 1 reply" in error.message


@pytest.mark.parametrize("script", ["text", [1], [[]], [["x"]], [None]])
def test_what_cannot_be_replied_is_misuse(script):
    with pytest.raises(Misuse):
        ScriptedModel(script)


async def test_what_a_function_returns_is_checked_too():
    with pytest.raises(Misuse, match="function in the script"):
        await ScriptedModel([lambda messages: 7]).call("hi")


async def test_a_schema_makes_the_text_an_output():
    request = ModelRequest([Message("user", "hi")], output_schema={"type": "object"})
    model = ScriptedModel(['{"a": 1}', "no JSON", "null"])
    assert [(await model.call(request)).output for _ in range(3)] == [{"a": 1}, None, None]


async def test_a_stream_gives_all_in_pieces_and_then_the_response():
    reply = ModelResponse(
        content=" two  words\n", reasoning=(Reasoning(text="hm"),), tool_calls=(ADD,)
    )
    *deltas, last = [item async for item in ScriptedModel([reply]).stream("hi")]
    assert last is reply
    assert deltas[0] == ReasoningDelta(text="hm")
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == [
        " two  ",
        "words\n",
    ]
    assert deltas[-1] == ToolCallDelta(index=0, call_id="c1", name="add", arguments='{"a":1}')


async def test_calls_keeps_the_messages_as_they_were():
    model, talk = ScriptedModel(["a", "b"]), MessageList([Message("user", "hi")])
    await model.call(talk)
    talk.append(Message("assistant", "a"))
    await model.call(talk)
    assert [len(request.messages) for request in model.calls] == [1, 2]


async def test_assert_finished_counts_what_is_left():
    model = ScriptedModel(["a", "b"])
    await model.call("hi")
    with pytest.raises(AssertionError, match="1 of 2"):
        model.assert_finished()
    await model.call("hi")
    model.assert_finished()


async def test_goes_on_after_the_replies_of_a_resumed_run():
    before = ScriptedModel(["a", AgentError(message="x"), ModelResponse(content="c"), "d"])
    replies = [await before.call("hi") for _ in range(3)]
    fresh = ScriptedModel(["a", "b", "c", "d"])
    fresh.skip_played(replies)
    assert (await fresh.call("hi")).content == "d"


async def test_a_model_that_played_the_replies_itself_skips_none():
    model = ScriptedModel(["a", "b", "c"])
    replies = [await model.call("hi"), await model.call("hi")]
    model.skip_played(replies[:1])
    model.skip_played([])
    assert (await model.call("hi")).content == "c"


async def test_a_resumed_run_that_was_not_the_first_finds_its_place():
    before = ScriptedModel(["first run", "second run", "rest"])
    await before.call("hi")
    replies = [await before.call("hi")]
    fresh = ScriptedModel(["first run", "second run", "rest"])
    fresh.skip_played(replies)
    assert (await fresh.call("hi")).content == "rest"


async def test_each_conversation_can_have_the_whole_script():
    model = ScriptedModel(["a", "b", "c"], per_conversation=True)

    async def talk(number: int) -> list[str | None]:
        messages = MessageList([Message("user", str(number))])
        return [(await model.call(messages)).content for _ in range(3)]

    told = await asyncio.gather(*(talk(number) for number in range(20)))
    assert told == [["a", "b", "c"]] * 20
    model.assert_finished()


async def test_other_sequences_tell_their_place_by_their_assistant_messages():
    model = ScriptedModel(["a", "b"], per_conversation=True)
    said = [Message("user", "hi"), Message("assistant", "a"), Message("user", "on")]
    assert (await model.call(said)).content == "b"


async def test_a_resumed_conversation_goes_on_in_its_own_script():
    model = ScriptedModel(["a", "b"], per_conversation=True)
    replies = [await model.call(MessageList([Message("user", "hi")]))]
    resumed = MessageList([Message("user", "hi")])
    model.skip_played(replies, conversation=resumed)
    assert (await model.call(resumed)).content == "b"


SCRIPT = [
    "text",
    {"name": "add", "arguments": {"a": 1}},
    [{"id": "own", "name": "add", "arguments": "{}"}],
    {"error": {"code": "rate_limit", "message": "slow", "retryable": True}},
    {"content": "x", "usage": {"input_tokens": 3}, "tool_calls": [{"name": "add"}]},
]


async def test_a_script_can_be_a_file(tmp_path):
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    model = open_script(str(path))
    text, call, calls, error, whole = [await model.call("hi") for _ in SCRIPT]
    assert text.content == "text"
    assert call.tool_calls == (ToolCall("call-1", "add", {"a": 1}),)
    assert calls.tool_calls == (ToolCall("own", "add", "{}"),)
    assert error.error == AgentError(ErrorCode.RATE_LIMIT, "slow", retryable=True)
    assert (whole.usage.input_tokens, whole.tool_calls[0].id) == (3, "call-4-0")
    assert model.name == f"scripted:{path}"


@pytest.mark.parametrize("where", ['"hello"', '["hello"]'])
async def test_a_script_can_stand_in_the_name(where):
    assert (await open_script(where).call("hi")).content == "hello"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("{", "is not JSON"),
        ("{}", "is not a list"),
        ("[7]", "reply 0"),
        ('["a", {"contents": "x"}]', "'contents' is not a field"),
        ('[{"name": 7}]', "reply 0"),
        ('[{"error": {"code": 7}}]', "reply 0"),
        ("[[]]", "empty"),
    ],
)
def test_a_file_that_holds_no_script_is_misuse(tmp_path, text, match):
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(Misuse, match=match):
        open_script(str(path))


@pytest.mark.parametrize(("where", "match"), [("", "needs a script"), ("no/such.json", "No such")])
def test_a_script_that_is_not_there_is_misuse(where, match):
    with pytest.raises(Misuse, match=match):
        open_script(where)
