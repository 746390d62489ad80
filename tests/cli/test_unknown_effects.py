"""What nobody knows comes first, whichever command shows the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

AGENT = """\
import asyncio

import upshot


@upshot.tool(effect="write", timeout_s=0.01)
async def pay(to: str, euros: int) -> str:
    await asyncio.sleep(60)
    return "paid"


@upshot.tool(effect="write", approval=True)
async def mail(to: str) -> str:
    return "sent"


desk = upshot.Agent("desk", tools=[pay, mail])


async def work(run, host, board):
    return await run.child(desk, "Pay.")


outer = upshot.Agent("outer", engine=upshot.ScriptEngine(work))
"""
JOURNAL = ("--journal", "runs.db")
LINE = "pay(to ann@example.org, euros 50) may have happened: it did not finish within 0.01 s"
PAY = {"name": "pay", "arguments": {"to": "ann@example.org", "euros": 50}}
MAIL = {"name": "mail", "arguments": {"to": "ann@example.org"}}


@pytest.fixture
def desk(tmp_path: Path, command: Command) -> Command:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    (tmp_path / "done.json").write_text(json.dumps([PAY, "Done."]), "utf-8")
    (tmp_path / "asks.json").write_text(json.dumps([PAY, MAIL, "Done."]), "utf-8")
    return command


def ran(desk: Command, agent: str, script: str, *more: str) -> tuple[int, str, str]:
    model = ("--model", f"scripted:{script}.json", "--run-id", "run-1")
    return desk("run", f"agent.py:{agent}", "Pay.", *model, *JOURNAL, *more)


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_completed_run_names_the_call(desk: Command) -> None:
    code, out, err = ran(desk, "desk", "done")
    assert (code, out) == (0, "Done.\n")
    assert err.splitlines()[0].startswith("pay(to ann@example.org, euros 50) may have happened")
    assert flat(err) == LINE


def test_json_on_stdout_has_the_line_beside_it(desk: Command) -> None:
    _, out, err = ran(desk, "desk", "done", "--json")
    assert json.loads(out)["status"] == "completed"
    assert flat(err) == LINE


def test_show_and_resume_name_it_first(desk: Command) -> None:
    ran(desk, "desk", "done")
    _, out, _ = desk("show", "run-1", *JOURNAL)
    assert out.splitlines()[1].startswith("unknown     pay(to ann@example.org, euros 50) may")
    assert LINE in flat(out)
    _, _, err = desk("resume", "run-1", *JOURNAL)
    assert flat(err) == LINE


def test_runs_marks_it(desk: Command) -> None:
    ran(desk, "desk", "done")
    _, out, err = desk("runs", *JOURNAL)
    assert "completed ! " in out
    assert err.startswith("! it is unknown whether a call in that run took effect")
    assert err.endswith("upshot show run-1 --journal runs.db\n")


@pytest.mark.parametrize("agent", ["desk", "outer"])
def test_runs_marks_no_run_whose_effects_were_settled(desk: Command, agent: str) -> None:
    ran(desk, agent, "done")
    assert " ! " in desk("runs", *JOURNAL)[1]
    (made,) = json.loads(desk("effects", "--unknown", "--json", *JOURNAL)[1])
    assert desk("effects", "settle", made["id"], "--none", "--by", "ann", *JOURNAL)[0] == 0
    _, out, err = desk("runs", *JOURNAL)
    assert " ! " not in out
    assert "nobody knows" not in err


def test_a_run_that_waits_names_it_before_the_hint_and_in_the_inbox(desk: Command) -> None:
    code, _, err = ran(desk, "desk", "asks")
    assert code == 3
    assert flat(err).index(LINE) < flat(err).index("waits for approval of mail")
    for told in (desk("inbox", *JOURNAL), desk("approve", "run-1", *JOURNAL)):
        assert LINE in flat(told[2])
        assert flat(told[2]).index(LINE) < flat(told[2]).index("answer: upshot")


def test_a_run_round_it_says_where_to_look(desk: Command) -> None:
    _, _, err = ran(desk, "outer", "done")
    assert "may have happened" in err
