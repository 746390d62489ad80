"""A TypeScript program reads the golden files by the checked-in declarations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.schema.golden import FOLDER, GOLDEN, VIEWS
from tests.schema.node import COMPILER, find_node

HERE = Path(__file__).resolve().parent


def run_node(*arguments: str | Path) -> str:
    """What a program of Node writes; what it complains of fails the test."""
    node = find_node()
    if node is None:
        pytest.skip("Node is absent: the TypeScript declarations are not tried")
    done = subprocess.run(
        [node, *map(str, arguments)],
        cwd=HERE,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program made of each golden file, after it was compiled under ``strict``."""
    if not COMPILER.is_file():
        pytest.skip("TypeScript is absent: `make test` gets it from npm where Node is there")
    folder = tmp_path_factory.mktemp("compiled")
    # Else one of a folder above could change how the modules are loaded.
    (folder / "package.json").write_text("{}")
    run_node(COMPILER, "--project", HERE, "--outDir", folder)
    return json.loads(run_node(folder / "read_golden.js", FOLDER))


def test_every_golden_file_is_read_and_told_by_its_kind(readings: dict[str, Any]) -> None:
    kinds = {name: value.kind for name, value in GOLDEN.items()} | dict.fromkeys(VIEWS, "")
    assert {Path(file).stem: reading["kind"] for file, reading in readings.items()} == kinds


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "agent_result.completed",
            'completed; no error; output "Order 7 was shipped."; 3 messages; '
            'outcomes result {"order":"7","status":"shipped"} in 31 ms; pending none; '
            "1285 tokens; 0.001198 USD; windows none",
        ),
        (
            "agent_result.failed",
            "failed; rate_limit (429); output null; 0 messages; outcomes none; pending none; "
            "unknown tokens; unknown money; windows requests_per_minute + images_per_day",
        ),
        (
            "agent_result.parked",
            "input_required; input_required (no status); output null; 0 messages; "
            "outcomes none; pending approval of refund + question Which address? + "
            "outside: the bank's answer; unknown tokens; unknown money; windows none",
        ),
        ("agent_spec", "anthropic:claude-sonnet-4-5, no limit, order_status + refund"),
        ("checkpoint", "packed: 4 messages"),
        ("message.unknown_part", "user: Look: | unknown hologram, 3 fields"),
        ("unknown_event", "unknown moon_rose, 5 fields"),
        ("tool_execution_result", 'result {"order":"7","status":"shipped"} in 31 ms'),
        ("tool_timeout", "timeout after 20 s, retryable false"),
        ("tool_failure", "failure: the index is being built"),
        ("tool_denied", "denied by moon_phase: not while it is full"),
        ("tool_artifact_reference", "stored as art-1, 48213 bytes"),
        ("text", "Grüße, 世界 \N{PARTY POPPER} \u2028 \x7f"),
        ("data", 'data {"numbers":[0,-1,1.5,1e+21,9007199254740991]}'),
        ("model_retried", "again in 7.5 s after rate_limit (429)"),
        (
            "agent_execution_result.completed",
            "Order 7 was shipped.; tools order_status; 0.001198; user, assistant, tool, assistant; "
            "ticket 4711",
        ),
    ],
)
def test_it_understands_what_python_wrote(name: str, says: str, readings: dict[str, Any]) -> None:
    assert readings[f"{name}.json"]["says"] == says
