"""What an exception or a reply of a client library says, under the flat names."""

from __future__ import annotations

import re
from typing import Final

from ..native import as_count, find_headers, look
from ..wire import classify_error

__all__ = [
    "extract_headers_from_error",
    "extract_headers_from_response",
    "extract_status_code",
    "is_retryable_error",
]

_DIGITS: Final = re.compile("[0-9]{3}")
_NAMES: Final = ("status_code", "status", "http_status", "statusCode")


def extract_headers_from_response(response: object) -> dict[str, str]:
    """The headers that a client library keeps with *response*: names in lower case, no secrets."""
    return find_headers(response)


def extract_headers_from_error(error: BaseException) -> dict[str, str]:
    """The headers of the reply that made *error*, looked for in its causes too."""
    return find_headers(error)


def extract_status_code(error: BaseException) -> int | None:
    """The HTTP status that *error* tells, by an attribute or in its text.

    Returns:
        The status; None where it tells none. A number in the text counts only beside a word that
        makes it a status.
    """
    for source in (error, look(error, "response")):
        for name in _NAMES:
            value = look(source, name)
            text = value if isinstance(value, str) else ""
            status = int(text) if _DIGITS.fullmatch(text) else as_count(value)
            if status is not None and 100 <= status <= 599:
                return status
    return classify_error(exception=error).status_code


def is_retryable_error(error: BaseException, status_code: int | None = None) -> bool:
    """Whether the same request may succeed later.

    Args:
        error: What was raised.
        status_code: The HTTP status, where the caller knows it; None asks *error*.
    """
    status = extract_status_code(error) if status_code is None else status_code
    return classify_error(exception=error, status=status).retryable
