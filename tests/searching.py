"""The number of examples of a slow property test, as a share of the usual number."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

__all__ = ["examples"]


def examples(number: int, **more: Any) -> settings:
    """Settings for *number* examples in `make test`, and as many times more in a search.

    Args:
        number: At least 1.
        more: Other settings, such as ``stateful_step_count``.
    """
    return settings(max_examples=max(1, number * settings().max_examples // 100), **more)
