"""Own output: whether an output says more than the text that stands beside it."""

from __future__ import annotations

__all__ = ["has_own_output"]


def has_own_output(output: object, content: str | None) -> bool:
    """Whether *output* is something else than *content*; never raises.

    Args:
        output: The answer as a value, None for none.
        content: The answer as a text, None for none.
    """
    if isinstance(output, str):
        return output != content
    # Not compared: arrays answer with an array, which has no truth value, and others raise.
    return output is not None
