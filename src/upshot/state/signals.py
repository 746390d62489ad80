"""How waits and deliveries of signals are numbered, so that each signal is taken once.

The first wait for a signal gets the first one that was sent under its name, the second wait the
second. The id of a wait is ``name#number@place``: the place is where the engine waits, so that an
engine that runs again finds its wait, and the signal that it took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from upshot.contract.base.checks import format_value
from upshot.errors import Misuse


def check_signal_name(name: object) -> None:
    """Raise Misuse if *name* cannot name a signal."""
    if not isinstance(name, str) or not name.strip() or "#" in name or "@" in name:
        raise Misuse(f'a signal\'s name is a text without "#" and "@", got {format_value(name)}')


def signal_item(signal: str) -> str:
    """Return the name under which a journal stores the delivery of ``name#number``."""
    return f"signal {signal}"


def wait_id(name: str, place: str, taken: Iterable[str], failed: Collection[str]) -> str:
    """Return the id of a wait for a signal.

    Args:
        name: The name of the signal.
        place: Where the engine waits.
        taken: The ids of the run's waits so far.
        failed: Those of them that ended without a signal; others may wait for their numbers.
    """
    numbers: set[int] = set()
    for id in taken:
        signal, _, waits_at = id.partition("@")
        known, hash, number = signal.rpartition("#")
        if not hash or known != name:
            continue
        if waits_at == place:
            return id
        if id not in failed:
            numbers.add(int(number))
    free = next(number for number in range(1, len(numbers) + 2) if number not in numbers)
    return f"{name}#{free}@{place}"
