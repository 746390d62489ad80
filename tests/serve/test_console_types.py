"""The console's script reads only fields that its API sends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.schema.node import COMPILER, find_node
from tests.serve.console_types import SCRIPT, write_project


def check(folder: Path, script: Path = SCRIPT) -> str:
    """What the TypeScript compiler says of a script and all that it imports; "" is nothing."""
    node = find_node()
    if node is None or not COMPILER.is_file():
        pytest.skip("Node or TypeScript is absent: the console's script is not checked by types")
    project = write_project(folder, script)
    command = [node, str(COMPILER), "--project", str(project), "--pretty", "false"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    return done.stdout + done.stderr


def test_the_script_reads_only_fields_that_the_api_sends(tmp_path: Path) -> None:
    assert check(tmp_path) == ""


@pytest.mark.slow
def test_a_field_that_no_reply_has_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "odd.js"
    script.write_text(
        '/** @import { ConversationSummary } from "api" */\n'
        "/** @param {ConversationSummary} one */\n"
        "export const line = (one) => `${one.title} ${one.turns}`;\n"
    )
    said = check(tmp_path, script)
    assert "'turns' does not exist on type 'ConversationSummary'" in said and "title" not in said
