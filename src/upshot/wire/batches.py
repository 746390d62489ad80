"""Batches of model calls: requests that a provider answers within a day, at a lower price.

Two forms: OpenAI's, whose requests and results are files of lines, and Anthropic's, whose requests
are one document and whose results are lines. A batch here has one request.

Source:
    https://platform.openai.com/docs/guides/batch and
    https://platform.claude.com/docs/en/build-with-claude/batch-processing; Groq follows
    OpenAI: https://console.groq.com/docs/batch; read November 2026.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.wire.decoding import as_count, as_list, as_object, as_text, encode_json, parse_object
from upshot.wire.encoding import encode_wire

BATCH_TIER: Final = "batch"
"""The service tier of a reply in a batch; the standard price does not apply."""

_BOUNDARY: Final = "upshot-batch"
_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled", "ended"})


class BatchState(NamedTuple):
    """What a provider says of a batch.

    Attributes:
        has_ended: Whether nothing more will come.
        results: The id of OpenAI's file with the results, "" for none.
        errors: The id of OpenAI's file with the requests that failed, "" for none.
        message: Why the batch as a whole failed, "" if it did not.
    """

    has_ended: bool
    results: str = ""
    errors: str = ""
    message: str = ""


class BatchResult(NamedTuple):
    """The result of one request: a reply as the provider would have sent it, or an error.

    Attributes:
        status: The HTTP status that the reply would have had.
        body: Its body.
        error: Why there is no reply; then the others do not count.
    """

    status: int = 200
    body: bytes = b""
    error: AgentError | None = None


def to_upload(key: str, path: str, body: bytes) -> tuple[bytes, str]:
    """Return the upload of OpenAI's file with one request, and its content type.

    Args:
        key: Names the request; its result has the same key.
        path: The path of the surface, such as "/v1/chat/completions".
        body: The body of the request.
    """
    line: dict[str, object] = {"custom_id": key, "method": "POST", "url": path}
    line["body"] = msgspec.Raw(body)
    parts = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="batch.jsonl"'
        "\r\nContent-Type: application/jsonl\r\n\r\n"
    )
    end = f"\r\n--{_BOUNDARY}--\r\n"
    data = parts.encode() + encode_wire(line) + b"\n" + end.encode()
    return data, f"multipart/form-data; boundary={_BOUNDARY}"


def to_batch(file_id: str, path: str) -> bytes:
    """Return the request that starts OpenAI's batch of an uploaded file."""
    fields = {"input_file_id": file_id, "endpoint": path, "completion_window": "24h"}
    return encode_wire(fields)


def to_message_batch(key: str, body: bytes) -> bytes:
    """Return the request that starts Anthropic's batch with one request."""
    return encode_wire({"requests": [{"custom_id": key, "params": msgspec.Raw(body)}]})


def read_state(document: JsonObject) -> BatchState:
    """Read what either provider says of a batch."""
    word = as_text(document.get("status")) or as_text(document.get("processing_status"))
    results = as_text(document.get("output_file_id"))
    faults = as_list(as_object(document.get("errors")).get("data"))
    message = "; ".join(as_text(as_object(fault).get("message")) for fault in faults)
    if not message and word in ("failed", "expired", "cancelled") and not results:
        message = f"the batch is {word}"
    return BatchState(word in _ENDED, results, as_text(document.get("error_file_id")), message)


def read_results(lines: bytes, key: str) -> BatchResult | None:
    """Return the result of the request called *key*; None if the *lines* have none."""
    for line in lines.splitlines():
        document = parse_object(line)
        if document is not None and document.get("custom_id") == key:
            if "result" in document:
                return _read_message_result(as_object(document.get("result")))
            return _read_file_result(document)
    return None


def batch_error(message: str, code: ErrorCode = ErrorCode.SERVER_ERROR) -> AgentError:
    """Return the error of a request that its batch did not answer."""
    return AgentError(code, message or "the batch gave no reason", origin=Origin.MODEL)


def _read_file_result(document: JsonObject) -> BatchResult:
    response = as_object(document.get("response"))
    status = as_count(response.get("status_code"))
    if body := response.get("body"):
        return BatchResult(200 if status is None else status, encode_json(body))
    error = as_object(document.get("error"))
    is_late = as_text(error.get("code")) == "batch_expired"
    code = ErrorCode.TIMEOUT if is_late else ErrorCode.SERVER_ERROR
    return BatchResult(error=batch_error(as_text(error.get("message")), code))


def _read_message_result(result: JsonObject) -> BatchResult:
    kind = as_text(result.get("type"))
    if kind == "succeeded":
        return BatchResult(200, encode_json(result.get("message")))
    if kind == "errored":
        # The error has the form of a refused request; its type decides.
        error: Json = result.get("error")
        return BatchResult(400, encode_json(error))
    code = ErrorCode.TIMEOUT if kind == "expired" else ErrorCode.CANCELED
    return BatchResult(error=batch_error(f"the request is {kind or 'unanswered'}", code))
