"""The page on the life of a run; ``python -m tests.runs.lifecycle_page`` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from upshot.runs.session import ROWS, diagram

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lifecycle.md"


def drawn(page: str) -> str:
    """*page* with its diagram and its table as they should be."""
    page = _put(page, "diagram", f"```mermaid\n{diagram()}\n```")
    rows = (f"| {row.source} | {row.cue} | {row.target} | {row.when} |" for row in ROWS)
    table = "\n".join(("| in | cue | then | when |", "| --- | --- | --- | --- |", *rows))
    return _put(page, "table", table)


def _put(page: str, mark: str, text: str) -> str:
    place = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
