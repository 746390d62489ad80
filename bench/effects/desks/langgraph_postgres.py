"""LangGraph with its checkpointer in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver

from bench.effects.desks.langgraph import LangGraph

PACKAGES = ("langgraph", "langchain", "langgraph-checkpoint-postgres")


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """The checkpointer in the case's database."""
    with PostgresSaver.from_conn_string((folder / "postgres").read_text()) as saver:
        saver.setup()
        yield saver


DESK = LangGraph(postgres, PACKAGES)
