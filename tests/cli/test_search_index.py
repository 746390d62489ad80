"""upshot index."""

from __future__ import annotations

import json

from tests.cli.conftest import Command
from upshot import Agent, ScriptedModel, run_sync


def test_an_index_is_made_and_dropped(command: Command) -> None:
    agent = Agent[str]("desk", model=ScriptedModel(["It is on its way."]))
    run_sync(agent, "Where is order 7?", journal="runs.db")
    code, out, _ = command("index", "--journal", "runs.db")
    assert (code, out) == (0, "the search index has 1 run\n")
    code, out, _ = command("index", "--journal", "runs.db", "--json")
    assert (code, json.loads(out)) == (0, {"runs": 1, "left": 0})
    assert command("index", "--journal", "runs.db", "--drop")[1] == "dropped the search index\n"
    assert command("index", "--journal", "runs.db", "--drop")[1] == "there is no search index\n"


def test_an_archive_has_no_index(command: Command) -> None:
    code, _, err = command("index", "--journal", "archive:old")
    assert code == 2 and "no search index" in err
