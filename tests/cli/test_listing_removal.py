"""Runs are removed from a journal, and the list of runs is cut to what is wanted."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.cli.conftest import Command
from upshot import Agent, AgentError, App, ErrorCode, ModelResponse, Retry
from upshot.contract import AgentResult, Event, Request, RunSettled, RunStarted
from upshot.fleet.worker import Worker
from upshot.journal import open_journal
from upshot.testing.ledger_contract import started_call

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def write(*events: Event) -> None:
    async def append() -> None:
        async with open_journal("runs.db") as journal:
            for event in events:
                journal.append(event)

    asyncio.run(append())


def ended(run_id: str, *, parent: str = "", options: dict[str, Any] | None = None) -> list[Event]:
    start: Any = {"run_id": run_id, "seq": 1, "time": LONG_AGO, "options": options or {}}
    result: AgentResult[Any] = AgentResult(run_id=run_id)
    return [
        RunStarted(**start, parent_run_id=parent),
        RunSettled(run_id=run_id, seq=2, time=LONG_AGO, result=result),
    ]


def listed(command: Command, *arguments: str) -> list[str]:
    code, out, err = command("runs", "--journal", "runs.db", "--json", *arguments)
    assert code == 0, err
    return sorted(run["run_id"] for run in json.loads(out))


def test_a_named_run_goes_with_its_children(command: Command) -> None:
    write(*ended("run-a"), *ended("run-b", parent="run-a"), *ended("run-c"))
    code, out, err = command("prune", "run-a", "--journal", "runs.db")
    assert (code, out, err) == (0, "removed 2 runs and 0 stored outputs (0 bytes)\n", "")
    assert listed(command) == ["run-c"]


def test_a_dry_run_removes_nothing(command: Command) -> None:
    write(*ended("run-a"))
    code, out, _ = command("prune", "--older-than", "1", "--dry-run", "--journal", "runs.db")
    assert (code, out) == (0, "would remove 1 run and 0 stored outputs (0 bytes)\n")
    assert listed(command) == ["run-a"]


def test_an_old_run_with_an_unknown_effect_stays_unless_effects_go_too(command: Command) -> None:
    start, end = ended("run-a")
    write(start, started_call("run-a", 2, "c", "7"), replace(end, seq=3), *ended("run-b"))
    old = ("prune", "--older-than", "1", "--journal", "runs.db")
    code, out, err = command(*old)
    assert (code, out) == (0, "removed 1 run and 0 stored outputs (0 bytes)\n")
    assert "1 run with an unknown effect stays: settle it with upshot effects settle, or" in err
    assert listed(command) == ["run-a"]
    code, out, err = command(*old, "--effects")
    assert (code, out, err) == (0, "removed 1 run and 0 stored outputs (0 bytes)\n", "")
    assert listed(command) == []


def test_what_a_fork_reads_stays_and_is_told(command: Command) -> None:
    forked: Any = {"forked_from": [{"run_id": "run-a", "seq": 1}]}
    write(*ended("run-a"), *ended("run-b", parent="run-a"))
    write(RunStarted(run_id="fork", seq=1, time=LONG_AGO, options=forked))
    code, out, err = command("prune", "--older-than", "1", "--journal", "runs.db")
    assert (code, out) == (0, "removed 0 runs and 0 stored outputs (0 bytes)\n")
    assert "run-a stays: run fork, a fork, reads it" in err
    code, _, err = command("prune", "run-a", "--journal", "runs.db")
    assert code == 2 and "run run-b cannot be removed: run fork, a fork, reads it" in err
    assert listed(command) == ["fork", "run-a", "run-b"]


@pytest.mark.parametrize("arguments", [(), ("run-a", "--older-than", "1")], ids=["none", "both"])
def test_it_has_to_be_said_what_to_remove(command: Command, arguments: tuple[str, ...]) -> None:
    write(*ended("run-a"))
    code, _, err = command("prune", *arguments, "--journal", "runs.db")
    assert code == 2 and "name them, or give --older-than DAYS" in err


def test_a_long_list_is_cut_and_says_so(command: Command) -> None:
    write(*(event for number in range(5) for event in ended(f"run-{number}")))
    code, out, err = command("runs", "--limit", "2", "--journal", "runs.db")
    assert code == 0 and len(out.splitlines()) == 3
    assert "these are the first 2: give --limit N for more, 0 for all" in err
    assert len(listed(command, "--limit", "0")) == 5


def test_runs_that_died_are_found_by_the_word_that_is_shown(command: Command) -> None:
    write(*ended("run-a"), RunStarted(run_id="run-b", seq=1, time=LONG_AGO))
    write(RunStarted(run_id="run-c", seq=1, time=LONG_AGO))

    async def let_go() -> None:
        async with open_journal("runs.db") as journal:
            journal.release("run-c", await journal.claim("run-c"))

    asyncio.run(let_go())
    assert listed(command, "--status", "died") == ["run-c"]
    assert listed(command, "--status", "running or died") == ["run-b"]
    assert listed(command, "--status", "completed") == ["run-a"]


def test_sqlites_name_for_memory_is_no_file(command: Command) -> None:
    Path("agent.py").write_text(
        'import upshot\nagent = upshot.Agent("a", model=upshot.ScriptedModel(["Hi."]))\n', "utf-8"
    )
    code, _, err = command("run", "agent.py", "Hi", "--journal", ":memory:")
    assert code == 2 and "give --journal memory:" in err
    assert not Path(":memory:").exists()


def test_a_whole_conversation_is_removed(command: Command) -> None:
    for number, id in enumerate(("ada", "ada", "bob")):
        start: Any = {"run_id": f"run-{number}", "seq": 1, "time": LONG_AGO}
        write(RunStarted(**start, request=Request("go", context_id=id), options={"turn": {}}))
    code, _, err = command("prune", "run-0", "--journal", "runs.db")
    assert code == 2 and "remove the whole conversation" in err
    code, out, err = command("prune", "--conversation", "ada", "--journal", "runs.db")
    assert (code, out, err) == (0, "removed 2 runs and 0 stored outputs (0 bytes)\n", "")
    assert listed(command) == ["run-2"]


async def _parked_until_due(path: str) -> None:
    class Busy:
        async def call(self, request: Any) -> ModelResponse:
            error = AgentError(ErrorCode.RATE_LIMIT, "", retryable=True, retry_after_s=3000)
            return ModelResponse(error=error)

    model: Any = Busy()
    agent = Agent("a", model=model, retry=Retry(base_s=0))
    async with App([agent], journal=path) as app:
        run = await app.submit("a", "?")
        worker = Worker(app)
        task = asyncio.create_task(worker.work())
        while not await app.runs("parked"):
            await asyncio.sleep(0.005)
        worker.stop()
        await task
        assert (await run.state()).seq


def test_a_run_that_waits_for_a_time_is_parked_and_has_not_died(command: Command) -> None:
    asyncio.run(_parked_until_due("runs.db"))
    _, out, _ = command("runs", "--journal", "runs.db")
    assert out.splitlines()[1].split()[1] == "parked"


def test_a_conversation_is_redacted_and_shown_as_such(command: Command) -> None:
    start = RunStarted(
        run_id="run-a", seq=1, time=LONG_AGO, request=Request("Hi!", context_id="ada")
    )
    write(start, ended("run-a")[1])
    code, out, err = command("redact", "ada", "--by", "dpo", "--journal", "runs.db")
    assert (code, out, err) == (0, "redacted 1 run of ada\n", "")
    _, out, _ = command("show", "run-a", "--journal", "runs.db")
    assert "by dpo at" in out
    assert "Hi!" not in out
    code, _, err = command("fork", "run-a", "--at", "1", "--journal", "runs.db")
    assert (code, "was redacted by dpo at" in err) == (2, True)
    command("show", "run-a", "--html", "run.html", "--journal", "runs.db")
    assert "by dpo at" in Path("run.html").read_text()


def test_rules_of_a_file_say_how_many_runs_each_lets_go(command: Command) -> None:
    write(*ended("run-a"), *ended("run-b"))
    Path("keep.toml").write_text("[[keep]]\ndays = 30\n", "utf-8")
    given = ("prune", "--config", "keep.toml", "--journal", "runs.db")
    code, out, _ = command(*given, "--dry-run")
    assert code == 0
    assert out == (
        "rule 1 (all others: 30 days): 2 runs older, 0 kept\n"
        "would remove 2 runs and 0 stored outputs (0 bytes)\n"
    )
    assert listed(command) == ["run-a", "run-b"]
    assert command(*given)[0] == 0
    assert listed(command) == []
    assert command(*given, "--effects")[0] == 2


def test_archived_runs_are_shown_from_the_archive_and_come_back(command: Command) -> None:
    write(*ended("run-a"), *ended("run-b", parent="run-a"))
    here = ("--journal", "runs.db")
    code, out, _ = command("archive", "kept", "--older-than", "30", *here)
    assert (code, out.split(" (")[0]) == (0, "archived 2 runs in kept")
    assert listed(command) == []
    code, out, _ = command("show", "run-a", "--journal", "archive:kept")
    assert code == 0 and out.startswith("run-a")
    assert command("archive", "kept", "--restore", "run-a", *here)[0] == 0
    assert listed(command) == ["run-a"]
    code, _, err = command("archive", "kept", "--restore", "run-c", *here)
    assert (code, err) == (2, "upshot: the archive kept has no run run-c: give its whole id\n")
    assert command("archive", "kept", *here)[0] == 2
    assert command("archive", "kept", "--older-than", "30", *here)[0] == 0
    write(*ended("run-a", parent="run-0"))
    code, out, err = command("archive", "kept", "--older-than", "30", *here)
    assert (code, out) == (1, "archived 0 runs in kept (0 bytes); 1 ended run kept\n")
    assert "run-a stays: the archive kept has another run run-a" in " ".join(err.split())
    assert listed(command) == ["run-a"]
