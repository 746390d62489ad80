"""The parts of a reply: their order as it came, sent back as it came, whole and streamed alike."""

import itertools
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.wire.frames import frame
from tests.wire.talk import body_of
from upshot.contract.message import Message, Reasoning, ServerToolBlock, Text
from upshot.contract.model_calls import ModelResponse
from upshot.contract.tool_calls import ToolCall
from upshot.wire import StreamReader, make_request_encoder, read_response

words = st.text("abc é", min_size=1, max_size=6).filter(str.strip)
idents = st.text("abcdef0123", min_size=1, max_size=8)
arguments = st.dictionaries(idents, st.integers(0, 9) | words, max_size=2)


def call(**more):
    return st.builds(ToolCall, idents, idents, arguments, **more)


def block(provider, *forms):
    return st.builds(ServerToolBlock, st.one_of(forms), st.just(provider))


ANTHROPIC = st.one_of(
    st.builds(Text, words),
    st.builds(
        Text,
        words,
        citations=st.just(({"type": "web_search_result_location", "encrypted_index": "e"},)),
        provider=st.just("anthropic"),
    ),
    st.builds(Reasoning, text=words, signature=idents, provider=st.just("anthropic")),
    st.builds(Reasoning, signature=idents, provider=st.just("anthropic"), redacted=st.just(True)),
    call(),
    call(
        signature=st.just('{"type":"code_execution_20250825","tool_id":"t"}'),
        provider=st.just("anthropic"),
    ),
    block(
        "anthropic",
        st.fixed_dictionaries(
            {"type": st.just("server_tool_use"), "id": idents, "name": idents, "input": arguments}
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("web_search_tool_result"),
                "tool_use_id": idents,
                "content": st.just([{"type": "web_search_result", "encrypted_content": "e"}]),
            }
        ),
    ),
)
OPENAI = st.one_of(
    st.builds(Text, words),
    st.builds(Reasoning, text=words, signature=idents, provider=st.just("openai"), id=idents),
    call(),
    block(
        "openai",
        st.fixed_dictionaries({"type": st.just("web_search_call"), "id": idents}),
        st.fixed_dictionaries(
            {"type": st.just("code_interpreter_call"), "id": idents, "code": words}
        ),
    ),
)
GEMINI = st.one_of(
    st.builds(Text, words),
    st.builds(Text, words | st.just(""), signature=idents, provider=st.just("gemini")),
    st.builds(Reasoning, text=words, signature=idents, provider=st.just("gemini")),
    call(),
    call(signature=idents, provider=st.just("gemini")),
    block(
        "gemini",
        st.fixed_dictionaries({"executableCode": st.fixed_dictionaries({"code": words})}),
        st.fixed_dictionaries({"codeExecutionResult": st.fixed_dictionaries({"output": words})}),
    ),
)


def is_mergeable(part):
    return isinstance(part, Text) and part == Text(part.text)


def sequences(parts):
    return st.lists(parts, min_size=1, max_size=6).map(tuple)


def sent(surface, provider, parts):
    """What a request says of a reply with *parts*."""
    encoder = make_request_encoder(surface, provider=provider)
    encoder.append(ModelResponse(parts=parts).to_message())
    return body_of(encoder)


def read(surface, provider, document):
    body = json.dumps(document).encode()
    return read_response(surface, status=200, headers={}, body=body, provider=provider, mode="json")


def plain(parts):
    """*parts* with arguments as objects, and plain texts that follow one another as one."""
    made = []
    for part in parts:
        if isinstance(part, ToolCall) and isinstance(part.arguments, str):
            told = json.loads(part.arguments)
            made.append(ToolCall(part.id, part.name, told, part.signature, part.provider))
        elif made and is_mergeable(part) and is_mergeable(made[-1]):
            made[-1] = Text(made[-1].text + part.text)
        else:
            made.append(part)
    return made


# What is sent back is read as a reply again: what the provider would see of its own reply.


@given(sequences(ANTHROPIC))
def test_messages_is_sent_the_parts_as_they_came(parts):
    (turn,) = sent("messages", "anthropic", parts)["messages"]
    assert list(read("messages", "anthropic", turn).parts) == list(parts)


@given(sequences(OPENAI))
def test_responses_is_sent_the_parts_as_they_came(parts):
    items = [{"type": "message", **item} for item in sent("responses", "openai", parts)["input"]]
    again = read("responses", "openai", {"status": "completed", "output": items}).parts
    assert plain(again) == plain(parts)


@given(sequences(GEMINI))
def test_generate_is_sent_the_parts_as_they_came(parts):
    (turn,) = sent("generate", "gemini", parts)["contents"]
    again = read("generate", "gemini", {"candidates": [{"content": turn}]}).parts
    assert plain(again) == plain(parts)


@given(
    sequences(
        st.builds(Text, words) | st.builds(Reasoning, text=words, provider=st.just("mistral"))
    )
)
def test_the_content_of_mistral_keeps_its_order(parts):
    assume(any(isinstance(part, Reasoning) for part in parts))
    for one, other in itertools.pairwise(parts):
        assume(type(one) is not type(other))
    (item,) = sent("chat", "mistral", parts)["messages"]
    again = read("chat", "mistral", {"choices": [{"message": item}]})
    assert again.parts == parts


@pytest.mark.parametrize(
    ("surface", "parts"),
    [("messages", OPENAI), ("messages", GEMINI), ("responses", ANTHROPIC), ("responses", GEMINI),
     ("generate", ANTHROPIC), ("generate", OPENAI), ("chat", ANTHROPIC)],
)  # fmt: skip
def test_another_provider_is_sent_texts_and_calls_alone(surface, parts):
    @given(sequences(parts))
    def check(parts):
        reduced = [
            Text(part.text)
            if isinstance(part, Text)
            else ToolCall(part.id, part.name, part.arguments)
            for part in parts
            if isinstance(part, Text | ToolCall)
        ]
        assert sent(surface, "another", parts) == sent(surface, "another", reduced)

    check()


def test_a_block_is_not_sent_without_the_thought_that_it_came_of():
    thought = Reasoning(text="hm", provider="openai", id="rs_1")
    search = ServerToolBlock({"type": "web_search_call", "id": "ws_1"}, "openai")
    items = sent("responses", "openai", (thought, search, Text("It rains.")))["input"]
    assert items == [{"role": "assistant", "content": "It rains."}]


def test_what_asks_the_client_for_something_is_not_sent_without_the_answer():
    asked = ServerToolBlock({"type": "computer_call", "id": "cu_1"}, "openai")
    assert sent("responses", "openai", (asked, Text("x")))["input"] == [
        {"role": "assistant", "content": "x"}
    ]


def test_a_paused_turn_and_what_follows_are_one_turn():
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    encoder = make_request_encoder("messages", provider="anthropic")
    encoder.append(Message("user", "Look."))
    for raw in (use, result):
        block = ServerToolBlock(raw, "anthropic")
        encoder.append(Message("assistant", (block,), paused=raw is use))
    _, turn = body_of(encoder)["messages"]
    assert turn == {"role": "assistant", "content": [use, result]}


# -- streams


def to_event(document):
    return f"event: {document.get('type', '')}\ndata: {json.dumps(document)}\n\n".encode()


def streamed(surface, provider, events):
    reader = StreamReader(surface, provider=provider)
    for event in events:
        reader.feed(event)
    return reader.close()


def halves(text):
    return [half for half in (text[: len(text) // 2], text[len(text) // 2 :]) if half]


def of_messages(blocks):
    """The events of a stream of *blocks*."""
    for index, whole in enumerate(blocks):
        start, deltas = dict(whole), []
        match whole["type"]:
            case "text":
                deltas = [{"type": "text_delta", "text": half} for half in halves(whole["text"])]
                found = start.pop("citations", ())
                deltas += [{"type": "citations_delta", "citation": one} for one in found]
                start["text"] = ""
            case "thinking":
                halved = halves(whole["thinking"])
                deltas = [{"type": "thinking_delta", "thinking": half} for half in halved]
                deltas.append({"type": "signature_delta", "signature": start.pop("signature")})
                start["thinking"] = ""
            case "tool_use" | "server_tool_use":
                halved = halves(json.dumps(whole["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": half} for half in halved]
                start["input"] = {}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "message_stop"}


@given(sequences(ANTHROPIC))
def test_a_stream_of_messages_gives_the_parts_of_the_whole(parts):
    (turn,) = sent("messages", "anthropic", parts)["messages"]
    events = map(to_event, of_messages(turn["content"]))
    assert plain(streamed("messages", "anthropic", events).parts) == plain(parts)


def of_responses(items):
    """The events of a stream of *items*, without the last one's copy of them."""
    for index, whole in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index,
               "item": {"type": whole["type"], "id": whole.get("id")}}  # fmt: skip
        yield {"type": "response.output_item.done", "output_index": index, "item": whole}


@given(sequences(OPENAI))
def test_a_stream_of_responses_gives_the_parts_of_the_whole(parts):
    items = [{"type": "message", **item} for item in sent("responses", "openai", parts)["input"]]
    whole = read("responses", "openai", {"status": "completed", "output": items})
    events = map(to_event, of_responses(items))
    assert streamed("responses", "openai", events).parts == whole.parts


@given(sequences(GEMINI))
def test_a_stream_of_generate_gives_the_parts_of_the_whole(parts):
    (turn,) = sent("generate", "gemini", parts)["contents"]
    pieces = []
    for part in turn["parts"]:
        # Only what is not signed is cut.
        whole = "text" not in part or "thoughtSignature" in part
        pieces += [part] if whole else [{"text": half} for half in halves(part["text"])]
    chunks = [{"candidates": [{"content": {"parts": [piece]}}]} for piece in pieces]
    whole = read("generate", "gemini", {"candidates": [{"content": turn}]})
    assert streamed("generate", "gemini", map(to_event, chunks)).parts == whole.parts


def of_chat(message):
    for half in halves(message.get("reasoning_content", "")):
        yield {"reasoning_content": half}
    content = message.get("content") or ""
    for item in halves(content) if isinstance(content, str) else [[one] for one in content]:
        yield {"content": item}
    for index, one in enumerate(message.get("tool_calls", ())):
        yield {"tool_calls": [{"index": index, **one}]}


CONTENTS = words | st.lists(
    words.map(lambda text: {"type": "text", "text": text})
    | words.map(lambda text: {"type": "thinking", "thinking": [{"type": "text", "text": text}]}),
    max_size=4,
)
CALLS = st.lists(
    st.builds(
        lambda ident, name: {"id": ident, "function": {"name": name, "arguments": "{}"}},
        idents,
        idents,
    ),
    max_size=2,
    unique_by=lambda made: made["id"],
)


@given(words | st.just(""), CONTENTS, CALLS)
def test_a_stream_of_chat_gives_the_parts_of_the_whole(thought, content, calls):
    assume(isinstance(content, str) or not thought)
    message = {"reasoning_content": thought, "content": content, "tool_calls": calls}
    whole = read("chat", "p", {"choices": [{"message": message}]})
    events = [to_event({"choices": [{"delta": delta}]}) for delta in of_chat(message)]
    assert streamed("chat", "p", events or [b"data: [DONE]\n\n"]).parts == whole.parts


BLOCKS = st.one_of(
    words.map(lambda text: {"text": text}),
    st.builds(
        lambda text, mark: {
            "reasoningContent": {"reasoningText": {"text": text, "signature": mark}}
        },
        words,
        idents,
    ),
    st.builds(
        lambda kind, ident, given: {
            "toolUse": {"toolUseId": ident, "name": "f", "input": given, **kind}
        },
        st.sampled_from([{}, {"type": "server_tool_use"}]),
        idents,
        arguments,
    ),
    st.builds(
        lambda ident, text: {"toolResult": {"toolUseId": ident, "content": [{"text": text}]}},
        idents,
        words,
    ),
)


def of_converse(blocks):
    for index, whole in enumerate(blocks):
        deltas = [whole]
        if use := whole.get("toolUse"):
            start = {"toolUse": {name: value for name, value in use.items() if name != "input"}}
            yield "contentBlockStart", {"contentBlockIndex": index, "start": start}
            deltas = [{"toolUse": {"input": half}} for half in halves(json.dumps(use["input"]))]
        elif result := whole.get("toolResult"):
            start = {"toolResult": {"toolUseId": result["toolUseId"]}}
            yield "contentBlockStart", {"contentBlockIndex": index, "start": start}
            deltas = [{"toolResult": result["content"]}]
        elif thought := whole.get("reasoningContent"):
            deltas = [{"reasoningContent": thought["reasoningText"]}]
        for delta in deltas:
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}


@given(st.lists(BLOCKS, min_size=1, max_size=5))
def test_a_stream_of_converse_gives_the_parts_of_the_whole(blocks):
    document = {"output": {"message": {"content": blocks}}, "stopReason": "end_turn"}
    whole = read("converse", "bedrock", document)
    frames = [frame(kind, told) for kind, told in of_converse(blocks)]
    assert plain(streamed("converse", "bedrock", frames).parts) == plain(whole.parts)


# -- views


@given(sequences(st.one_of(ANTHROPIC, OPENAI, GEMINI)))
def test_the_views_agree_with_the_parts(parts):
    response = ModelResponse(parts=parts)
    message = response.to_message()
    said = "".join(part.text for part in parts if isinstance(part, Text))
    assert (response.content or "") == message.text == said
    calls = tuple(part for part in parts if isinstance(part, ToolCall))
    assert response.tool_calls == message.tool_calls == calls
    assert response.reasoning == tuple(part for part in parts if isinstance(part, Reasoning))
    assert message.parts == tuple(part for part in parts if part != Text(""))


@given(words, st.lists(call(), max_size=2), st.booleans())
def test_a_reply_of_views_has_their_parts(text, calls, thinks):
    thoughts = (Reasoning(text="hm"),) if thinks else ()
    response = ModelResponse(content=text, tool_calls=calls, reasoning=thoughts)
    assert response.parts == (*thoughts, Text(text), *calls)
    assert response == ModelResponse(parts=response.parts)
