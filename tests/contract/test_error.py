"""AgentError: what went wrong, as a value."""

from typing import Any

import pytest

from upshot.contract import AgentError, ErrorCode, Origin


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
