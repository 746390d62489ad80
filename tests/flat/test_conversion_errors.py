"""What exceptions and replies of client libraries say."""

from types import SimpleNamespace as Object

import pytest

from upshot.flat import (
    extract_headers_from_error,
    extract_headers_from_response,
    extract_status_code,
    is_retryable_error,
)


def error(text="it failed", **attributes):
    made = RuntimeError(text)
    vars(made).update(attributes)
    return made


class RateLimitError(Exception):
    pass


def test_headers_of_a_reply_come_from_both_places_of_litellm():
    reply = Object(
        _response_headers={"X-From-Response": "1"},
        _hidden_params={"additional_headers": {"x-from-hidden": "2"}},
    )
    assert extract_headers_from_response(reply) == {"x-from-response": "1", "x-from-hidden": "2"}


@pytest.mark.parametrize("reply", [None, Object(_response_headers=None, _hidden_params=None)])
def test_a_reply_without_headers_has_none(reply):
    assert extract_headers_from_response(reply) == {}


@pytest.mark.parametrize(
    "response", [Object(headers={"Retry-After": "3"}), {"headers": {"Retry-After": "3"}}]
)
def test_headers_of_an_error_come_from_its_response(response):
    assert extract_headers_from_error(error(response=response)) == {"retry-after": "3"}


def test_headers_of_an_error_come_from_itself_too():
    found = extract_headers_from_error(error(headers={"a": "1"}, response=Object(headers={"b": 2})))
    assert found == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("made", "status"),
    [
        (error(), None),
        (error(status_code=429), 429),
        (error(status="503"), 503),
        (error(http_status=500), 500),
        (error(statusCode=404), 404),
        (error(response=Object(status_code=502)), 502),
        (error(response={"status": 401}), 401),
        (error("Error code: 429 - slow down"), 429),
        (error("it took 512 tokens"), None),
        (error(status_code="9" * 5000), None),
        (error(status_code=True), None),
    ],
)
def test_the_status_is_found(made, status):
    assert extract_status_code(made) == status


@pytest.mark.parametrize(
    ("made", "retryable"),
    [
        (error(status_code=429), True),
        (error(status_code=500), True),
        (error(status_code=400), False),
        (error(statusCode=503), True),
        (RateLimitError("no"), True),
        (TimeoutError(), True),
        (error("too many requests"), True),
        (error("insufficient_quota", status_code=429), False),
        (ValueError("a bug"), False),
    ],
)
def test_retryable_is_what_may_succeed_later(made, retryable):
    assert is_retryable_error(made) is retryable


def test_the_callers_status_wins():
    assert is_retryable_error(ValueError("a bug"), 503)
    assert not is_retryable_error(error(status_code=503), 401)
