"""Rate and Circuit: how often a tool may be called, and when it is left alone for a while."""

from __future__ import annotations

from dataclasses import dataclass

from ..contract.number import check_amount, check_whole

__all__ = ["Circuit", "Rate"]


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a tool may be called.

    Attributes:
        calls: How many calls may come at once, at least 1.
        per_s: In how many seconds as many become free again, above 0.

    Raises:
        Misuse: One of them is out of its range.
    """

    calls: int
    per_s: float = 60.0

    def __post_init__(self) -> None:
        check_whole("Rate.calls", self.calls, least=1)
        check_amount("Rate.per_s", self.per_s, above=0)


@dataclass(frozen=True, slots=True)
class Circuit:
    """When a tool that fails again and again is left alone.

    Attributes:
        failures: After how many timeouts and failures in a row, at least 1.
        open_s: For how many seconds, above 0; then one call is let pass to try.

    Raises:
        Misuse: One of them is out of its range.
    """

    failures: int = 5
    open_s: float = 30.0

    def __post_init__(self) -> None:
        check_whole("Circuit.failures", self.failures, least=1)
        check_amount("Circuit.open_s", self.open_s, above=0)
