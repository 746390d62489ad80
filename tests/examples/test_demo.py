"""The demonstration: its report is made of what the tools returned, and it can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from pathlib import Path
from subprocess import PIPE

import upshot
from tests.examples.conftest import SURVEY
from tests.processes import run_python, start_python
from upshot.journal import open_journal

# What is said to be typed has to be typed as it stands, whatever the file is called.
JOURNAL = "demo runs.db"
EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def demonstrate(repository: Path, folder: Path) -> subprocess.Popen[str]:
    """Start the demonstration in *folder*, where its journal goes too."""
    ours = {"DEMO_REPO": str(repository), "COLUMNS": "80", "PYTHONUNBUFFERED": "1"}
    return start_python(
        *("-W", "error", SURVEY / "demo.py", "--journal", JOURNAL),
        cwd=folder,
        env={**os.environ, **ours},
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )


def test_the_scenario_tells_no_figure_of_its_own() -> None:
    scenario = json.loads((SURVEY / "scenario.json").read_text("utf-8"))
    for reply in scenario["replies"]:
        assert not re.search(r"\d", EXPRESSION.sub("", reply["text"]))


def calls_of(events: list[upshot.RunEvent]) -> Counter[str]:
    """How often the body of each call was started."""
    return Counter(event.call.id for event in events if isinstance(event, upshot.ToolStarted))


async def read(folder: Path, run_id: str) -> list[upshot.RunEvent]:
    async with open_journal(folder / JOURNAL) as journal:
        return [e async for e, _ in upshot.states(journal.events(run_id))]


def test_another_repository_gives_another_report(garden: Path, tmp_path: Path) -> None:
    out, err = demonstrate(garden, tmp_path).communicate(timeout=60)
    assert err == ""
    assert "The model is SCRIPTED" in out
    assert "# Survey of garden-project" in out
    assert "3 commits (number of authors: 2), from 2025-02-20 to 2025-03-01, on branch trunk" in out
    assert "| Python | 1 | 7 | 53.8 % |" in out
    assert "3 functions and types in 2 files" not in out
    assert "| garden/plants.py | 3 |" in out
    assert "2025-02-20 Thu  commits     1  authors    1" in out


def test_the_demonstration_shows_every_outcome_and_how_to_see_it_again(
    garden: Path, tmp_path: Path
) -> None:
    out, _ = demonstrate(garden, tmp_path).communicate(timeout=60)
    assert "429 rate_limit" in out
    assert "tool calls  9: 6 results, 1 denied: validation, 1 artifact, 1 timeout" in out
    assert "cost        unknown" in out
    assert f"journal     {JOURNAL}" in out
    assert max(map(len, out.partition("run-")[2].partition("# Survey")[0].splitlines())) <= 80
    *_, again = out.splitlines()
    words = shlex.split(again)[1:]
    assert words[0] == "show"
    done = run_python("-m", "upshot", *words, cwd=tmp_path, text=True, check=True)
    report = out.partition("# Survey of")[2].partition("\ncompleted")[0].strip()
    assert report in done.stdout


def test_a_killed_demonstration_is_resumed_without_repeating_a_call(
    garden: Path, tmp_path: Path
) -> None:
    with demonstrate(garden, tmp_path) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "429 rate_limit" in line:
                process.send_signal(signal.SIGKILL)
    run_id = next(line.strip() for line in said if line.startswith(" run-"))
    before = asyncio.run(read(tmp_path, run_id))
    assert not any(isinstance(event, upshot.RunSettled) for event in before)
    assert calls_of(before)
    resume = ["-m", "upshot", "resume", run_id, "--journal", JOURNAL, "--json"]
    done = run_python(*resume, cwd=tmp_path, check=True)
    result = upshot.decode(done.stdout, upshot.AgentResult)
    assert result.success
    assert "# Survey of garden-project" in (result.content or "")
    assert len(result.tool_records) == 9
    after = asyncio.run(read(tmp_path, run_id))
    assert set(calls_of(after).values()) == {1}


def test_what_is_no_repository_is_told_in_one_sentence(tmp_path: Path) -> None:
    process = demonstrate(tmp_path / "nothing", tmp_path)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == f"demo: {tmp_path / 'nothing'} is no git repository: name one, DEMO_REPO=path\n"
