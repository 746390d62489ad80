"""Conversations as Chat Completions servers want them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.talk import body_of, messages
from upshot.contract import (
    Audio,
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
from upshot.wire.chat import ChatEncoder

TOOL = ToolSpec(name="f", description="does", parameters={"type": "object"})
CLOSED = {
    "title": "An answer",
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def encoder(*said, provider="openai"):
    made = ChatEncoder(provider=provider)
    for message in said:
        made.append(message)
    return made


def item(message, provider="openai"):
    return body_of(encoder(message, provider=provider))["messages"][0]


def fields(provider="openai", **settings):
    return body_of(encoder(provider=provider), tools=(TOOL,), settings=ModelSettings(**settings))


@pytest.mark.parametrize(("provider", "sent"), [("openai", True), ("cohere", False)])
def test_a_switch_that_a_server_does_not_know_is_left_out(provider, sent):
    assert ("parallel_tool_calls" in fields(provider, parallel_tool_calls=False)) is sent


def test_system_comes_first_and_messages_in_order():
    made = encoder(Message("user", "a"), Message("assistant", "b"))
    assert body_of(made, system="be kind")["messages"] == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    assert made.count == 2


def test_a_tool_turn_is_written_with_its_ids():
    call = ToolCall("a", "f", {"x": 1})
    made = encoder(
        Message("assistant", "", tool_calls=(call,)), Message("tool", "{}", tool_call_id="a")
    )
    asked, answered = body_of(made)["messages"]
    assert asked["content"] is None
    assert asked["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    ]
    assert answered == {"role": "tool", "content": "{}", "tool_call_id": "a"}


def test_arguments_go_back_as_they_came():
    call = ToolCall("a", "f", '{"x" : 1')
    sent = item(Message("assistant", "", tool_calls=(call,)))
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"x" : 1'


def test_another_providers_ids_are_made_to_fit():
    call = ToolCall("toolu_" + "x" * 60, "f")
    made = encoder(
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "{}", tool_call_id=call.id),
        provider="mistral",
    )
    asked, answered = body_of(made)["messages"]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert len(answered["tool_call_id"]) == 9


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (Text("t"), {"type": "text", "text": "t"}),
        (Image(url="http://x"), {"type": "image_url", "image_url": {"url": "http://x"}}),
        (
            Image(data=b"hi", media_type="image/gif", detail="low"),
            {
                "type": "image_url",
                "image_url": {"url": "data:image/gif;base64,aGk=", "detail": "low"},
            },
        ),
        (
            File(data=b"hi", name="a.pdf", media_type="application/pdf"),
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
            },
        ),
        (File(id="f1"), {"type": "file", "file": {"file_id": "f1"}}),
        (
            Audio(data=b"hi", media_type="audio/mp3"),
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        ),
    ],
    ids=["text", "image-url", "image", "file", "file-id", "audio"],
)
def test_parts_become_content(part, sent):
    content = item(Message("user", (part, Image(url="http://other"))))["content"]
    assert content[0] == sent


@pytest.mark.parametrize(
    ("provider", "field"),
    [("openai", "max_completion_tokens"), ("groq", "max_completion_tokens"), ("", "max_tokens")],
)
def test_the_most_tokens_go_into_the_dialects_field(provider, field):
    assert fields(provider, max_tokens=7)[field] == 7


@pytest.mark.parametrize(
    ("provider", "reasoning", "sent"),
    [
        ("openai", "low", {"reasoning_effort": "low"}),
        ("openai", 3000, {"reasoning_effort": "low"}),
        ("openai", 0, {"reasoning_effort": "none"}),
        ("mistral", "none", {"reasoning_effort": "none"}),
        ("mistral", "low", {"reasoning_effort": "high"}),
        ("cohere", 2000, {"reasoning_effort": "high"}),
        ("fireworks", "minimal", {"reasoning_effort": "low"}),
        ("fireworks", "xhigh", {"reasoning_effort": "xhigh"}),
        ("openrouter", "high", {"reasoning": {"effort": "high"}}),
        ("openrouter", 2048, {"reasoning": {"max_tokens": 2048}}),
        ("openrouter", "none", {"reasoning": {"enabled": False}}),
        ("deepseek", "none", {"thinking": {"type": "disabled"}}),
        ("deepseek", "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("alibaba", 100, {"enable_thinking": True, "thinking_budget": 100}),
        ("moonshot", "high", {}),
    ],
)
def test_reasoning_is_asked_for_in_the_dialect(provider, reasoning, sent):
    plain = fields(provider)
    found = fields(provider, reasoning=reasoning)
    assert {name: found[name] for name in found if name not in plain} == sent


@pytest.mark.parametrize(
    ("provider", "choice", "sent"),
    [
        ("openai", "auto", "auto"),
        ("openai", "required", "required"),
        ("mistral", "required", "any"),
        ("openai", "f", {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_a_tool_choice_is_a_word_or_a_function(provider, choice, sent):
    assert fields(provider, tool_choice=choice)["tool_choice"] == sent


def test_settings_are_sent_and_extras_win():
    found = fields(
        temperature=0.5, top_p=0.9, stop=("x",), seed=3, parallel_tool_calls=False,
        extra={"seed": 4, "service_tier": "flex"},
    )  # fmt: skip
    assert (found["temperature"], found["top_p"], found["stop"]) == (0.5, 0.9, ["x"])
    assert (found["seed"], found["service_tier"], found["parallel_tool_calls"]) == (
        4,
        "flex",
        False,
    )


def test_what_is_not_set_is_not_sent():
    assert set(body_of(encoder())) == {"messages", "model"}


def test_a_tool_choice_without_tools_is_not_sent():
    found = body_of(encoder(), settings=ModelSettings(tool_choice="auto"))
    assert "tool_choice" not in found


def test_tools_are_functions():
    function = {"name": "f", "description": "does", "parameters": {"type": "object"}}
    assert fields()["tools"] == [{"type": "function", "function": function}]


@pytest.mark.parametrize(("provider", "asked"), [("openai", True), ("mistral", False)])
def test_a_stream_asks_for_usage_where_it_must(provider, asked):
    found = body_of(encoder(provider=provider), stream=True)
    assert found["stream"] is True
    assert ("stream_options" in found) is asked


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), ({"type": "object"}, False)])
def test_a_schema_is_strict_only_where_it_is_closed(schema, strict):
    form = body_of(encoder(), output_schema=schema)["response_format"]["json_schema"]
    assert (form["schema"], form["strict"]) == (schema, strict)


def test_a_server_without_schemas_is_told_in_words():
    found = body_of(encoder(provider="deepseek"), output_schema=CLOSED, system="be kind")
    assert found["response_format"] == {"type": "json_object"}
    assert found["messages"][0]["content"].startswith("be kind\n\n")
    assert '"additionalProperties":false' in found["messages"][0]["content"]


def thought(provider, signature=None):
    part = Reasoning(text="hm", signature=signature, provider=provider)
    return Message("assistant", (part, Text("x")), tool_calls=(ToolCall("123456789", "f"),))


@pytest.mark.parametrize(
    ("provider", "signature", "field", "sent"),
    [
        ("deepseek", None, "reasoning_content", "hm"),
        ("openrouter", '{"type": "t"}', "reasoning_details", [{"type": "t"}]),
        (
            "mistral",
            None,
            "content",
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "x"},
            ],
        ),
    ],
)
def test_thoughts_go_back_to_their_provider(provider, signature, field, sent):
    assert item(thought(provider, signature), provider)[field] == sent


@pytest.mark.parametrize("provider", ["deepseek", "openrouter", "mistral", "openai", ""])
def test_thoughts_of_another_provider_are_dropped(provider):
    sent = item(thought("anthropic", "s"), provider)
    assert set(sent) == {"role", "content", "tool_calls"}
    assert sent["content"] == "x"


def test_deepseek_gets_thoughts_back_only_beside_calls():
    parts = (Reasoning(text="hm", provider="deepseek"), Text("x"))
    assert "reasoning_content" not in item(Message("assistant", parts), "deepseek")


def test_parts_that_no_provider_knows_are_left_out():
    parts = (Unknown(raw={"kind": "hologram"}), Unknown(raw={"type": "video_url"}))
    assert item(Message("user", parts))["content"] == [{"type": "video_url"}]


@pytest.mark.parametrize(
    ("provider", "sent"),
    [("google", {"google": {"thought_signature": "sig"}}), ("openai", None), ("", None)],
    ids=["to its own", "not to another", "not to anybody"],
)
def test_a_calls_signature_goes_back(provider, sent):
    call = ToolCall("a", "f", {}, "sig", "google")
    said = item(Message("assistant", "", tool_calls=(call,)), provider)["tool_calls"][0]
    assert said.get("extra_content") == sent


def test_a_conversation_that_goes_on_begins_with_the_same_bytes():
    def body():
        return made.body(
            model="m", system="s", tools=(), output_schema=None, settings=ModelSettings(),
            stream=False,
        )  # fmt: skip

    made = encoder(Message("user", "a"))
    before = body().partition(b"],")[0]
    made.append(Message("assistant", "b"))
    assert body().startswith(before + b",")


@given(st.lists(messages, max_size=4), st.sampled_from(["", "openai", "openrouter", "mistral"]))
def test_any_conversation_makes_a_body_of_json(said, provider):
    made = encoder(*said, provider=provider)
    found = body_of(made, system="\ud800")
    assert len(found["messages"]) == len(said) + 1
    assert json.dumps(found)


MARK = {"cache_control": {"type": "ephemeral"}}
AUTO = {"providerOptions": {"gateway": {"caching": "auto"}}}


@pytest.mark.parametrize(
    ("provider", "model", "sent"),
    [
        ("openrouter", "anthropic/claude-sonnet-4.5", MARK),
        ("openrouter", "openai/gpt-5", {}),
        ("vercel-gateway", "anthropic/claude-sonnet-4.5", AUTO),
        ("openai", "gpt-5", {}),
    ],
)
def test_a_gateway_is_asked_to_mark_what_a_model_should_cache(provider, model, sent):
    with_cache, without = (
        body_of(encoder(provider=provider), model=model, settings=ModelSettings(cache=cache))
        for cache in (True, None)
    )
    assert with_cache == {**without, **sent}
