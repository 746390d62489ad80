"""Catalog: which of its tools a Toolbox offers now."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from ..contract import ToolSpec
from .artifacts import READER_NAME
from .definition import Tool
from .fault import nearest
from .kit import Kit

__all__ = ["Catalog", "Offered"]

Offered: TypeAlias = Callable[[], Container[str]]


class Catalog:
    """Tools by name, ``read_artifact`` among them.

    Args:
        kit: The tools.
        make_reader: Makes the tool ``read_artifact``; most runs never need it.
        offered: The names that are on offer now; None offers all.

    Attributes:
        offers_reader: Whether ``read_artifact`` is offered: from the first stored output on.
    """

    def __init__(self, kit: Kit, make_reader: Callable[[], Tool], offered: Offered | None) -> None:
        self._kit = kit
        self._make_reader = make_reader
        self._reader: Tool | None = None
        self._offered = offered
        self._specs: tuple[tuple[str, ...], tuple[ToolSpec, ...]] = ((), ())
        self.offers_reader = False

    def find(self, name: str) -> Tool | None:
        """The tool, None where there is none or it is not on offer."""
        found = self.known(name)
        if found is None or self._offered is None or name == READER_NAME:
            return found
        return found if name in self._offered() else None

    def known(self, name: str) -> Tool | None:
        """The tool, on offer or not."""
        return self.reader if name == READER_NAME else self._kit.tools.get(name)

    @property
    def reader(self) -> Tool:
        """The tool ``read_artifact``."""
        if self._reader is None:
            self._reader = self._make_reader()
        return self._reader

    def nearest(self, name: str) -> list[str]:
        """Names on offer that look like *name*, the nearest first, at most 3."""
        # In the wrong case it is most often the same name all the same.
        by_lower = {known.lower(): known for known in self.names()}
        return [by_lower[found] for found in nearest(name.lower(), by_lower, count=3)]

    def names(self) -> tuple[str, ...]:
        """The names on offer, in order."""
        names = self._kit.names
        if self._offered is not None:
            offered = self._offered()
            names = tuple(name for name in names if name in offered)
        # The reader comes last: what stands before it stays the same for prompt caches.
        return (*names, READER_NAME) if self.offers_reader else names

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer; the same tuple while nothing changes."""
        if self._offered is None and not self.offers_reader:
            return self._kit.specs
        # The same object tells an encoder that its bytes of the tools are still right.
        names = self.names()
        if names != self._specs[0]:
            found = (self.known(name) for name in names)
            self._specs = (names, tuple(one.spec for one in found if one is not None))
        return self._specs[1]
