"""Conversations as Gemini and Vertex AI want them."""

import json
from itertools import pairwise

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
from upshot.wire.gemini import GenerateEncoder

TOOL = ToolSpec(name="f", description="d", parameters={"type": "object"})
SCHEMA = {"type": "object"}


def encoder(*said, provider="gemini"):
    made = GenerateEncoder(provider=provider)
    for message in said:
        made.append(message)
    return made


def turns(*said, provider="gemini", **more):
    return body_of(encoder(*said, provider=provider), **more)["contents"]


def fields(model="gemini-2.5-flash", **settings):
    return body_of(encoder(), model=model, tools=(TOOL,), settings=ModelSettings(**settings))


def calling(*calls, parts=""):
    return Message("assistant", parts, tool_calls=calls)


def test_turns_alternate_and_system_is_apart():
    made = encoder(Message("system", "one"), Message("user", "a"), Message("assistant", "b"))
    found = body_of(made, system="zero")
    assert found["systemInstruction"] == {"parts": [{"text": "zero\n\none"}]}
    assert found["contents"] == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}]},
    ]


def test_results_that_follow_one_another_are_one_turn():
    made = encoder(
        Message("user", "go"),
        calling(ToolCall("c1", "f", '{"x":1}'), ToolCall("c2", "g")),
        Message("tool", '{"ok": true}', tool_call_id="c1"),
    )
    assert len(body_of(made)["contents"]) == 3
    made.append(Message("tool", "plain", tool_call_id="c2"))
    _, asked, answered = body_of(made)["contents"]
    assert asked["parts"][0]["functionCall"] == {"name": "f", "args": {"x": 1}, "id": "c1"}
    assert [part["functionResponse"] for part in answered["parts"]] == [
        {"name": "f", "response": {"ok": True}, "id": "c1"},
        {"name": "g", "response": {"output": "plain"}, "id": "c2"},
    ]


def test_vertex_is_sent_no_ids():
    said = (calling(ToolCall("c1", "f")), Message("tool", "r", tool_call_id="c1", name="f"))
    asked, answered = turns(*said, provider="gemini-vertex")
    assert "id" not in asked["parts"][0]["functionCall"]
    assert "id" not in answered["parts"][0]["functionResponse"]


def test_pictures_of_a_tool_stand_beside_its_result():
    (turn,) = turns(Message("tool", (Data({"a": 1}), Image(data=b"hi")), tool_call_id="c"))
    assert turn["parts"][0]["functionResponse"]["response"] == {"a": 1}
    assert turn["parts"][1]["inlineData"]["mimeType"] == "image/png"


def test_signatures_go_back_where_they_were():
    said = Message(
        "assistant",
        (
            Reasoning(text="hm", signature="s1", provider="gemini"),
            Text("x", signature="s2", provider="gemini"),
        ),
        tool_calls=(ToolCall("c", "f", {}, "s3", "gemini"),),
    )
    thought, text, call = turns(said)[0]["parts"]
    assert thought == {"text": "hm", "thought": True, "thoughtSignature": "s1"}
    assert text == {"text": "x", "thoughtSignature": "s2"}
    assert call["thoughtSignature"] == "s3"


def test_a_signature_without_a_text_has_a_part_of_its_own():
    said = Message("assistant", (Text("", signature="s", provider="gemini"),))
    assert turns(said)[0]["parts"] == [{"text": "", "thoughtSignature": "s"}]


def test_thoughts_and_signatures_of_others_are_dropped():
    said = Message(
        "assistant",
        (
            Reasoning(text="hm", signature="s", provider="openai"),
            Reasoning(text="hm", provider="gemini"),
            Text("x"),
        ),
        tool_calls=(ToolCall("c", "f", {}, "s", "vertex"),),
    )
    text, call = turns(said)[0]["parts"]
    assert text == {"text": "x"}
    assert "thoughtSignature" not in call


def test_a_reply_goes_back_as_it_came():
    parts = [
        {"text": "hm", "thought": True, "thoughtSignature": "s1"},
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c"}, "thoughtSignature": "s2"},
    ]
    body = json.dumps({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
    response = read_response(
        "generate", status=200, headers={}, body=body.encode(), provider="gemini"
    )
    assert turns(response.to_message()) == [{"role": "model", "parts": parts}]


@pytest.mark.parametrize(
    ("model", "signed"),
    [("gemini-3-pro-preview", [True, False]), ("gemini-2.5-pro", [False, False])],
)
def test_calls_of_others_are_passed_off_to_models_that_want_a_signature(model, signed):
    made = encoder(
        Message("user", "go"),
        calling(ToolCall("c1", "f"), ToolCall("c2", "f"), parts="hm"),
        Message("tool", "r", tool_call_id="c1"),
        calling(ToolCall("c3", "f", {}, "s", "gemini"), ToolCall("c4", "f")),
    )
    _, foreign, _, own = body_of(made, model=model)["contents"]
    assert ["thoughtSignature" in part for part in foreign["parts"][1:]] == signed
    assert ["thoughtSignature" in part for part in own["parts"]] == [True, False]


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (Image(data=b"hi"), {"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
        (
            Image(url="data:image/gif;base64,aGk="),
            {"inlineData": {"mimeType": "image/gif", "data": "aGk="}},
        ),
        (
            Image(url="http://x/a.JPG?b"),
            {"fileData": {"fileUri": "http://x/a.JPG?b", "mimeType": "image/jpeg"}},
        ),
        (File(id="files/1"), {"fileData": {"fileUri": "files/1"}}),
        (
            File(url="gs://b/a", media_type="text/plain"),
            {"fileData": {"fileUri": "gs://b/a", "mimeType": "text/plain"}},
        ),
        (File(name="n"), {"text": "n"}),
        (
            Audio(data=b"hi", media_type="audio/mp3"),
            {"inlineData": {"mimeType": "audio/mp3", "data": "aGk="}},
        ),
        (Audio(transcript="said"), {"text": "said"}),
        (Data([1]), {"text": "[1]"}),
        (Unknown(raw={"executableCode": {"code": "1"}}), {"executableCode": {"code": "1"}}),
    ],
)
def test_parts_are_sent(part, sent):
    assert turns(Message("user", (part,))) == [{"role": "user", "parts": [sent]}]


@pytest.mark.parametrize(
    "part", [Text(""), Audio(), File(), Unknown(raw={"type": "x"}), Reasoning(text="hm")]
)
def test_what_would_be_empty_is_left_out(part):
    assert turns(Message("user", (part,))) == []


def test_the_config_is_built_of_the_settings():
    found = fields(temperature=0.5, top_p=0.9, max_tokens=7, stop=("x",), seed=3)
    assert found["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxOutputTokens": 7,
        "stopSequences": ["x"],
        "seed": 3,
    }
    assert found["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}
            ]
        }
    ]
    assert "model" not in found
    assert "stream" not in found


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", {"mode": "ANY"}),
        ("none", {"mode": "NONE"}),
        ("f", {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_a_tool_choice_is_a_mode(choice, sent):
    assert fields(tool_choice=choice)["toolConfig"] == {"functionCallingConfig": sent}


@pytest.mark.parametrize(
    ("model", "reasoning", "thinking"),
    [
        ("gemini-2.5-flash", "low", {"thinkingBudget": 2048, "includeThoughts": True}),
        ("gemini-2.5-flash", 100, {"thinkingBudget": 100, "includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", 0, {"thinkingBudget": 128}),
        ("gemini-3-flash-preview", "none", {"thinkingLevel": "minimal"}),
        ("gemini-3.1-pro-preview", "none", {"thinkingLevel": "low"}),
        ("gemini-3-flash", "xhigh", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-3-flash", 100, {"thinkingBudget": 100, "includeThoughts": True}),
        ("gemini-flash-latest", "low", {"thinkingBudget": 2048, "includeThoughts": True}),
        ("gemini-2.0-flash", "low", None),
        ("gemini-1.5-pro-002", "low", None),
    ],
)
def test_thinking_is_asked_for_as_the_model_takes_it(model, reasoning, thinking):
    config = fields(model, reasoning=reasoning)["generationConfig"]
    assert config.get("thinkingConfig") == thinking


@pytest.mark.parametrize(
    ("model", "tools"), [("gemini-2.5-flash", ()), ("gemini-3-flash", (TOOL,))]
)
def test_a_schema_is_sent(model, tools):
    found = body_of(encoder(), model=model, tools=tools, output_schema=SCHEMA)
    assert found["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }


def test_a_schema_beside_tools_is_told_to_older_models_in_words():
    found = body_of(
        encoder(), model="gemini-2.5-pro", tools=(TOOL,), output_schema=SCHEMA, system="s"
    )
    assert found["generationConfig"] == {}
    assert found["systemInstruction"]["parts"][0]["text"].endswith('{"type":"object"}')


def test_extras_join_the_objects_that_are_there():
    extra = {"generationConfig": {"topK": 5, "seed": 9}, "cachedContent": "c"}
    found = fields(seed=1, extra=extra)
    assert found["generationConfig"] == {"topK": 5, "seed": 9}
    assert found["cachedContent"] == "c"


def test_a_conversation_that_goes_on_begins_with_the_same_bytes():
    made = encoder(Message("user", "a"), calling(ToolCall("c", "f")))
    asked = {"model": "m", "system": None, "tools": (), "output_schema": None, "stream": False}
    first = made.body(settings=ModelSettings(), **asked)
    made.append(Message("tool", "r", tool_call_id="c"))
    kept = first.partition(b"]}],")[0]
    assert made.body(settings=ModelSettings(), **asked).startswith(kept)


@given(st.lists(messages, max_size=5), st.sampled_from(["gemini-2.5-pro", "gemini-3-pro"]))
def test_any_conversation_makes_turns_that_alternate(said, model):
    found = turns(*said, model=model)
    assert all(one["role"] != other["role"] for one, other in pairwise(found))
    assert all(turn["parts"] for turn in found)
