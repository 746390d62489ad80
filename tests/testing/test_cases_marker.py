"""Cases of the lab in pytest, tried by real sessions of pytest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_pytest
from upshot import Agent, Request, ScriptedModel, ToolCall, lab, run, tool
from upshot.journal import MemoryJournal

ROOT = Path(__file__).resolve().parents[2]

# Today's desk pays twice what it paid; the model's replies are the recorded ones, unless it is
# asked.
DESK = """
import pytest
from upshot import Agent, ScriptedModel, ToolCall, tool

@tool(effect="write"{approval})
def refund(id: int, cents: int) -> str:
    raise RuntimeError("the lab called the body of a tool")

def reply(messages):
    if any(one.tool_call_id for one in messages):
        return "Done, live."
    return ToolCall("r", "refund", {{"id": 1, "cents": 999}})

desk = Agent("desk", model=ScriptedModel(reply), tools=[refund])
"""

TESTS = """
@pytest.mark.upshot_cases("bad.jsonl")
def test_it_changes_nothing_new(case):
    trial = case.run_sync(desk)
    assert trial.result.success
    assert [(one.tool, one.arguments["cents"]) for one in trial.new_effects] == []
    assert trial.result.content == case.answer

@pytest.mark.upshot_cases("bad.jsonl")
async def test_it_is_async(case):
    assert (await case.run(desk)).result.success
"""


async def written(path: Path, numbers: tuple[int, ...] = (1, 2)) -> lab.Dataset:
    """Write a dataset of runs that each refund 10 cents."""

    @tool(effect="write")
    def refund(id: int, cents: int) -> str:
        """Refund an order."""
        return "refunded"

    def reply(messages: Any) -> Any:
        done = any(one.tool_call_id for one in messages)
        return "Done." if done else ToolCall("r", "refund", {"id": 1, "cents": 10})

    journal = MemoryJournal()
    for number in numbers:
        agent = Agent("desk", model=ScriptedModel(reply), tools=[refund])
        await run(agent, Request("Refund order 1", run_id=f"ticket-{number}"), journal=journal)
    found = await lab.Dataset.from_journal(journal)
    found.write(path)
    return found


def session(folder: Path, *options: str, approval: str = "", tests: str = TESTS) -> str:
    """Return what a session of pytest prints that has the tests and the desk."""
    (folder / "test_desk.py").write_text(DESK.format(approval=approval) + tests)
    # The name of its entry point: an installed upshot loads it without -p.
    plugin = ["-p", "upshot.testing.cases_marker", "-p", "no:cacheprovider"]
    scope = "asyncio_default_fixture_loop_scope=function"
    strict = ["--strict-markers", "-o", "asyncio_mode=auto", "-o", scope, "-W", "error"]
    return run_pytest(folder, *plugin, *strict, *options, ".")


async def test_each_case_is_a_test_with_its_recorded_replies(tmp_path: Path) -> None:
    await written(tmp_path / "bad.jsonl")
    said = session(tmp_path, "-rA")
    assert "PASSED test_desk.py::test_it_changes_nothing_new[ticket-1]" in said
    assert "PASSED test_desk.py::test_it_is_async[ticket-2]" in said
    assert "4 passed" in said


async def test_models_are_asked_only_if_that_is_wanted(tmp_path: Path) -> None:
    await written(tmp_path / "bad.jsonl", (1,))
    said = session(tmp_path, "--upshot-live", "-k", "new")
    assert "assert [('refund', 999)] == []" in said
    assert "1 failed" in said


async def test_a_case_takes_the_options_of_lab_run(tmp_path: Path) -> None:
    tests = """
@pytest.mark.upshot_cases("bad.jsonl")
def test_it(case):
    trial = case.run_sync(desk, replies="live", scorers=[lambda case, result: 0.5])
    assert trial.new_effects[0].arguments["cents"] == 999
    assert {name: score.value for name, score in trial.scores.items()} == {"<lambda>": 0.5}
"""
    await written(tmp_path / "bad.jsonl", (1,))
    assert "1 passed" in session(tmp_path, tests=tests)


async def test_what_only_code_changed_is_found_with_recorded_replies(tmp_path: Path) -> None:
    tests = """
@pytest.mark.upshot_cases("bad.jsonl")
def test_it_still_refunds(case):
    trial = case.run_sync(desk)
    assert [one.tool for one in trial.calls] == ["refund"]
"""
    await written(tmp_path / "bad.jsonl", (1,))
    assert "1 passed" in session(tmp_path, tests=tests)
    said = session(tmp_path, tests=tests, approval=", approval=True")
    assert "assert [] == ['refund']" in said


async def test_a_case_without_replies_is_skipped_unless_models_are_asked(tmp_path: Path) -> None:
    lab.Dataset("hand", (lab.Case(id="one", request=Request("Refund")),)).write(
        tmp_path / "bad.jsonl"
    )
    said = session(tmp_path, "-rs")
    assert "no recorded replies: --upshot-live asks the model" in said
    assert "2 skipped" in said
    assert "PASSED test_desk.py::test_it_is_async[one]" in session(
        tmp_path, "-rA", "--upshot-live", "-k", "async"
    )


@pytest.mark.parametrize(
    ("tests", "text", "said"),
    [
        (TESTS, None, "bad.jsonl cannot be read as a dataset: [Errno 2] No such file"),
        (TESTS, "changed", "were changed, since they do not fit its digest"),
        (TESTS, "empty", "has no cases: upshot lab collect makes a file of past runs"),
        (TESTS.replace("(case)", "()"), "", "is marked upshot_cases, so it needs a parameter"),
        (TESTS.replace('("bad.jsonl")', ""), "", "upshot_cases takes the path of a dataset"),
    ],
    ids=["no file", "wrong digest", "no cases", "no parameter", "no path"],
)
async def test_a_mistake_is_one_sentence_at_collection(
    tmp_path: Path, tests: str, text: str | None, said: str
) -> None:
    path = tmp_path / "bad.jsonl"
    if text is not None:
        await written(path, () if text == "empty" else (1,))
    if text == "changed":
        path.write_text(path.read_text().replace("ticket-1", "ticket-9"))
    printed = session(tmp_path, "-k", "new", tests=tests)
    assert said in printed
    assert "Traceback" not in printed and "cases_marker.py" not in printed
    assert "1 error" in printed


def test_the_plugin_is_an_entry_point_and_loads_nothing_of_upshot(tmp_path: Path) -> None:
    facts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (entry,) = facts["project"]["entry-points"]["pytest11"].items()
    assert entry[0] == entry[1]
    assert import_module(entry[1]).pytest_generate_tests
    tests = (
        "import sys\n"
        "def test_it():\n"
        "    heavy = [name for name in sys.modules if name.startswith('upshot.')]\n"
        f"    assert set(heavy) <= {{'upshot.lazy', 'upshot.testing', {entry[0]!r}}}\n"
    )
    (tmp_path / "test_it.py").write_text(tests)
    program = [sys.executable, "-m", "pytest", "-q", "-p", entry[0], "-p", "no:cacheprovider", "."]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
