"""A hundred bad runs, three changes that might have made them better, and a check that is red.

    .venv/bin/python examples/lab/try_changes.py [FOLDER]

A support desk works on 100 tickets whose customers then give a thumb down. The lab collects these
runs and tries three changes on them: tools answer from the record, so nobody is paid anything. One
change would have made 75 refunds that the record does not have: the program exits with 1, as a
check in CI does. FOLDER gets the journals, the dataset and the report as a page; without it they
are removed at the end. To see it in the console, start ``upshot serve PATH/examples/lab/desk.py``
in FOLDER, and open the page Lab.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from desk import CHANGES, KINDS, paid, support

from upshot import AgentResult, Journal, Request, lab, note, open_journal, run
from upshot.lab.report_page import report_page

TICKETS = 100


async def work(journal: Journal) -> None:
    """What happened last week: each ticket is worked on, and its customer is not happy."""
    for number in range(TICKETS):
        ticket = f"Order {1000 + number}: {KINDS[number % len(KINDS)]}, please help."
        await run(support, Request(ticket, run_id=f"ticket-{number:03}"), journal=journal)
        await note(f"ticket-{number:03}", "thumb", "down", by="customer", journal=journal)


def helpful(case: lab.Case, result: AgentResult) -> bool:
    """Whether the customer learns something: a scorer of our own."""
    return result.content is not None and "sorry" not in result.content


async def try_changes(folder: Path) -> lab.Report:
    """Collect the bad runs, and try the changes on them."""
    async with open_journal(folder / "desk.db") as journal:
        await work(journal)
        bad = await lab.Dataset.from_journal(journal, name="bad", note="thumb=down")
    bad.write(folder / "bad.jsonl")
    return await lab.run(
        bad,
        {"today": support, **CHANGES},
        scorers=[helpful, lab.same_effects(), lab.trajectory(), lab.tokens()],
        journal=folder / "lab.db",
        name="Three changes to the desk",
    )


def main(folder: Path) -> int:
    """Print the report, and return 1 if a change would have made writes that nobody saw before."""
    report = asyncio.run(try_changes(folder))
    (folder / "report.html").write_text(report_page(report), "utf-8")
    print(report.size)
    for line in report.sentences():
        print(f"- {line}")
    assert len(paid) == TICKETS // len(KINDS), "the lab paid something"
    red = [name for name in CHANGES if any(row.new_effects for row in report.of(name))]
    print(f"red: {', '.join(red) or 'nothing'}")
    return 1 if red else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Try three changes on a hundred bad runs.")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="keeps all files")
    with TemporaryDirectory() as made:
        place = parser.parse_args().folder or Path(made)
        place.mkdir(parents=True, exist_ok=True)
        sys.exit(main(place))
