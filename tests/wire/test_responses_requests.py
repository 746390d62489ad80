"""Conversations as Responses servers want them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.talk import body_of, messages
from upshot.contract import (
    Audio,
    Data,
    File,
    Image,
    Message,
    ModelSettings,
    Reasoning,
    Text,
    ToolCall,
    ToolSpec,
    Unknown,
)
from upshot.wire import read_response
from upshot.wire.responses import ResponsesEncoder

TOOL = ToolSpec(name="f", description="d", parameters={"type": "object"})
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def encoder(*said, provider="openai"):
    made = ResponsesEncoder(provider=provider)
    for message in said:
        made.append(message)
    return made


def items(*said, provider="openai"):
    return body_of(encoder(*said, provider=provider))["input"]


def fields(model="gpt-4o", provider="openai", **settings):
    asked = ModelSettings(**settings)
    return body_of(encoder(provider=provider), model=model, tools=(TOOL,), settings=asked)


def test_messages_calls_and_results_are_items():
    said = (
        Message("system", "s"),
        Message("user", "u"),
        Message("assistant", "a", tool_calls=(ToolCall("c1", "f", {"x": 1}), ToolCall("c2", "f"))),
        Message("tool", "r", tool_call_id="c1"),
    )
    assert items(*said) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x":1}'},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ]


def test_ids_that_are_too_long_are_made_to_fit():
    long = "x" * 65
    call, result = items(
        Message("assistant", "", tool_calls=(ToolCall(long, "f"),)),
        Message("tool", "r", tool_call_id=long),
    )
    assert call["call_id"] == result["call_id"] != long


def test_signed_thoughts_go_back_before_what_came_of_them():
    thought = Reasoning(text="hm", signature="xyz", provider="openai", id="rs_1")
    sent, said = items(Message("assistant", (thought, Text("a"))))
    assert sent == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "xyz",
    }
    assert said == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("provider", "thought"),
    [
        ("openai", Reasoning(text="hm", signature="s", provider="xai")),
        ("openai", Reasoning(text="hm", provider="openai", id="rs_1")),
        ("deepseek", Reasoning(provider="deepseek", id="rs_1")),
    ],
    ids=["foreign", "unsigned", "empty"],
)
def test_other_thoughts_are_dropped(provider, thought):
    assert len(items(Message("assistant", (thought, Text("a"))), provider=provider)) == 1


def test_thoughts_that_are_shown_go_back_to_servers_that_take_them():
    thought = Reasoning(text="hm", provider="deepseek")
    (sent,) = items(Message("assistant", (thought,)), provider="deepseek")
    assert sent["content"] == [{"type": "reasoning_text", "text": "hm"}]


def test_a_reply_goes_back_as_it_came():
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'},
    ]
    body = json.dumps({"status": "completed", "output": output}).encode()
    response = read_response("responses", status=200, headers={}, body=body, provider="openai")
    assert items(response.to_message()) == output


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (Text("t"), {"type": "input_text", "text": "t"}),
        (Image(url="http://x"), {"type": "input_image", "image_url": "http://x"}),
        (
            Image(data=b"hi", media_type="image/gif", detail="low"),
            {
                "type": "input_image",
                "image_url": "data:image/gif;base64,aGk=",
                "detail": "low",
            },
        ),
        (
            File(data=b"hi", media_type="text/plain", name="n"),
            {
                "type": "input_file",
                "filename": "n",
                "file_data": "data:text/plain;base64,aGk=",
            },
        ),
        (File(url="http://x"), {"type": "input_file", "file_url": "http://x"}),
        (File(id="f1"), {"type": "input_file", "file_id": "f1"}),
        (File(summary="s"), {"type": "input_text", "text": "s"}),
        (
            Audio(data=b"hi", media_type="audio/mp3"),
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        ),
        (Audio(transcript="said"), {"type": "input_text", "text": "said"}),
        (Data({"a": 1}), {"type": "input_text", "text": '{"a":1}'}),
        (Unknown(raw={"type": "own", "x": 1}), {"type": "own", "x": 1}),
    ],
)
def test_parts_become_items_of_the_content(part, sent):
    (message,) = items(Message("user", (part, Data(1))))
    assert message["content"][0] == sent


def test_the_body_is_built_of_the_settings():
    found = fields(temperature=0.5, top_p=0.9, max_tokens=7, parallel_tool_calls=False)
    assert (found["temperature"], found["top_p"], found["max_output_tokens"]) == (0.5, 0.9, 7)
    assert (found["parallel_tool_calls"], found["store"]) == (False, False)
    assert found["tools"] == [
        {
            "type": "function",
            "name": "f",
            "description": "d",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]


def test_what_the_surface_has_no_field_for_is_left_out():
    assert not {"stop", "seed"} & set(fields(stop=("x",), seed=1))


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("required", "required"), ("f", {"type": "function", "name": "f"}), (None, None)],
)
def test_a_tool_choice_is_a_word_or_a_function(choice, sent):
    assert fields(tool_choice=choice).get("tool_choice") == sent


@pytest.mark.parametrize(
    ("reasoning", "effort"), [("low", "low"), (2000, "low"), (0, "none"), ("xhigh", "xhigh")]
)
def test_reasoning_is_an_effort(reasoning, effort):
    assert fields(reasoning=reasoning)["reasoning"] == {"effort": effort}


@pytest.mark.parametrize(
    ("model", "settings", "included"),
    [
        ("gpt-5-mini", {}, True),
        ("openai/o4-mini", {}, True),
        ("grok-4.3", {}, True),
        ("gpt-5-mini", {"reasoning": "none"}, False),
        ("gpt-5-chat-latest", {}, False),
        ("grok-4-fast-non-reasoning", {}, False),
        ("gpt-4o", {}, False),
        ("my-deployment", {"reasoning": "low"}, True),
    ],
)
def test_models_that_think_are_asked_for_their_thoughts(model, settings, included):
    assert ("include" in fields(model, **settings)) is included


def test_a_schema_is_sent():
    found = body_of(encoder(), output_schema={**CLOSED, "title": "T"})
    assert found["text"]["format"] == {
        "type": "json_schema",
        "name": "T",
        "schema": {**CLOSED, "title": "T"},
        "strict": True,
    }


def test_a_schema_is_told_in_words_where_none_is_taken():
    found = body_of(encoder(provider="deepseek"), output_schema=CLOSED, system="be kind")
    assert found["text"] == {"format": {"type": "json_object"}}
    assert found["instructions"].startswith("be kind")
    assert '"additionalProperties":false' in found["instructions"]


def test_instructions_stream_and_extras_are_fields():
    found = body_of(
        encoder(),
        system="s",
        stream=True,
        settings=ModelSettings(extra={"service_tier": "flex", "store": True}),
    )
    assert (found["instructions"], found["stream"]) == ("s", True)
    assert (found["service_tier"], found["store"]) == ("flex", True)


def test_tools_are_encoded_anew_when_they_change():
    made = encoder()
    body_of(made, tools=(TOOL,))
    assert body_of(made, tools=(ToolSpec(name="g"),))["tools"][0]["name"] == "g"


@given(st.lists(messages, max_size=5))
def test_any_conversation_makes_a_body(said):
    made = encoder()
    for message in said:
        made.append(message)
    assert made.count == len(said)
    assert isinstance(body_of(made)["input"], list)
