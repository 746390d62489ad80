"""The tables of the pages say what the source says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import upshot
from tests.docs.stubs import STUBS, stub_of
from tests.docs.tables import PAGES, TABLE, attributes_of, filled, words_of
from tests.docs.test_pages import ROOT
from upshot import (
    Agent,
    Budget,
    DeniedReason,
    ErrorCode,
    Policy,
    Retry,
    Run,
    ScriptEngine,
    Status,
)
from upshot import run as start_run
from upshot.runs.plan import ResumeOptions, RunOptions
from upshot.tools.gates.standard_gates import StartGate, standard_gates
from upshot.tools.repetition import NO_PROGRESS

RESULT = next(page for page in PAGES if page.stem == "result").read_text("utf-8")
# The pipeline itself denies under this name, without asking a gate.
UNASKED = {"call_id"}
# Those that have the user asked and never deny.
ASKING = {"taint"}
TOOLS = (ROOT / "docs" / "tools.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_tables_of_a_page_are_those_of_the_source(page: Path) -> None:
    text = page.read_text("utf-8")
    assert TABLE.search(text)
    assert filled(text) == text, "write them anew: .venv/bin/python -m tests.docs.tables"


@pytest.mark.parametrize("name", STUBS)
def test_the_stub_of_a_module_names_the_options_of_the_source(name: str) -> None:
    written = STUBS[name].read_text("utf-8")
    assert written == stub_of(name), "write them anew: .venv/bin/python -m tests.docs.tables"


def test_a_stub_explains_each_option_of_a_run() -> None:
    text = STUBS["upshot.entry.api"].read_text("utf-8")
    begun = text.partition("async def run(")[2].partition("def run_sync(")[0]
    for name in {**ResumeOptions.__annotations__, **RunOptions.__annotations__}:
        assert re.search(rf"^    {name}: .* = \.\.\.,$", begun, re.MULTILINE)
        assert re.search(rf"^        {name}: \S", begun, re.MULTILINE)
    assert "Unpack" not in text


def test_every_name_of_the_package_stands_on_the_page_of_names() -> None:
    page = next(page for page in PAGES if page.stem == "names").read_text("utf-8")
    assert sorted(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == sorted(upshot.__all__)


@pytest.mark.parametrize(
    ("heading", "words"),
    [("Statuses", Status), ("Error codes", ErrorCode)],
    ids=["statuses", "codes"],
)
def test_every_word_of_a_list_has_its_row(heading: str, words: type[Status | ErrorCode]) -> None:
    assert sorted(words_of(RESULT, heading)) == sorted(words)


def test_every_option_is_told_of() -> None:
    told = {*attributes_of(ResumeOptions), *attributes_of(RunOptions)}
    assert told == RunOptions.__optional_keys__


def test_every_reason_to_deny_has_its_row() -> None:
    assert sorted(words_of(TOOLS, "Denied reasons")) == sorted([*DeniedReason, NO_PROGRESS])


def test_the_gates_of_the_reasons_are_there() -> None:
    earlier = [("pay", {}, "was applied")]
    asked = standard_gates(
        hook=lambda call: None, approve=None, policy=Policy(), repair=None, earlier=earlier
    )
    section = TOOLS.partition("\n### Denied reasons\n")[2].partition("\n#")[0]
    told = re.findall(r"^\| `\w+` \| (.*?) \|", section, re.MULTILINE)
    known = {gate.name for gate in asked} | {StartGate(lambda call: None).name}
    assert {name for names in told for name in names.split(", ")} == known - ASKING | UNASKED


async def test_what_holds_without_options_is_what_the_page_says() -> None:
    async def look(run: Run, host: object, board: object) -> None:
        assert (run.budget, run.settings, dict(run.attributes)) == (Budget(), None, {})

    assert Agent("a").retry == Retry()
    assert (await start_run(Agent("a", engine=ScriptEngine(look)), "Hi")).success
