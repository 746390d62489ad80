"""What `upshot work --list` says of runs that are worked on, due, or left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.cli.conftest import Command, spawn
from upshot import Agent, Request, ScriptedModel, ToolCall, answer, open_journal, run, tool

APP = """
import upshot

@upshot.tool(effect="write", approval=True)
def send() -> str:
    "Send."
    return "sent"

agent = upshot.Agent("clerk", model="scripted:[]", tools=[send])
app = upshot.App([agent], journal="desk.db", version=VERSION)
"""
URL = "desk.db"


@tool(effect="write", approval=True)
def send() -> str:
    """Send."""
    return "sent"


def clerk() -> Agent[Any]:
    return Agent("clerk", model=ScriptedModel([ToolCall("s", "send"), "Done."]), tools=[send])


def named(version: str) -> None:
    Path("desk.py").write_text(APP.replace("VERSION", repr(version)), "utf-8")


async def answered(run_id: str, **more: Any) -> None:
    """A run that waited for an answer, and has one."""
    await run(clerk(), Request("?", run_id=run_id), journal=URL, **more)
    async with open_journal(URL) as journal:
        (item,) = await journal.inbox(run_id=run_id)
        await answer(run_id, [item.pending.approve()], journal=journal)


def test_runs_that_are_due_are_listed_with_the_reason_why_they_are_left(command: Command) -> None:
    named("1")
    assert command("submit", "desk.py", "One.", "--run-id", "new")[0] == 0
    asyncio.run(answered("mine"))
    asyncio.run(answered("guarded", dependencies={"desk": 1}))
    code, out, _ = command("work", "desk.py", "--list")
    assert code == 0
    heading, *rows = out.splitlines()
    assert heading.split() == ["run", "agent", "state", "why", "or", "who", "since", "(UTC)"]
    assert [row.split()[:4] for row in [*rows[:2], rows[-1]]] == [
        ["mine", "clerk", "due", "answered"],
        ["guarded", "clerk", "due", "answered"],
        ["new", "clerk", "due", "submitted"],
    ]
    assert "left here: run 'guarded' was given dependencies" in rows[2]
    assert all(len(row) <= 80 for row in [heading, *rows[:2], rows[-1]])


def test_a_run_that_is_worked_on_is_listed_with_its_process(command: Command) -> None:
    named("1")

    async def look() -> str:
        async with open_journal(URL) as journal:
            await run(clerk(), Request("?", run_id="held"), journal=journal)
            await journal.claim("held")
            return (await asyncio.to_thread(command, "work", "desk.py", "--list"))[1]

    row = asyncio.run(look()).splitlines()[1].split()
    assert row[:4] == ["held", "clerk", "at", "work"]
    assert row[-1] == "left" and row[4].split("@")[0].isdigit()


def test_nothing_to_list_is_said(command: Command) -> None:
    named("1")
    assert command("work", "desk.py", "--list")[2] == "no run is due, and none is worked on\n"


def test_schedules_are_listed(command: Command) -> None:
    named("1")
    assert command("schedules", "desk.py")[2] == (
        "the App has no schedules: give it some with app.schedule()\n"
    )
    with Path("desk.py").open("a", encoding="utf-8") as file:
        file.write(
            "from datetime import datetime, UTC\n"
            "app.schedule('daily', 'clerk', 'Look.', cron='0 9 * * *')\n"
            "app.schedule('late', 'clerk', 'Look.', at=datetime(2999, 1, 1, tzinfo=UTC))\n"
        )
    _, out, _ = command("schedules", "desk.py")
    heading, daily, late = out.splitlines()
    assert heading.split() == [
        "schedule",
        "agent",
        "when",
        "next",
        "(UTC)",
        "last",
        "run",
        "missed",
    ]
    assert daily.split() == ["daily", "clerk", "cron", "0", "9", "*", "*", "*", "in", "UTC"]
    assert late.split()[:4] == ["late", "clerk", "at", "2999-01-01"]
    assert "cron 0 9 * * * in UTC" in command("schedules", "desk.py", "--json")[1]


def test_workers_are_listed_and_drained(command: Command, tmp_path: Path) -> None:
    named("1")
    assert command("submit", "desk.py", "One.", "--run-id", "one", "--journal", URL)[0] == 0
    assert command("workers", "--journal", URL)[2] == (
        "no process works on runs: start one with upshot work FILE.py\n"
    )
    assert command("workers", "--drain", "none", "--journal", URL)[2] == (
        "upshot: 'none' is not a worker of this journal\n"
    )
    with spawn("work", "desk.py", folder=tmp_path) as process:
        try:
            rows: list[list[str]] = []
            # It may hold the run before it is listed as a worker.
            while not rows or rows[1][0] == "-":
                rows = [row.split() for row in command("workers", "--journal", URL)[1].splitlines()]
            heading, row = rows
            assert heading[:4] == ["worker", "process", "state", "runs"]
            assert row[1].split("@")[0] == str(process.pid) and row[2] == "working"
            assert row[-1] == "1"
            code, out, _ = command("workers", "--drain", row[0], "--by", "ann", "--journal", URL)
            assert (code, out.split()[:2]) == (0, ["worker", row[0]])
            assert process.wait(60) == 0
        finally:
            process.kill()
