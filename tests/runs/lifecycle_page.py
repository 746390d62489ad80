"""The page on the life of a run; ``python -m tests.runs.lifecycle_page`` writes it anew."""

from __future__ import annotations

import re
from itertools import pairwise, zip_longest
from pathlib import Path

from upshot.runs.session import BROKEN, ROWS, Phase

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lifecycle.md"


def drawn(page: str) -> str:
    """*page* with its diagram and its table as they should be."""
    page = _put(page, "diagram", f"```text\n{diagram()}\n```")
    rows = (f"| {row.source} | {row.cue} | {row.target} | {row.when} |" for row in ROWS)
    table = "\n".join(("| in | cue | then | when |", "| --- | --- | --- | --- |", *rows))
    return _put(page, "table", table)


def diagram() -> str:
    """The phases from top to bottom; beside each, the cues that lead to another phase."""
    lines = list[str]()
    for phase, following in pairwise(one for one in Phase if one is not Phase.PARKED):
        # Every phase can break, which the text below the diagram says once.
        rows = [row for row in ROWS if row.source is phase and row.cue is not BROKEN]
        usual = next(row for row in rows if row.target is following)
        others = [f"{row.cue} -> {row.target}" for row in rows if row is not usual]
        # Narrow, so that a phone shows all of it.
        for left, other in zip_longest((f"{phase}", f"  | {usual.cue}"), others, fillvalue=""):
            lines.append(f"{left:<14}{other}".rstrip())
    return "\n".join([*lines, f"{Phase.SETTLED}"])


def _put(page: str, mark: str, text: str) -> str:
    place = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
