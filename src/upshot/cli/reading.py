"""Reading a journal from the command line: one run, or all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from ..contract import Status, encode
from ..journal import open_journal
from .conclusion import print_answer
from .glyphs import glyphs_for
from .report import report
from .run_lookup import existing_journal, find_run, left_behind, outermost, read_story, uncollected
from .runs_table import runs_table
from .story import RUNNING, Story
from .terminal import Terminal
from .timeline import ending, label

__all__ = ["STATUSES", "list_runs", "show_run", "to_json"]

STATUSES = (RUNNING, *(status.value for status in Status))


async def show_run(
    wanted: str, terminal: Terminal, *, journal: str, as_json: bool, answer: bool, markdown: bool
) -> int:
    """Print all that a journal has of a run.

    Args:
        wanted: The run, as for ``find_run``.
        terminal: Where to print.
        journal: Where its log is.
        as_json: Print one line of JSON, see ``to_json``.
        answer: Whether its answer stands at the end.
        markdown: Lay the answer out where stdout is a terminal.

    Returns:
        The exit code; how the run ended is no matter of this command's success.

    Raises:
        Misuse: There is no such run or journal.
        JournalError: The journal cannot be read.
    """
    async with open_journal(existing_journal(journal), create=False) as log:
        holders = await log.holders()
        story = await read_story(log, await find_run(log, wanted))
        runs = await log.runs()
        left = left_behind(runs)
    for run in runs:
        if run.parent_run_id == story.run_id:
            story.name_run(run.run_id, run.agent_id)
    if as_json:
        terminal.put_json(to_json(story))
        return 0
    glyphs, width = glyphs_for(terminal.out.encoding), terminal.out.width
    holder = holders.get(story.run_id)
    is_left = story.run_id in left
    lines = report(
        story,
        journal=journal,
        width=width,
        glyphs=glyphs,
        holder=holder,
        is_left=is_left,
        outer_id=outermost(runs, story.run_id),
    )
    with uncollected():
        terminal.say_all(lines)
    result = story.result
    if answer and result is not None and (result.output or result.content):
        terminal.say(glyphs.rule * width)
        print_answer(result.output or result.content, terminal, markdown=markdown)
    return 0


async def list_runs(terminal: Terminal, *, journal: str, status: str, as_json: bool) -> int:
    """Print the runs of a journal, newest first; those inside another one stand below it.

    Args:
        terminal: Where to print.
        journal: Where the log is.
        status: Only those of this status, "" for all.
        as_json: Print one line of JSON, a list of ``RunSummary``.

    Returns:
        The exit code.

    Raises:
        Misuse: There is no such journal.
        JournalError: It cannot be read.
    """
    async with open_journal(existing_journal(journal), create=False) as log:
        holders = await log.holders()
        known = await log.runs()
    runs = [run for run in known if status in ("", run.status)]
    if as_json:
        terminal.put_json(encode(list(runs)))
    elif runs:
        glyphs = glyphs_for(terminal.out.encoding)
        terminal.say_rows(
            runs_table(
                runs,
                glyphs=glyphs,
                width=terminal.free_width,
                holders=holders,
                left=left_behind(known),
            )
        )
    else:
        terminal.tell(f"{journal} has no runs" + (f" that are {status}" if status else ""))
    return 0


def to_json(story: Story) -> bytes:
    """A run as one JSON object.

    Of a run that settled it is its AgentResult, and beside its fields ``request``, ``answered``
    (what was answered of what is pending, by id) and ``timeline``. A run that
    is under way or whose process died has the same fields as far as they are known, the
    status "running" and the kind "unsettled_run".
    """
    known: dict[str, Any]
    if story.result is not None:
        known = msgspec.json.decode(encode(story.result))
    else:
        started = story.started
        known = {
            "kind": "unsettled_run",
            "schema_version": 1,
            "status": RUNNING,
            "run_id": story.run_id,
            "agent_id": "" if started is None else started.agent.id,
            "started_at": None if started is None else started.time,
            "tool_outcomes": [record.outcome for record in story.records],
            "tool_records": story.records,
            "usage": story.usage,
            "cost": story.cost,
            "pending": story.pending,
            "warnings": story.warnings,
            "duration_ms": round(story.length_s * 1000),
        }
    request = "" if story.started is None else story.started.request.text
    answered = {id: said for (run_id, id), said in story.answered.items() if not run_id}
    more = {"request": request, "answered": answered, "timeline": _timeline(story)}
    return encode({**known, **more})


def _timeline(story: Story) -> list[dict[str, Any]]:
    return [
        {
            "kind": step.kind,
            "name": step.name if step.kind == "step" else label(step),
            "start_s": round(step.start_s, 3),
            "took_s": None if step.took_s is None else round(step.took_s, 3),
            "wait_s": round(step.wait_s, 3),
            "outcome": ending(step).word,
            "detail": ending(step).detail,
        }
        for step in story.steps
    ]
