"""Images and sound that models make: read whole and streamed, and sent back to their maker."""

import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.wire.frames import frame
from tests.wire.talk import body_of
from upshot.contract import (
    Audio,
    File,
    Image,
    Message,
    PartDelta,
    Reasoning,
    Text,
    ToolCall,
)
from upshot.models.retry import judged
from upshot.wire import StreamReader, make_request_encoder, read_response

PIXEL = b"\x89PNG\r\n\x1a\n pixel"
SOUND = b"RIFF....WAVEfmt "
IMAGE, WAVE = b64encode(PIXEL).decode(), b64encode(SOUND).decode()
HALVES = [b64encode(SOUND[:5]).decode(), b64encode(SOUND[5:]).decode()]
CALL = {
    "id": "ig_1",
    "type": "image_generation_call",
    "status": "completed",
    "output_format": "webp",
    "result": IMAGE,
}
CALLED = {name: value for name, value in CALL.items() if name != "result"}


def generated(*parts):
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP"}]}


def chosen(field, **message):
    return {"choices": [{field: message, "finish_reason": "stop"}]}


def conversed(*content):
    return {"output": {"message": {"content": list(content)}}, "stopReason": "end_turn"}


def inline(kind, data, **more):
    return {"inlineData": {"mimeType": kind, "data": data}, **more}


SPOKEN = (Text("Hello."), Audio(data=SOUND, media_type="audio/wav", id="a1"))
WHOLE = {
    "chat sound": (
        "chat",
        chosen("message", content=None, audio={"id": "a1", "data": WAVE, "transcript": "Hello."}),
        SPOKEN,
    ),
    "chat image": (
        "chat",
        chosen(
            "message",
            content="Here.",
            images=[{"image_url": {"url": f"data:image/png;base64,{IMAGE}"}}],
        ),
        (Text("Here."), Image(data=PIXEL, media_type="image/png")),
    ),
    "gemini image": (
        "generate",
        generated({"text": "Here."}, inline("image/png", IMAGE)),
        (Text("Here."), Image(data=PIXEL, media_type="image/png")),
    ),
    "gemini signed": (
        "generate",
        generated(inline("image/png", IMAGE, thoughtSignature="s")),
        (Image(data=PIXEL, media_type="image/png", signature="s", provider="p"),),
    ),
    "gemini draft": (
        "generate",
        generated(inline("image/png", IMAGE, thought=True), {"text": "Here."}),
        (Text("Here."),),
    ),
    "gemini file": (
        "generate",
        generated(inline("application/pdf", IMAGE)),
        (File(data=PIXEL, media_type="application/pdf"),),
    ),
    "responses image": (
        "responses",
        {"output": [CALL], "status": "completed"},
        (
            Image(
                data=PIXEL,
                media_type="image/webp",
                signature=json.dumps(CALLED, separators=(",", ":")),
                provider="p",
            ),
        ),
    ),
    "converse image": (
        "converse",
        conversed({"text": "Here."}, {"image": {"format": "png", "source": {"bytes": IMAGE}}}),
        (Text("Here."), Image(data=PIXEL, media_type="image/png")),
    ),
}


def read(surface, document):
    body = json.dumps(document).encode()
    return read_response(surface, status=200, headers={}, body=body, provider="p")


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_model_made_is_a_part_of_its_reply(name):
    surface, document, parts = WHOLE[name]
    response = read(surface, document)
    assert response.parts == parts
    assert response.success
    # A reply that is only an image is an answer.
    assert judged(response).error is None


def events(*documents):
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in documents)


STREAMED = {
    "chat": (
        events(
            chosen("delta", audio={"id": "a1", "transcript": "Hel"}),
            chosen("delta", audio={"data": HALVES[0], "transcript": "lo."}),
            chosen("delta", audio={"data": HALVES[1]}),
        ),
        SPOKEN,
    ),
    "generate": (
        events(
            generated(inline("audio/L16;rate=24000", HALVES[0])),
            generated(inline("audio/L16;rate=24000", HALVES[1])),
        ),
        (Audio(data=SOUND, media_type="audio/L16;rate=24000"),),
    ),
    "responses": (
        events(
            {"type": "response.output_item.done", "output_index": 0, "item": CALL},
            {"type": "response.completed", "response": {"status": "completed", "output": [CALL]}},
        ),
        WHOLE["responses image"][2],
    ),
    "converse": (
        frame("contentBlockStart", {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}})
        + frame(
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"image": {"source": {"bytes": IMAGE}}}},
        )
        + frame("messageStop", {"stopReason": "end_turn"}),
        (Image(data=PIXEL, media_type="image/png"),),
    ),
}


@pytest.mark.parametrize("surface", STREAMED)
def test_a_stream_gives_the_same_parts(surface):
    data, parts = STREAMED[surface]
    reader = StreamReader(surface, provider="p")
    told = "".join(getattr(delta, "text", "") for delta in reader.feed(data))
    response = reader.close()
    assert (response.parts, told) == (parts, response.content or "")


@pytest.mark.parametrize("data", ["", "not base64!", "CUT12"])
def test_what_is_no_base64_is_no_part(data):
    assert read("generate", generated(inline("image/png", data), {"text": "a"})).content == "a"
    broken = {**CALL, "result": data}
    (part,) = read("responses", {"output": [broken], "status": "completed"}).parts
    assert part.raw == broken


def sent_back(surface, name, provider="p"):
    encoder = make_request_encoder(surface, provider=provider)
    encoder.append(Message("user", "Draw."))
    encoder.append(read(*WHOLE[name][:2]).to_message())
    return body_of(encoder)


def test_a_made_image_is_sent_back_as_it_came_to_its_own_provider_only():
    assert sent_back("responses", "responses image")["input"][1:] == [CALL]
    assert sent_back("responses", "responses image", "other")["input"][1:] == []
    turn = sent_back("generate", "gemini signed")["contents"][1]
    assert turn["parts"] == [inline("image/png", IMAGE, thoughtSignature="s")]
    turn = sent_back("generate", "gemini signed", "other")["contents"][1]
    assert turn["parts"] == [inline("image/png", IMAGE)]


@pytest.mark.parametrize("surface", ["messages", "converse", "invoke"])
def test_an_image_of_another_model_is_not_shown_as_the_assistants(surface):
    (turn,) = sent_back(surface, "gemini signed")["messages"]
    assert turn["role"] == "user"


def test_speech_is_sent_back_as_its_words():
    assert sent_back("chat", "chat sound")["messages"][1] == {
        "role": "assistant",
        "content": "Hello.",
    }


def joined(deltas):
    """The parts that a watcher has, in the order in which they began."""
    made = {}
    for one in deltas:
        if isinstance(one, PartDelta):
            before, content = made.get(one.index), one.content
            if isinstance(before, Audio) and isinstance(content, Audio):
                content = replace(before, data=before.data + content.data)
            made[one.index] = content
    return tuple(made.values())


def block(index, start, *pieces):
    """A block of a reply of the surface messages."""
    deltas = [
        {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}
        for kind, more in pieces
    ]
    begin = {"type": "content_block_start", "index": index, "content_block": start}
    return [begin, *deltas, {"type": "content_block_stop", "index": index}]


SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "https://a"}]}
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
CODE = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
DRAFT = {
    "type": "response.image_generation_call.partial_image",
    "output_index": 1,
    "partial_image_b64": HALVES[0],
    "output_format": "webp",
}
BEGUN = {"toolUse": {"toolUseId": "t1", "name": "grounding", "type": "server_tool_use"}}
SOUND_BLOCK = {"contentBlockIndex": 1, "start": {"audio": {"format": "wav"}}}
# The whole reply of each has parts of several kinds, between texts.
MIXED = {
    "chat": events(
        chosen("delta", content="Hear", audio={"id": "a1"}),
        chosen("delta", audio={"data": HALVES[0]}),
        chosen("delta", images=[{"image_url": {"url": f"data:image/png;base64,{IMAGE}"}}]),
        chosen("delta", content=" this.", audio={"data": HALVES[1]}),
    ),
    "generate": events(
        generated(CODE, {"text": "Two."}),
        generated(inline("audio/wav", HALVES[0])),
        generated(inline("audio/wav", HALVES[1]), inline("image/png", IMAGE)),
    ),
    "messages": events(
        *block(0, {"type": "text", "text": ""}, ("text_delta", {"text": "Looking."})),
        *block(1, SEARCH, ("input_json_delta", {"partial_json": '{"query": "a"}'})),
        *block(2, FOUND),
        *block(3, {"type": "text", "text": "Found."}),
        {"type": "message_stop"},
    ),
    "responses": events(
        {"type": "response.output_item.done", "output_index": 0, "item": SEARCHED},
        DRAFT,
        {"type": "response.output_item.done", "output_index": 1, "item": CALL},
        {"type": "response.completed", "response": {"output": [SEARCHED, CALL]}},
    ),
    "converse": frame("contentBlockStart", {"contentBlockIndex": 0, "start": BEGUN})
    + frame("contentBlockStop", {"contentBlockIndex": 0})
    + frame("contentBlockStart", SOUND_BLOCK)
    + b"".join(
        frame(
            "contentBlockDelta",
            {"contentBlockIndex": 1, "delta": {"audio": {"source": {"bytes": piece}}}},
        )
        for piece in HALVES
    )
    + frame("contentBlockStop", {"contentBlockIndex": 1})
    + frame("messageStop", {"stopReason": "end_turn"}),
}


@given(data=st.data())
@pytest.mark.parametrize("surface", MIXED)
def test_what_streams_is_what_the_reply_has_wherever_it_is_cut(surface, data):
    body = MIXED[surface]
    places = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=8)))
    reader, deltas = StreamReader(surface, provider="p"), []
    for start, end in zip([0, *places], [*places, len(body)], strict=True):
        deltas += reader.feed(body[start:end])
    response = reader.close()
    of_model = (Text, Reasoning, ToolCall)
    parts = [part for part in response.parts if not isinstance(part, of_model)]
    assert len(parts) >= 2
    # A chat names the sound first.
    key = lambda part: type(part).__name__  # noqa: E731
    assert sorted(joined(deltas), key=key) == sorted(parts, key=key)
    whole = StreamReader(surface, provider="p")
    assert whole.feed(body) == deltas
    assert whole.close().parts == response.parts


def test_drafts_of_an_image_are_replaced_by_it():
    deltas = StreamReader("responses", provider="p").feed(MIXED["responses"])
    assert [one.index for one in deltas] == [0, 1, 1]
    assert deltas[1].content == Image(data=SOUND[:5], media_type="image/webp")
