"""Log records with their run, as JSON."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python, start_python
from upshot import Agent, ScriptedModel, ToolCall, run, tool
from upshot.fleet import JsonFormatter, RunFilter

APP = """
import logging, upshot

@upshot.tool(effect="read")
def look() -> str:
    "Look."
    logging.getLogger("shop").warning("looked")
    return "seen"

model = upshot.ScriptedModel([upshot.ToolCall("c", "look"), "Done."])
app = upshot.App([upshot.Agent("desk", model=model, tools=[look])], journal="desk.db", version="1")
"""


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger with the filter and the formatter, and what it writes."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RunFilter())
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("tests.run_logs")
    logger.addHandler(handler)
    yield logger, out
    logger.removeHandler(handler)


def lines_of(out: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


async def test_what_tools_of_runs_at_once_log_names_the_run_of_each(logged: Any) -> None:
    logger, out = logged
    both = asyncio.Barrier(2)

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await both.wait()
        logger.warning("looked")
        return "seen"

    def agent(name: str) -> Agent[Any]:
        model = ScriptedModel([ToolCall("c", "look"), "Done."])
        return Agent(name, model=model, tools=[look])

    results = await asyncio.gather(run(agent("a"), "?"), run(agent("b"), "?"))
    found = {(one["agent"], one["run_id"]) for one in lines_of(out)}
    assert found == {("a", results[0].run_id), ("b", results[1].run_id)}
    logger.warning("outside")
    last = lines_of(out)[-1]
    assert "run_id" not in last and last["worker"].endswith(f":{os.getpid()}")


def test_a_record_is_one_line_whatever_it_says(logged: Any) -> None:
    logger, out = logged
    try:
        raise ValueError("no\nno")
    except ValueError:
        logger.exception('a "b"\n\x1b[2J \u202e', extra={"run_id": "run-7"})
    (line,) = lines_of(out)
    assert out.getvalue().isascii() and out.getvalue().count("\n") == 1
    assert (line["message"], line["run_id"]) == ('a "b"\n\x1b[2J \u202e', "run-7")
    assert line["level"] == "error" and "ValueError: no" in line["traceback"]


@pytest.mark.parametrize("way", ["option", "variable"])
def test_all_that_a_worker_says_is_json(tmp_path: Path, way: str) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    run_python("-m", "upshot", "submit", "app.py", "Hi", cwd=tmp_path, check=True)
    given = ["-m", "upshot", "work", "app.py", *(["--log-json"] if way == "option" else [])]
    env = {**os.environ, **({"UPSHOT_LOG": "json"} if way == "variable" else {})}
    with start_python(*given, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines: list[dict[str, str]] = []
            while not lines or "is completed" not in lines[-1]["message"]:
                lines.append(json.loads(process.stderr.readline()))
            process.send_signal(signal.SIGTERM)
            lines += [json.loads(line) for line in process.stderr]
            assert process.wait(30) == 0
        finally:
            process.kill()
    said = {one["message"].split()[0]: one for one in lines}
    run_id = said["run"]["run_id"]
    assert said["looked"]["run_id"] == run_id
    assert said["looked"]["logger"] == "shop" and said["looked"]["agent"] == "desk"
    assert said["working"]["logger"] == "upshot.cli" and "run_id" not in said["working"]


def test_another_form_of_log_is_misuse(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    env = {**os.environ, "UPSHOT_LOG": "xml"}
    done = run_python("-m", "upshot", "work", "app.py", cwd=tmp_path, env=env, text=True)
    assert done.returncode == 2
    assert done.stderr == "upshot: UPSHOT_LOG is 'xml': give json or text\n"
