"""AWS event streams are read frame by frame, and damage is noticed."""

import json
import struct
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.absurd import sizes
from tests.wire.frames import frame, pack, text_header
from upshot.wire.streams import EXCEPTION, FrameParser

ONE = frame("metadata", {"a": 1})
TWO = frame("messageStop", {"b": 2})


def parse(data):
    return FrameParser().feed(data)


def failure(data):
    (name, payload) = parse(data)[-1]
    assert name == EXCEPTION
    return json.loads(payload)


def test_frames_become_events():
    assert parse(ONE + TWO) == [("metadata", b'{"a": 1}'), ("messageStop", b'{"b": 2}')]


def test_a_frame_that_is_cut_is_no_event():
    parser = FrameParser()
    assert parser.feed(ONE[:-1]) == []
    assert parser.close() == []


def test_an_exception_keeps_its_type_and_message():
    data = frame("throttlingException", {"message": "slow"}, message_type="exception")
    assert failure(data) == {"__type": "throttlingException", "message": "slow"}


@pytest.mark.parametrize("payload", [b"", b"no json", b"[]", b'{"message": 7}'])
def test_an_exception_of_any_payload_is_one(payload):
    assert failure(frame("x", payload, message_type="exception"))["__type"] == "x"


def test_an_error_tells_in_its_headers():
    headers = text_header(":message-type", "error") + text_header(":error-code", "Internal")
    data = pack(headers + text_header(":error-message", "sorry"), b"")
    assert failure(data) == {"__type": "Internal", "message": "sorry"}


@pytest.mark.parametrize("place", [0, 5, 9, 14, 40, len(ONE) - 1])
def test_a_flipped_bit_is_damage(place):
    data = bytearray(ONE)
    data[place] ^= 1
    assert failure(bytes(data) + TWO)["__type"] == "DamagedStream"


def test_nothing_is_read_after_damage():
    parser = FrameParser()
    assert len(parser.feed(b"\0" * 20)) == 1
    assert parser.feed(ONE) == []


@pytest.mark.parametrize(
    ("total", "header_bytes"), [(15, 0), (2**31, 0), (20, 5)], ids=["short", "huge", "no-room"]
)
def test_lengths_that_cannot_be_are_damage(total, header_bytes):
    prelude = struct.pack(">II", total, header_bytes)
    data = prelude + struct.pack(">I", crc32(prelude)) + b"\0" * 8
    assert failure(data)["__type"] == "DamagedStream"


@pytest.mark.parametrize(
    ("kind", "value"),
    [(0, b""), (1, b""), (2, b"1"), (3, b"12"), (4, b"1234"), (5, b"12345678"),
     (6, b"\0\2ab"), (8, b"12345678"), (9, b"1234567890123456")],
)  # fmt: skip
def test_headers_of_every_type_are_passed_over(kind, value):
    header = b"\1x" + bytes([kind]) + value
    assert parse(pack(header + text_header(":event-type", "e"), b"{}")) == [("e", b"{}")]


@pytest.mark.parametrize(
    "headers",
    [b"\1", b"\1x", b"\1x\x0a", b"\1x\7", b"\1x\7\0", b"\1x\7\0\5ab", b"\1x\x0512"],
)
def test_headers_that_do_not_fit_are_damage(headers):
    assert failure(pack(headers, b"{}"))["__type"] == "DamagedStream"


parts = st.sampled_from([ONE, TWO, frame("x", b"\xff", message_type="exception")]) | st.binary(
    max_size=40
)


@given(st.lists(parts).map(b"".join), sizes)
@example(b"\0\0", [])
def test_any_split_gives_the_same_events(data, sizes):
    parser, events, rest = FrameParser(), [], data
    for size in sizes:
        events += parser.feed(rest[:size])
        rest = rest[size:]
    assert events + parser.feed(rest) == parse(data)


@given(st.binary(), st.binary())
def test_any_headers_and_payload_in_a_sound_frame_give_one_event(headers, payload):
    assert len(parse(pack(headers, payload))) == 1
