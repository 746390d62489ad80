"""Failures become one error with one code.

Cases marked synthetic are made from the providers' documentation: no recorded reply has them.
"""

import asyncio
import json
import socket

import aiohttp
import pytest
from aiohttp.http_exceptions import BadHttpMessage
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from upshot.contract import AgentError, ErrorCode
from upshot.wire import classify_error

ASKED = aiohttp.RequestInfo(
    URL("http://x"), "POST", CIMultiDictProxy(CIMultiDict()), URL("http://x")
)


def classify(status, error, **more):
    return classify_error(status=status, body=json.dumps(error).encode(), **more)


OPENAI = {
    "context": (400, "context_length_exceeded", "too long", "context_length"),
    "filter": (400, "content_filter", "no", "content_filter"),
    "quota": (429, "insufficient_quota", "You exceeded your current quota", "rate_limit"),
    "key": (401, "invalid_api_key", "Incorrect API key provided: sk-x", "auth_error"),
    "model": (404, "model_not_found", "The model `x` does not exist", "model_unavailable"),
    "rate": (429, "rate_limit_exceeded", "Rate limit reached", "rate_limit"),
    "value": (400, "unsupported_value", "not with this model", "invalid_request"),
    "server": (500, None, "The server had an error", "server_error"),
}


@pytest.mark.parametrize("case", OPENAI)
def test_openai_errors_are_classified(case):
    status, code, message, wanted = OPENAI[case]
    error = classify(status, {"error": {"code": code, "message": message, "type": "x"}})
    assert (error.code, error.status_code) == (wanted, status)
    assert error.provider_code == (code or "")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}},
         "model_unavailable"),
        (400, {"type": "error", "error": {"message": "prompt is too long: 9 tokens > 8 maximum"}},
         "context_length"),
        (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, "auth_error"),
        (404, [{"error": {"code": 404, "message": "models/x is not found for API version v1"}}],
         "model_unavailable"),
        (400, {"message": "The provided model identifier is invalid."}, "model_unavailable"),
        (400, {"code": "invalid-argument", "error": "Model not found: x"}, "model_unavailable"),
        (401, {"detail": "Invalid API Key"}, "auth_error"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid_request"),
        (400, {"error_type": "TOO_MANY_TOKENS", "message": "too many tokens"}, "context_length"),
        (402, {"error": {"message": "Insufficient Balance"}}, "rate_limit"),
        (404, {"error": {"message": "Could not find fine tune: 123"}}, "invalid_request"),
        (400, {"error": {"message": "This model does not support prefill."}}, "invalid_request"),
        (429, {"message": "Too many tokens, please wait before trying again."}, "rate_limit"),
        (400, {"error": {"code": "content_filter", "innererror":
         {"code": "ResponsibleAIPolicyViolation"}, "message": "x"}}, "content_filter"),
    ],
)  # fmt: skip
def test_every_providers_shape_is_read(status, body, code):
    assert classify(status, body).code == code


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (408, b"", "timeout", True),
        (413, b"", "invalid_request", False),
        (422, b"", "invalid_request", False),
        (502, b"<html><head><title>502 Bad Gateway</title></head></html>", "server_error", True),
        (503, b"upstream connect error", "server_error", True),
        (503, b'{"error": {"message": "The model is overloaded."}}', "model_unavailable", True),
        (504, b"", "timeout", True),
        (
            529,
            b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}',
            "server_error",
            True,
        ),
        (403, b"<html>", "auth_error", False),
        (409, b"", "invalid_request", True),
        (425, b"", "invalid_request", True),
        (418, b"", "invalid_request", False),
        (None, b"", "server_error", True),
        (200, b"<html>hello</html>", "server_error", True),
    ],
)
def test_synthetic_statuses_and_gateway_pages(status, body, code, retryable):
    error = classify_error(status=status, body=body)
    assert (error.code, error.retryable) == (code, retryable)
    assert error.message


def test_an_exhausted_quota_is_not_retried():
    error = classify(429, {"error": {"code": "insufficient_quota", "message": "no money"}})
    assert (error.code, error.retryable) == ("rate_limit", False)


def test_googles_exhausted_resource_is_a_plain_rate_limit():
    error = classify(
        429,
        {
            "error": {
                "status": "RESOURCE_EXHAUSTED",
                "message": "You exceeded your current quota, check your billing details",
                "details": [{"@type": "google.rpc.RetryInfo", "retryDelay": "19.5s"}],
            }
        },
    )
    assert (error.code, error.retryable, error.retry_after_s) == ("rate_limit", True, 19.5)


def test_headers_say_how_long_to_wait():
    assert classify_error(status=429, headers={"Retry-After": "7"}).retry_after_s == 7


def test_amazon_names_the_error_in_a_header():
    error = classify_error(
        status=400, body=b"{}", headers={"x-amzn-ErrorType": "ThrottlingException:http://x"}
    )
    assert (error.code, error.type) == ("rate_limit", "ThrottlingException")


def test_a_gateways_upstream_error_is_looked_at():
    raw = json.dumps({"error": {"code": "context_length_exceeded", "message": "x"}})
    error = classify(
        400, {"error": {"message": "Provider returned error", "metadata": {"raw": raw}}}
    )
    assert error.code == "context_length"


class RateLimitError(Exception):
    """As client libraries name it."""


class ApiError(Exception):
    """As client libraries make it: with status, body and a response."""

    def __init__(self, status_code=None, body=None, headers=None):
        super().__init__("refused")
        self.status_code = status_code
        self.body = body
        self.response = type("Response", (), {"headers": headers or {}})()


class ClientError(Exception):
    """As botocore makes it."""

    response = {
        "Error": {"Code": "ThrottlingException", "Message": "slow down"},
        "ResponseMetadata": {"HTTPStatusCode": 429},
    }


@pytest.mark.parametrize(
    ("exception", "code", "retryable"),
    [
        (TimeoutError(), "timeout", True),
        (ConnectionResetError(104, "reset"), "server_error", True),
        (socket.gaierror(-2, "Name or service not known"), "server_error", True),
        (RateLimitError("slow down"), "rate_limit", True),
        (json.JSONDecodeError("x", "y", 0), "server_error", True),
        (asyncio.CancelledError(), "canceled", False),
        (KeyError("x"), "internal", False),
        (ValueError("512 tokens are too many for me"), "internal", False),
        (ValueError("Error code: 429"), "rate_limit", True),
        (ValueError("404 Client Error: Not Found for url"), "invalid_request", False),
        (ApiError(401), "auth_error", False),
        (
            ApiError(400, {"message": "x", "code": "context_length_exceeded"}),
            "context_length",
            False,
        ),
        (ClientError(), "rate_limit", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_exceptions_are_classified_by_what_they_carry(exception, code, retryable):
    error = classify_error(exception=exception)
    assert (error.code, error.retryable) == (code, retryable)


def test_a_cause_is_looked_at_too():
    try:
        raise RuntimeError("call failed") from ConnectionResetError("reset by peer")
    except RuntimeError as error:
        assert classify_error(exception=error).code == "server_error"


@pytest.mark.parametrize(
    "exception",
    [
        aiohttp.ClientPayloadError("not completed"),
        aiohttp.ClientResponseError(ASKED, (), status=400),
    ],
    ids=["a body that breaks off", "a head that is none"],
)
def test_what_breaks_a_parser_of_http_is_no_status(exception):
    exception.__cause__ = BadHttpMessage("not enough data")
    error = classify_error(exception=exception)
    assert (error.code, error.status_code, error.retryable) == ("server_error", None, True)


def test_an_exceptions_headers_say_how_long_to_wait():
    error = classify_error(exception=ApiError(429, headers={"Retry-After": "3"}))
    assert error.retry_after_s == 3


def test_an_exception_that_cannot_be_looked_at_is_still_classified():
    class Hostile(Exception):
        @property
        def response(self):
            raise RuntimeError("not yet")

        def __str__(self):
            raise RuntimeError("no text")

    assert classify_error(exception=Hostile()) == AgentError(
        ErrorCode.INTERNAL, "Hostile", type="Hostile"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: abc123",
        "key sk-abcdefghijklmnop1234 is bad",
        "bearer abcdefghijklm123",
    ],
)
def test_keys_are_masked_and_lines_joined(text):
    message = classify(401, {"error": {"message": f"{text}\nsecond line"}}).message
    assert "***" in message
    assert "\n" not in message
    assert "abc" not in message


def test_a_traceback_in_a_text_is_no_message():
    text = "boom\nTraceback (most recent call last):\n  File x, line 1"
    assert classify_error(exception=RuntimeError(text)).message == "boom"


words = st.sampled_from(
    ["error", "message", "type", "code", "status", "details", "metadata", "raw", "errors", "detail",
     "reason", "retryDelay", "innererror", "param"]
)  # fmt: skip
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["429", "rate_limit", '{"error": "x"}', "9s"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
)  # fmt: skip


@given(st.none() | st.integers(-1, 700), documents, st.dictionaries(st.text(), st.text()))
def test_any_error_document_gives_an_error(status, document, headers):
    error = classify(status, document, headers=headers)
    assert error.code in set(ErrorCode)
    assert error.message


@given(st.binary())
def test_any_body_gives_an_error(body):
    assert classify_error(status=500, body=body).code in set(ErrorCode)


@pytest.mark.parametrize(
    "said",
    [
        "The service is overloaded, try again later",
        "Service Unavailable",
        "service temporarily unavailable",
        "the service is down",
        "server is at capacity",
        "Overloaded",
    ],
)
def test_a_plain_exception_that_says_the_service_is_down_may_pass(said):
    error = classify_error(exception=Exception(said))
    assert (error.code, error.retryable) == ("server_error", True)
    assert classify_error(exception=Exception("two overloads of down()")).code == "internal"


class RateLimitError(Exception):
    """As a client library raises it."""

    status_code = 429
    body = {"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow"}}


@pytest.mark.parametrize("body", [None, b'{"error": {"type": "tokens", "message": "slow"}}'])
def test_the_type_is_the_class_and_the_providers_word_stands_beside_it(body: bytes | None) -> None:
    error = classify_error(exception=RateLimitError("slow"), body=body)
    assert (error.type, error.details["provider_type"]) == ("RateLimitError", "tokens")


def test_the_type_is_the_providers_word_where_nothing_was_raised() -> None:
    error = classify_error(status=429, body=b'{"error": {"type": "tokens", "message": "slow"}}')
    assert (error.type, error.details) == ("tokens", {})
