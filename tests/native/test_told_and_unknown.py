"""What forms of results say of limits and of what is unknown, and that hostile values raise not."""

from typing import Any

import pytest

from upshot import Usage, coerce_result, decode, encode, from_contract, to_contract
from upshot.adapters import from_pi_agent
from upshot.flat import build_rate_limit_state, build_rate_limit_windows
from upshot.wire.decoding import encode_json
from upshot.wire.reader import StreamReader


def test_the_flat_form_keeps_the_number_of_calls_without_tokens() -> None:
    counts: dict[str, Any] = {"api_calls": 3, "unmeasured_calls": 3}
    result = from_contract({"content": "x", "usage": counts})
    assert result.usage == Usage(api_calls=3, unmeasured_calls=3)
    assert to_contract(result)["usage"] == counts


def test_zeros_in_a_flat_form_are_unknown() -> None:
    result = from_contract({"content": "x", "usage": {"input_tokens": 0, "output_tokens": 0}})
    assert result.usage == Usage(api_calls=1, unmeasured_calls=1)


def test_a_429_of_pi_is_a_limit() -> None:
    said: dict[str, Any] = {
        "role": "assistant",
        "stopReason": "error",
        "errorMessage": "429 Slow",
        "content": [],
    }
    limits = from_pi_agent(said).rate_limit
    assert limits is not None
    assert limits.limited


@pytest.mark.parametrize("kind", [Exception, RuntimeError])
def test_a_plain_exception_may_say_that_the_service_is_overloaded(kind: Any) -> None:
    error = coerce_result(kind("The service is overloaded, try later")).error
    assert error is not None
    assert (error.code, error.retryable) == ("server_error", True)


def test_values_of_another_type_make_no_limits() -> None:
    wrong: Any = 5
    assert build_rate_limit_windows(wrong) == []
    text: Any = "60"
    assert build_rate_limit_state({}, text)["retry_after"] == 60
    assert "retry_after" not in build_rate_limit_state({}, object())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["get", "items", "keys", "__iter__", "__getitem__"])
def test_a_dict_whose_methods_raise_is_read(name: str) -> None:
    def boom(*_: object) -> None:
        raise RuntimeError("boom")

    hostile: Any = type("Hostile", (dict,), {name: boom})
    assert coerce_result(hostile(content="x", usage={})).content == "x"


def test_a_document_of_a_newer_version_is_written_as_one_of_this() -> None:
    text = b'{"kind":"request","schema_version":99,"message":{"role":"user","content":"x"},"new":1}'
    assert b'"schema_version":1' in encode(
        decode(text.replace(b'{"role', b'{"kind":"message","role'))
    )


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_without_choices_is_an_error(streamed: bool) -> None:
    headers = {"content-type": "text/event-stream"} if streamed else {}
    reader = StreamReader("chat", provider="x", headers=headers, now=0.0)
    body = encode_json({"id": "1", "choices": []})
    reader.feed(b"data: " + body + b"\n\ndata: [DONE]\n\n" if streamed else body)
    error = reader.close().error
    assert error is not None
    assert error.message == "the reply has no choices"
