"""Box: a run's Toolbox, made when something first needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..contract import ToolRecord
from ..tools import Toolbox

__all__ = ["Box"]


class Box:
    """A Toolbox that most runs of engines without tools never need.

    Args:
        make: Makes it.
    """

    def __init__(self, make: Callable[[], Toolbox]) -> None:
        self._make = make
        self._made: Toolbox | None = None
        self._is_cancelled = False

    @property
    def tools(self) -> Toolbox:
        """The Toolbox itself."""
        if self._made is None:
            self._made = self._make()
            if self._is_cancelled:
                self._made.cancel(running=False)
        return self._made

    @property
    def records(self) -> Sequence[ToolRecord]:
        """One record for every settled call, in order."""
        return () if self._made is None else self._made.records

    def restore(self, records: Iterable[ToolRecord]) -> None:
        """Take in what the log says of earlier calls of this turn."""
        earlier = tuple(records)
        if earlier:
            self.tools.restore(earlier)

    def new_turn(self) -> None:
        """Begin a tool turn."""
        self._is_cancelled = False
        if self._made is not None:
            self._made.new_turn()

    def cancel(self) -> None:
        """Deny what has not started; running bodies may end."""
        self._is_cancelled = True
        if self._made is not None:
            self._made.cancel(running=False)
