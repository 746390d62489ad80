"""Names of parametrized tests, the same in every process."""

from __future__ import annotations

import re

__all__ = ["name_of"]


def name_of(value: object) -> str:
    """Return *value* as printed, without addresses, which differ between worker processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
