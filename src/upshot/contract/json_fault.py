"""What is wrong with a text that shall be JSON, for the middle of a sentence."""

from __future__ import annotations

__all__ = ["json_fault"]

_PREFIX = "JSON is malformed: "


def json_fault(error: Exception) -> str:
    """What the reader of JSON says, without the words that the sentence round it has already.

    Args:
        error: What was raised while the text was read.

    Returns:
        Such as "invalid character (byte 0)"; bytes count from 0.
    """
    return str(error).removeprefix(_PREFIX)
