"""How waits and deliveries of signals are numbered, so that each signal is taken once.

The first wait for a signal gets the first one that was sent under its name, the second wait the
second. The id of a wait is ``name#number@place``: the place is where the engine waits, so that an
engine that runs again finds its wait, and the signal that it took.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from upshot.contract.base.checks import format_value
from upshot.contract.base.structs import JsonObject
from upshot.errors import Misuse

EXPIRED: Final[JsonObject] = {"upshot": "expired"}
"""What the log has as the answer of a wait that ended without a signal."""

_ITEM = "signal "


def check_signal_name(name: object) -> None:
    """Raise Misuse if *name* cannot name a signal."""
    is_text = isinstance(name, str)
    if not is_text or not name.strip() or not name.isprintable() or "#" in name or "@" in name:
        got = repr(name) if is_text else format_value(name)
        raise Misuse(f'a signal\'s name is a line of text without "#" and "@", got {got:.80}')


def signal_name(id: str) -> str:
    """Return the name of the signal that the wait *id* is for, "" if it is another wait."""
    head, at, _ = id.partition("@")
    name, _, number = head.rpartition("#")
    return name if at and number.isdigit() else ""


def numbers_of(name: str, ids: Iterable[str]) -> set[int]:
    """Return the numbers of the signals of a name among the *ids* of waits."""
    found = (id.partition("@")[0].rpartition("#") for id in ids if "@" in id)
    return {int(number) for known, _, number in found if known == name and number.isdigit()}


def signal_item(signal: str) -> str:
    """Return the name under which a journal stores the delivery of ``name#number``."""
    return f"{_ITEM}{signal}"


def signal_of_item(item: str) -> tuple[str, int]:
    """Return the name and number in ``signal_item``; ("", 0) if *item* names another question."""
    name, _, number = item.removeprefix(_ITEM).rpartition("#")
    return (name, int(number)) if item.startswith(_ITEM) and number.isdigit() else ("", 0)


def wait_id(name: str, place: str, taken: Iterable[str], failed: Collection[str]) -> str:
    """Return the id of a wait for a signal.

    Args:
        name: The name of the signal.
        place: Where the engine waits.
        taken: The ids of the run's waits so far.
        failed: Those of them that ended without a signal; others may wait for their numbers.
    """
    known = [*taken]
    for id in known:
        if id.startswith(f"{name}#") and id.partition("@")[2] == place:
            return id
    numbers = numbers_of(name, (id for id in known if id not in failed))
    free = next(number for number in range(1, len(numbers) + 2) if number not in numbers)
    return f"{name}#{free}@{place}"
