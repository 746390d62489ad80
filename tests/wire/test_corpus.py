"""Recorded exchanges of real providers are read as what they are.

Skipped where the recordings are absent; see the fixture ``corpus``.
"""

import re
from collections import Counter
from random import Random

import pytest

from tests.docs.recordings import NAMES, RECORDINGS
from tests.wire.exchange import NOW, compare, load
from tests.wire.talk import body_of
from upshot.wire import StreamReader, classify_error, make_request_encoder, read_response
from upshot.wire.decoding import parse_object
from upshot.wire.reader import SURFACES

ENOUGH = 0.99
READ_FROM_ERRORS = ("other", "cohere-chat")
FINISHED = {
    "chat": re.compile(rb'"finish_reason"\s*:\s*"'),
    "messages": re.compile(rb'"stop_reason"\s*:\s*"'),
    "responses": re.compile(rb'"type"\s*:\s*"response\.(completed|incomplete|failed|cancelled)"'),
    "generate": re.compile(rb'"(finishReason|blockReason)"\s*:'),
}


def read(item):
    answer = item["response"]
    return read_response(
        item["surface"],
        status=answer["status"] or 200,
        headers=answer["headers"],
        body=item["bytes"],
        provider=item["provider"],
        now=NOW,
    )


def stream(item, pieces):
    reader = StreamReader(item["surface"], provider=item["provider"], now=NOW)
    for piece in pieces:
        reader.feed(piece)
    return reader.close()


def cut(data, rng, largest):
    while data:
        size = rng.randint(1, largest)
        yield data[:size]
        data = data[size:]


def streams(corpus, surface):
    for item, facts in load(corpus, surface):
        if item["mode"] == "sse" and facts["status"] in (None, 200):
            yield item


@pytest.mark.parametrize("surface", SURFACES)
def test_the_facts_of_recorded_exchanges_are_read(corpus, surface):
    right, total, wrong = 0, 0, Counter()
    for item, facts in load(corpus, surface):
        for name, holds in compare(item, facts, read(item)):
            total += 1
            right += holds
            if not holds:
                wrong[f"{name} of {item['id']}"] += 1
    assert total, f"no recorded exchanges of {surface}"
    assert right >= ENOUGH * total, f"{right} of {total} facts; wrong: {', '.join(wrong)}"


def test_the_page_of_providers_counts_the_recordings(corpus):
    counted: dict[str, dict[str, int]] = {}
    for surface in SURFACES:
        for item, _ in load(corpus, surface):
            of = counted.setdefault(NAMES.get(item["provider"], item["provider"]), {})
            of[surface] = of.get(surface, 0) + 1
    assert counted == RECORDINGS


@pytest.mark.parametrize("surface", READ_FROM_ERRORS)
def test_recorded_errors_of_other_surfaces_are_classified(corpus, surface):
    for item, facts in load(corpus, surface):
        answer = item["response"]
        error = classify_error(
            status=answer["status"], body=item["bytes"], headers=answer["headers"]
        )
        if "error_code" in facts:
            assert (error.code, error.retryable) == (facts["error_code"], facts["retryable"])


@pytest.mark.parametrize("surface", SURFACES)
def test_recorded_streams_do_not_depend_on_how_they_are_cut(corpus, surface):
    for item in streams(corpus, surface):
        whole = stream(item, [item["bytes"]])
        for largest in (7, 900):
            pieces = cut(item["bytes"], Random(item["id"]), largest)
            assert stream(item, pieces) == whole, item["id"]


@pytest.mark.parametrize("surface", SURFACES)
def test_recorded_streams_that_break_off_are_not_finished(corpus, surface):
    for item in streams(corpus, surface):
        data = item["bytes"]
        ends = [found.end() for found in re.finditer(rb"\r\n\r\n|\n\n|\r\r", data)][:-1]
        for end in Random(item["id"]).sample(ends, min(20, len(ends))):
            if not FINISHED[surface].search(data, 0, end):
                response = stream(item, [data[:end]])
                assert response.finish_reason in (None, "error"), f"{item['id']} at {end}"
                assert response.provider_data["stream_done"] is False


def test_recorded_replies_of_messages_go_back_block_by_block(corpus):
    found = 0
    for item, facts in load(corpus, "messages"):
        blocks = content_of(item, facts)
        if not blocks:
            continue
        encoder = make_request_encoder("messages", provider=item["provider"])
        encoder.append(read(item).to_message())
        (turn,) = body_of(encoder)["messages"]
        assert turn["content"] == blocks, item["id"]
        found += 1
    assert found


def content_of(item, facts):
    """The blocks of a whole reply, without what says nothing."""
    document = parse_object(item["bytes"]) if facts["status"] in (None, 200) else None
    blocks = (document or {}).get("content")
    if not isinstance(blocks, list) or (document or {}).get("error"):
        return []
    silent = (("citations", None), ("citations", []), ("caller", {"type": "direct"}))
    return [
        {
            name: value
            for name, value in block.items()
            if block["type"] not in ("text", "tool_use") or (name, value) not in silent
        }
        for block in blocks
        if block["type"] != "text" or block["text"].strip()
    ]
