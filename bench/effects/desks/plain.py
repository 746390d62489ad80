"""No framework: a loop that calls the function and gives the model what it returned or raised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.effects.play import Play

PACKAGES = ()


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the loop."""
    while calls := play.next():
        for one in calls:
            try:
                text = refund(**one.arguments)
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            play.read(one.id, text)


def edit(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """The model asks for order 8, and a person answers: yes, but order 7."""
    (one,) = play.next()
    try:
        text = refund(**{**one.arguments, "order_id": "7"})
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    play.read(one.id, text)
