"""AgentError: what went wrong, as a value."""

from typing import Any

import pytest

from upshot.contract import AgentError, ErrorCode, Origin
from upshot.contract.error import is_retryable


def test_an_error_is_made_of_code_and_message() -> None:
    error = AgentError(ErrorCode.TIMEOUT, "too slow")
    assert str(error) == "timeout: too slow"
    assert (error.retryable, error.status_code, error.origin) == (False, None, Origin.MODEL)


def test_a_code_of_ones_own_is_kept() -> None:
    code: Any = "quota_of_mine"
    assert AgentError(code).code == "quota_of_mine"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("one", "one"),
        ("  one line ", "  one line "),
        ("one\ntwo", "one two"),
        ("1 fault\n\n  name\r\n    missing\n", "1 fault name missing"),
        ("\n", ""),
        ("a\u2028b", "a b"),
    ],
)
def test_a_message_is_one_line(given: str, kept: str) -> None:
    assert AgentError(message=given).message == kept


@pytest.mark.parametrize("status", [None, 429, 500, 503])
@pytest.mark.parametrize("code", ["internal", "context_length", "content_filter"])
def test_some_failures_never_pass_whatever_their_status(code: str, status: int | None) -> None:
    assert not is_retryable(code, status)


@pytest.mark.parametrize(
    ("code", "status", "may_pass"),
    [
        ("", 503, True),
        ("", 404, False),
        ("", None, False),
        ("timeout", None, True),
        ("timeout", 400, False),
        ("auth_error", 409, True),
    ],
)
def test_a_known_status_decides_before_the_code(
    code: str, status: int | None, may_pass: bool
) -> None:
    assert is_retryable(code, status) is may_pass
