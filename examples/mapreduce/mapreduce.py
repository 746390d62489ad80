"""Map and reduce over real documents: which words do the pages of a folder share?

    .venv/bin/python examples/mapreduce/mapreduce.py [FOLDER] [--model openai:gpt-5]
        [--journal runs.db]

Every page is counted at the same time, in a step of its own; the counts are merged; a scripted
model words the report, so that it needs no key. With a journal, a run that was killed goes on
after the pages that were counted.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from upshot import (
    Agent,
    AgentResult,
    AgentTask,
    Board,
    ForEach,
    Graph,
    GraphEngine,
    Message,
    Misuse,
    Request,
    ScriptedModel,
    resolve,
)
from upshot import run as start_run

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"[a-z]{5,}")
MOST = 5


def find_pages(board: Board) -> dict[str, Any]:
    """List the Markdown pages of the folder."""
    folder = Path(str(board.get("folder")))
    return {"pages": sorted(path.as_posix() for path in folder.glob("*.md"))}


async def count_words(board: Board) -> dict[str, int]:
    """Count the words of one page: the map."""
    text = await asyncio.to_thread(Path(str(board.get("page"))).read_text, "utf-8")
    return dict(Counter(WORD.findall(text.lower())))


def add_up(board: Board) -> dict[str, Any]:
    """Add the counts up: the reduce."""
    counts: Any = board.get("count")
    total: Counter[str] = Counter()
    pages: Counter[str] = Counter()
    for count in counts:
        total.update(count)
        pages.update(count.keys())
    shared = {word: total[word] for word, found in pages.items() if found == len(counts)}
    first = sorted(shared.items(), key=lambda item: (-item[1], item[0]))[:MOST]
    return {"words": sum(total.values()), "shared": dict(first)}


def facts(board: Board) -> str:
    """What the writer is given."""
    pages: Any = board.get("pages")
    shared: Any = board.get("shared")
    words = ", ".join(f"{word} ({count})" for word, count in shared.items())
    return f"{len(pages)} pages, {board.get('words')} words. In every page: {words}."


def has_pages(board: Board) -> bool:
    """Whether there is anything to count."""
    return bool(board.get("pages"))


def has_none(board: Board) -> bool:
    """Whether there is nothing."""
    return not has_pages(board)


def say_none(board: Board) -> None:
    """Answer for an empty folder."""
    board.append(Message("assistant", f"There are no pages in {board.get('folder')}."))


def make_graph(model: str | None = None) -> Graph:
    """The pages, their counts, the sum, the report.

    Args:
        model: A real model for the report, such as "openai:gpt-5"; None is the scripted one.
    """
    scripted = ScriptedModel([lambda messages: f"# What the pages share\n\n{messages[-1].text}"])
    instructions = "Report in Markdown, with a heading, which words the pages share."
    writer = Agent("writer", model=resolve(model) if model else scripted, instructions=instructions)
    return Graph(
        nodes={
            "find": find_pages,
            "count": ForEach("pages", count_words, "page", at_once=8),
            "add": add_up,
            "write": AgentTask(writer, facts),
            "none": say_none,
        },
        edges=[
            ("find", "count", has_pages),
            ("find", "none", has_none),
            ("count", "add"),
            ("add", "write"),
        ],
        start="find",
    )


async def report(folder: Path, *, model: str | None = None, **options: Any) -> AgentResult[str]:
    """Read the pages of *folder* and report on them."""
    request = Request("Which words do the pages share?", inputs={"folder": folder.as_posix()})
    engine = GraphEngine(make_graph(model))
    return await start_run(Agent("mapreduce"), request, engine=engine, **options)


def main() -> None:
    """Report on a folder, the project's own documents by default."""
    parser = argparse.ArgumentParser(description="Which words do the pages of a folder share?")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "docs", help="of *.md files; default: docs"
    )
    parser.add_argument("--model", help="a real one, such as openai:gpt-5; else scripted")
    parser.add_argument("--journal", help="where the log goes; without it there is none")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder: give one with Markdown pages")
    try:
        result = asyncio.run(report(given.folder, model=given.model, journal=given.journal))
    except Misuse as error:
        # Such as a model that is none.
        parser.error(str(error))
    if result.error is not None:
        sys.exit(f"{result.status}: {result.error}")
    print(result.content)


if __name__ == "__main__":
    main()
