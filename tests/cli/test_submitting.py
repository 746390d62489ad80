"""Submitting, the inbox and stopping, from the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from upshot import App, Request, RunSummary, Status, open_journal, run_sync
from upshot.cli.loading import Target, load_app

DESK = """\
import upshot

@upshot.tool(effect="destructive", approval=True)
def pay(to: str) -> str:
    return "paid"

def till():
    model = upshot.ScriptedModel([[upshot.ToolCall("p", "pay", {"to": "ann"})], "Paid."])
    return upshot.Agent("till", model=model, tools=[pay])
"""
APP = "app = upshot.App(agents=[till()], journal='desk.db')\n"
CHAIN = """\
model = upshot.ScriptedModel([upshot.ToolCall("h", "transfer_to_till", {})])
desk = upshot.Agent("desk", model=model, handoffs=[upshot.Handoff("till")])
app = upshot.App(agents=[desk, till()], journal="desk.db")
"""


def write(name: str, *lines: str) -> None:
    Path(name).write_text("\n".join((DESK, *lines)), "utf-8")


def work(file: str = "desk.py") -> None:
    async def take_up() -> None:
        async with load_app(Target(file))[0] as app:
            for due in await app.due():
                await app.activate(due.run_id)

    asyncio.run(take_up())


def listed(journal: str) -> list[RunSummary]:
    async def read() -> list[RunSummary]:
        async with open_journal(journal) as opened:
            return [*await opened.runs()]

    return asyncio.run(read())


@pytest.mark.parametrize(
    ("lines", "target", "agents"),
    [
        (["app = upshot.App([till()])", "b = upshot.App([till()])"], "desk.py", ["till"]),
        (["desk = upshot.App([till()])", "a = till()"], "desk.py", ["till"]),
        (["a = till()"], "desk.py", ["till"]),
        (["a = till()", "b = upshot.Agent('b')"], "desk.py:b", ["b"]),
        (["app = upshot.App([till()])", "b = upshot.Agent('b')"], "desk.py:b", ["b"]),
    ],
    ids=["its app", "its only App", "its only agent", "an agent of several", "beside an App"],
)
def test_a_file_means_its_app(
    command: Command, lines: list[str], target: str, agents: list[str]
) -> None:
    write("desk.py", *lines)
    app, _ = load_app(Target(target))
    assert isinstance(app, App)
    assert [*app.agents] == agents


@pytest.mark.parametrize(
    ("lines", "target", "told"),
    [
        ([], "desk.py", "desk.py has no App or agent: define one, app = upshot.App"),
        (
            ["a = till()", "b = upshot.Agent('b')"],
            "desk.py",
            "more than one App or agent, a, b",
        ),
        (["a = upshot.App([till()])", "b = upshot.App([till()])"], "desk.py", "more than one App"),
        (["a = till()"], "desk.py:c", "desk.py has no App or agent 'c': there is a"),
    ],
    ids=["nothing", "two agents", "two Apps", "another name"],
)
def test_a_file_that_leaves_it_open_is_told_what_is_there(
    command: Command, lines: list[str], target: str, told: str
) -> None:
    write("desk.py", *lines)
    code, _, err = command("submit", target, "Pay.")
    assert code == 2
    assert told in err


def test_a_run_is_submitted_once_a_key(command: Command) -> None:
    write("desk.py", APP)
    code, first, _ = command("submit", "desk.py", "Pay.", "--key", "k", "--conversation", "c")
    assert code == 0
    assert command("submit", "desk.py", "Pay.", "--key", "k", "--conversation", "c")[1] == first
    code, _, err = command("submit", "desk.py", "Pay more.", "--key", "k")
    assert code == 2
    assert "conflict: the key 'k' was used for another request" in err
    code, out, _ = command("runs", "--journal", "desk.db", "--json")
    (found,) = json.loads(out)
    assert (found["run_id"], found["status"]) == (first.strip(), "queued")
    assert found["context_id"] == "c"


def test_the_journal_of_the_command_wins(command: Command) -> None:
    write("desk.py", APP)
    at = "2999-01-31T08:00"
    code, out, _ = command("submit", "desk.py", "Pay.", "--journal", "o.db", "--at", at, "--json")
    assert code == 0
    assert [one.run_id for one in listed("o.db")] == [json.loads(out)["run_id"]]
    assert not Path("desk.db").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--at", "soon"], "--at is 'soon': give a moment such as"),
        (["--agent", "nobody"], "the App has no such agent 'nobody'"),
        (["--run-id", "a b"], "--run-id 'a b': give letters"),
    ],
    ids=["no moment", "no agent", "no id"],
)
def test_what_cannot_be_submitted_is_told(command: Command, options: list[str], told: str) -> None:
    write("desk.py", APP)
    code, _, err = command("submit", "desk.py", "Pay.", *options)
    assert code == 2
    assert told in err


def test_of_several_agents_one_is_named(command: Command) -> None:
    write("desk.py", "app = upshot.App([till(), upshot.Agent('b')], journal='desk.db')")
    code, _, err = command("submit", "desk.py", "Pay.")
    assert code == 2
    assert "the App has 2 agents: say which, --agent b" in err
    assert command("submit", "desk.py", "Pay.", "--agent", "till")[0] == 0


def test_the_inbox_lists_what_waits_and_answers_it(command: Command) -> None:
    write("desk.py", APP)
    (run_id,) = command("submit", "desk.py", "Pay.")[1].split()
    assert command("inbox", "--journal", "desk.db")[2] == "nothing waits for an answer\n"
    work()
    code, out, err = command("inbox", "--journal", "desk.db")
    assert (code, out) == (0, f'{run_id}  till  approval of pay {{"to":"ann"}} (p)\n')
    assert f"upshot inbox {run_id}" in err
    (item,) = json.loads(command("inbox", "--journal", "desk.db", "--json")[1])
    assert item["run_id"] == run_id
    assert command("inbox", "--journal", "desk.db", "--conversation", "c")[1] == ""
    code, _, err = command("inbox", run_id, "--all", "--journal", "desk.db")
    worker = "upshot work FILE.py --journal desk.db\n"
    assert (code, err) == (0, f"a worker continues it: {worker}")
    code, _, err = command("inbox", run_id, "--all", "--journal", "desk.db")
    assert code == 2
    assert err.endswith(f"waits for is answered: a worker continues it, {worker}")
    assert command("inbox", "--journal", "desk.db")[1] == ""
    work()
    assert [one.status for one in listed("desk.db")] == [Status.COMPLETED]


def test_what_waits_cannot_steer_the_terminal(command: Command) -> None:
    turned = "app = upshot.App(agents=[till()], journal='desk.db')"
    Path("desk.py").write_text(DESK.replace('"ann"', r'"\u202eann"') + turned, "utf-8")
    command("submit", "desk.py", "Pay.")
    work()
    out = command("inbox", "--journal", "desk.db")[1]
    assert "\u202e" not in out
    assert r"\u202eann" in out


def test_whoever_asks_is_found_by_the_run_that_handed_the_request_over(command: Command) -> None:
    write("desk.py", CHAIN)
    run_id = command("submit", "desk.py", "Pay.", "--agent", "desk")[1].strip()
    place = ("--journal", "desk.db")
    told = command("inbox", run_id, *place)[2]
    assert told == f"upshot: run {run_id} waits for no answer: it has not started\n"
    work()
    code, _, err = command("inbox", run_id, *place)
    assert (code, "1. pay" in err) == (3, True)
    code, _, err = command("inbox", run_id, "--approve", "1", *place)
    assert (code, err) == (0, "a worker continues it: upshot work FILE.py --journal desk.db\n")
    work()
    assert {one.status for one in listed("desk.db")} == {Status.COMPLETED}
    code, _, err = command("stop", run_id, *place)
    assert (code, "has ended: it is completed" in err) == (2, True)


def test_a_worker_looks_where_a_run_was_submitted(command: Command) -> None:
    write("desk.py", "app = upshot.App(agents=[till()])")
    run_id = command("submit", "desk.py", "Pay.")[1].strip()
    assert run_id in command("work", "desk.py", "--list")[1]


def test_a_run_of_nobody_knows_which_agent_is_only_answered(command: Command) -> None:
    write("desk.py", APP)
    app, _ = load_app(Target("desk.py"))
    run_sync(app.agents["till"], Request("Pay.", run_id="r"), journal="desk.db")
    code, _, err = command("approve", "r", "--all", "--journal", "desk.db")
    assert (code, err) == (0, "continue it: upshot resume r FILE.py:AGENT --journal desk.db\n")
    app, _ = load_app(Target("desk.py"))
    run_sync(app.agents["till"], Request("Pay.", run_id="q"), journal="desk.db")
    code, _, err = command("approve", "q", "--all", "--resume", "--journal", "desk.db")
    assert (code, "say which agent it has" in err) == (2, True)


def test_a_run_is_stopped_from_the_command_line(command: Command) -> None:
    write("desk.py", APP)
    soon, late = (command("submit", "desk.py", text)[1].strip() for text in ("Pay.", "Pay too."))
    code, out, _ = command("stop", late, "--now", "--journal", "desk.db")
    assert (code, out) == (0, f"{late} is canceled\n")
    code, out, _ = command("stop", soon, "--reason", "wrong", "--journal", "desk.db")
    assert (code, out) == (0, f"{soon} stops at its next safe point, once a process works on it\n")
    work()
    (ended,) = [one for one in listed("desk.db") if one.run_id == soon]
    assert ended.status == Status.INTERRUPTED
    assert "wrong" in command("show", soon, "--events", "--journal", "desk.db")[1]
    for options in ([], ["--now"]):
        code, _, err = command("stop", soon, *options, "--journal", "desk.db")
        assert (code, err) == (2, f"upshot: run {soon} has ended: it is interrupted\n")


def test_several_runs_are_stopped_at_once(command: Command) -> None:
    write("desk.py", APP)
    runs = [command("submit", "desk.py", text)[1].strip() for text in ("Pay.", "Pay too.")]
    place = ("--journal", "desk.db")
    code, _, err = command("stop", *runs, "--now", "--reason", "wrong", *place)
    assert (code, "--reason is for a stop without --now" in err) == (2, True)
    code, out, err = command("stop", runs[0], "none-such", runs[1], "--now", *place)
    assert (code, out) == (2, "".join(f"{one} is canceled\n" for one in runs))
    assert err.startswith("upshot: the journal has no run 'none-such'")


def test_runs_are_listed_by_what_becomes_of_them(command: Command) -> None:
    write("desk.py", APP)

    def found(status: str) -> int:
        code, out, _ = command("runs", "--status", status, "--journal", "desk.db", "--json")
        assert code == 0
        return len(json.loads(out))

    assert command("submit", "desk.py", "Pay ann.")[0] == 0
    assert [found(one) for one in ("queued", "parked", "ended")] == [1, 0, 0]
    work()
    assert [found(one) for one in ("queued", "parked", "ended")] == [0, 1, 0]
    assert command("stop", "last", "--now", "--journal", "desk.db")[0] == 0
    assert [found(one) for one in ("due", "parked", "ended")] == [0, 0, 1]
