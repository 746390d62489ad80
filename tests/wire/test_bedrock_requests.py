"""Conversations as Converse wants them, and as InvokeModel does for Claude."""

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
    ServerToolBlock,
    Text,
    ToolCall,
    ToolSpec,
)
from upshot.wire import make_request_encoder, read_response

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
OLD_CLAUDE = "anthropic.claude-3-5-sonnet-20241022-v2:0"
NOVA = "amazon.nova-pro-v1:0"
GPT = "openai.gpt-oss-120b-1:0"
LLAMA = "meta.llama3-3-70b-instruct-v1:0"
POINT = {"cachePoint": {"type": "default"}}
TOOL = ToolSpec(name="a.b", description="d", parameters={"type": "object"}, strict=True)
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
CALL = Message("assistant", "", tool_calls=(ToolCall("t1", "f", '{"x":1}'),))


def encoder(*said, surface="converse"):
    made = make_request_encoder(surface, provider="bedrock")
    for message in said:
        made.append(message)
    return made


def fields(*said, settings=None, model=CLAUDE, **more):
    return body_of(encoder(*said), model=model, settings=settings or ModelSettings(), **more)


def blocks(*parts, role="user"):
    (turn,) = fields(Message(role, parts))["messages"]
    return turn["content"]


def media(kind, form, **more):
    return {kind: {**more, "format": form, "source": {"bytes": "eA=="}}}


def test_turns_alternate_and_system_is_apart():
    made = fields(
        Message("system", "s"),
        Message("user", "go"),
        CALL,
        Message("tool", "1", tool_call_id="t1"),
        Message("user", "and?"),
        system="be kind",
    )
    assert made["system"] == [{"text": "be kind\n\ns"}]
    assert made["messages"] == [
        {"role": "user", "content": [{"text": "go"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "t1", "name": "f", "input": {"x": 1}}}],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "t1", "content": [{"text": "1"}]}},
                {"text": "and?"},
            ],
        },
    ]


def test_settings_are_those_of_the_inference_config():
    settings = ModelSettings(temperature=0.5, top_p=0.9, max_tokens=7, stop=("x",), seed=1)
    made = fields(Message("user", "a"), settings=settings, stream=True)
    assert made.keys() == {"messages", "inferenceConfig"}
    assert made["inferenceConfig"] == {
        "temperature": 0.5, "topP": 0.9, "maxTokens": 7, "stopSequences": ["x"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "parallel", "model", "standing", "additional"),
    [
        (None, None, CLAUDE, None, None),
        ("auto", None, CLAUDE, {"auto": {}}, None),
        ("required", None, LLAMA, {"any": {}}, None),
        ("a.b", None, NOVA, {"tool": {"name": "a_b"}}, None),
        ("none", None, CLAUDE, None, {"type": "none"}),
        (None, False, CLAUDE, None, {"type": "auto", "disable_parallel_tool_use": True}),
        (None, False, NOVA, None, None),
        ("required", False, NOVA, {"any": {}}, None),
    ],
)
def test_the_choice_of_tools(choice, parallel, model, standing, additional):
    settings = ModelSettings(tool_choice=choice, parallel_tool_calls=parallel)
    made = fields(tools=(TOOL,), settings=settings, model=model)
    spec = {"name": "a_b", "description": "d", "inputSchema": {"json": {"type": "object"}}}
    assert made["toolConfig"]["tools"] == [{"toolSpec": {**spec, "strict": True}}]
    assert made["toolConfig"].get("toolChoice") == standing
    assert made.get("additionalModelRequestFields", {}).get("tool_choice") == additional


def test_a_model_that_cannot_be_told_to_make_no_call_gets_no_tools():
    settings = ModelSettings(tool_choice="none")
    assert "toolConfig" not in fields(tools=(TOOL,), settings=settings, model=NOVA)
    # Except after a call: such a conversation is refused without tools.
    assert "toolConfig" in fields(CALL, tools=(TOOL,), settings=settings, model=NOVA)


def test_a_conversation_with_calls_names_their_tools_if_none_are_offered():
    made = encoder(Message("user", "a"))
    assert "toolConfig" not in body_of(made)
    made.append(CALL)
    (tool,) = body_of(made)["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "f"


@pytest.mark.parametrize(
    ("model", "marked", "tools_marked"),
    [(CLAUDE, True, True), (NOVA, True, False), (LLAMA, False, False)],
)
def test_the_cache_is_marked_for_models_that_have_one(model, marked, tools_marked):
    settings = ModelSettings(cache=True)
    made = fields(Message("user", "a"), system="s", tools=(TOOL,), settings=settings, model=model)
    assert (POINT in made["system"], POINT in made["messages"][-1]["content"]) == (marked, marked)
    assert (POINT in made["toolConfig"]["tools"]) is tools_marked


def test_the_mark_of_the_cache_moves_with_the_last_turn():
    made, settings = encoder(Message("user", "a")), ModelSettings(cache=True)
    body_of(made, model=CLAUDE, settings=settings)
    made.append(Message("assistant", "b"))
    first, second = body_of(made, model=CLAUDE, settings=settings)["messages"]
    assert (POINT in first["content"], POINT in second["content"]) == (False, True)


@pytest.mark.parametrize(
    ("model", "reasoning", "additional", "room"),
    [
        (CLAUDE, "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}, 16384 + 2048),
        (CLAUDE, 0, {"thinking": {"type": "disabled"}}, None),
        (
            "anthropic.claude-opus-4-6-v1:0",
            "high",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
            16384,
        ),
        (GPT, "high", {"reasoning_effort": "high"}, None),
        (GPT, 5000, {"reasoning_effort": "medium"}, None),
        (LLAMA, "high", None, None),
    ],
)
def test_reasoning_is_asked_for_in_the_form_of_the_vendor(model, reasoning, additional, room):
    made = fields(settings=ModelSettings(reasoning=reasoning), model=model)
    assert made.get("additionalModelRequestFields") == additional
    assert made.get("inferenceConfig", {}).get("maxTokens") == room


@pytest.mark.parametrize(
    ("model", "enforced"), [(CLAUDE, True), (GPT, True), (OLD_CLAUDE, False), (LLAMA, False)]
)
def test_a_schema_is_enforced_or_put_into_the_instructions(model, enforced):
    made = fields(output_schema=CLOSED, system="s", model=model)
    if enforced:
        form = made["outputConfig"]["textFormat"]
        assert form["type"] == "json_schema"
        assert json.loads(form["structure"]["jsonSchema"]["schema"]) == CLOSED
        assert made["system"] == [{"text": "s"}]
    else:
        assert "outputConfig" not in made
        assert json.dumps(CLOSED, separators=(",", ":")) in made["system"][0]["text"]


def test_free_fields_are_merged_into_the_objects_of_the_surface():
    extra = {
        "additionalModelRequestFields": {"top_k": 5},
        "guardrailConfig": {"guardrailIdentifier": "g"},
    }
    made = fields(settings=ModelSettings(reasoning=0, extra=extra))
    assert made["guardrailConfig"] == {"guardrailIdentifier": "g"}
    assert made["additionalModelRequestFields"].keys() == {"thinking", "top_k"}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Image(data=b"x", media_type="image/jpg"), media("image", "jpeg")),
        (
            Image(url="s3://b/k", media_type="image/webp"),
            {"image": {"format": "webp", "source": {"s3Location": {"uri": "s3://b/k"}}}},
        ),
        (Image(url="https://x/y.png"), {"text": "https://x/y.png"}),
        (
            File(data=b"x", name="The  plan_2.pdf"),
            media("document", "pdf", name="The plan 2"),
        ),
        (File(data=b"x", media_type="text/csv"), media("document", "csv", name="document")),
        (Audio(data=b"x", media_type="audio/x-wav"), media("audio", "wav")),
        (Audio(transcript="said"), {"text": "said"}),
        (Data({"a": 1}), {"text": '{"a":1}'}),
    ],
)
def test_each_part_has_its_block(part, block):
    assert blocks(part) == [block]


def test_data_of_a_tool_stays_data():
    (turn,) = fields(Message("tool", (Data({"a": 1}), Text(" ")), tool_call_id="t"))["messages"]
    assert turn["content"] == [{"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}]}}]


def test_only_the_providers_own_thoughts_and_tools_are_sent_back():
    own = [
        Reasoning(text="hm", signature="s", provider="bedrock"),
        Reasoning(signature="r", provider="bedrock", redacted=True),
        ServerToolBlock({"toolUse": {"type": "server_tool_use"}}, "bedrock"),
    ]
    others = [
        Reasoning(text="hm", signature="s", provider="anthropic"),
        Reasoning(text="unsigned", provider="bedrock"),
        ServerToolBlock({"type": "server_tool_use"}, "anthropic"),
    ]
    assert blocks(*own, *others, Text("so"), role="assistant") == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"reasoningContent": {"redactedContent": "r"}},
        {"toolUse": {"type": "server_tool_use"}},
        {"text": "so"},
    ]


def test_a_recorded_reply_is_sent_back_as_it_came():
    said = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"text": "I look."},
        {"toolUse": {"toolUseId": "t", "name": "f", "input": {"x": 1}}},
    ]
    document = {
        "output": {"message": {"role": "assistant", "content": said}},
        "stopReason": "tool_use",
    }
    response = read_response(
        "converse", status=200, headers={}, body=json.dumps(document).encode(), provider="bedrock"
    )
    (turn,) = fields(response.to_message())["messages"]
    assert turn == {"role": "assistant", "content": said}


@given(st.lists(messages, max_size=5), st.sampled_from([CLAUDE, NOVA, GPT]), st.booleans())
def test_every_conversation_has_the_form_that_the_service_describes(said, model, more):
    session = pytest.importorskip("botocore.session", reason="the extra bedrock")
    from botocore.validate import ParamValidator

    global _SHAPE  # noqa: PLW0603  # reading the model of the service takes a moment
    if _SHAPE is None:
        service = session.Session().get_service_model("bedrock-runtime")
        _SHAPE = service.operation_model("Converse").input_shape
    settings = ModelSettings(cache=more, reasoning="low" if more else None, tool_choice="required")
    schema = CLOSED if more else None
    tools = (TOOL,) if more else ()
    made = fields(*said, model=model, settings=settings, output_schema=schema, tools=tools)
    report = ParamValidator().validate({"modelId": model, **made}, _SHAPE)
    # What a caller says, such as the format of a file, is for the service to refuse.
    assert not report.has_errors(), report.generate_report()
    roles = [turn["role"] for turn in made["messages"]]
    assert all(one != other for one, other in pairwise(roles))


_SHAPE = None


def test_invoke_has_the_body_of_messages_with_the_clouds_version():
    made = body_of(encoder(Message("user", "a"), surface="invoke"), model=CLAUDE, stream=True)
    assert made == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 16384,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
    }
