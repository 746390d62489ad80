"""Frames of an AWS event stream, as Bedrock writes them."""

import json
import struct
from base64 import b64encode
from zlib import crc32


def text_header(name, value):
    data = value.encode()
    return bytes([len(name)]) + name.encode() + b"\7" + struct.pack(">H", len(data)) + data


def pack(headers, payload):
    """One frame of ready header bytes and *payload*."""
    total = 16 + len(headers) + len(payload)
    prelude = struct.pack(">II", total, len(headers))
    data = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return data + struct.pack(">I", crc32(data))


def frame(kind, document, *, message_type="event"):
    """One frame; *kind* is the type of the event or exception."""
    headers = text_header(f":{message_type}-type", kind)
    headers += text_header(":content-type", "application/json")
    headers += text_header(":message-type", message_type)
    payload = document if isinstance(document, bytes) else json.dumps(document).encode()
    return pack(headers, payload)


def chunk(document):
    """One frame of an InvokeModel stream."""
    data = b64encode(json.dumps(document).encode()).decode()
    return frame("chunk", {"bytes": data, "p": "abc"})
