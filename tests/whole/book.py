"""The book of effects: what the tools of a run really did, outside of anything upshot stores.

A module of its own, because a tool in a separate process imports only this.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from upshot import ToolError, tool

BOOK = "UPSHOT_WHOLE_BOOK"
"""The environment variable with the path of the book, for processes."""


class Book:
    """The effects of the tools of one world: one line each, written by one system call."""

    def __init__(self, path: str) -> None:
        self.path = path

    def enter(self, tag: str) -> None:
        """Record an effect."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{tag}\n".encode())
        os.close(file)

    def read(self) -> Counter[str]:
        """Return how many times each call had its effect."""
        path = Path(self.path)
        return Counter(path.read_text().split() if path.exists() else ())


def act(book: Book, tag: str, way: str) -> Any:
    """Do what a tool's body does, except for waiting."""
    if way == "raise before":
        raise RuntimeError("it broke before")
    if way == "none":
        raise ToolError("refused", effect="none")
    book.enter(tag)
    if way == "raise after":
        raise RuntimeError("it broke after")
    if way in ("error", "applied"):
        raise ToolError("failed", effect="applied" if way == "applied" else None)
    if way == "failed":
        return {"error": "it says so"}
    return f"{tag} done " + "much " * (5000 if way == "large" else 0)


@tool(effect="write", isolation="process")
def apart(tag: str, way: str) -> Any:
    """Write, in a process of its own."""
    return act(Book(os.environ[BOOK]), tag, way)
