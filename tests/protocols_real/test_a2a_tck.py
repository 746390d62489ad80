"""The compatibility kit of A2A (its branch 1.0-dev, level must) against /a2a.

It is in no registry. ``UPSHOT_A2A_TCK`` names a checkout of https://github.com/a2aproject/a2a-tck;
it runs with the Python of ``UPSHOT_A2A_TCK_PYTHON``, by default that of ``.venv`` in the checkout.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.serve.kit import served
from upshot import Agent, App, Board, Message, Run, RunHost, ScriptEngine
from upshot.contract import Data, File, Part, Text
from upshot.serve import User

FOLDER = os.environ.get("UPSHOT_A2A_TCK", "")
# The id of a message says what the agent is to do, in the words of the kit's scenarios.
ARTIFACTS: dict[str, Part] = {
    "tck-artifact-text": Text("Generated text content"),
    "tck-artifact-file-url": File(
        name="output.txt", url="https://example.com/output.txt", media_type="text/plain"
    ),
    "tck-artifact-file": File(name="output.txt", data=b"text", media_type="text/plain"),
    "tck-artifact-data": Data({"key": "value", "count": 42}),
}
# What fails, and why it is none of ours.
KNOWN = {
    # It says that the error must come, and counts each error as a failure: the requirement has no
    # ``expected_error``. The answer is the error that it names.
    "test_requirements.py::test_must_requirement[CORE-SEND-003-jsonrpc]",
    # It wants a message in place of a task; here each message begins a task, as is allowed.
    "test_artifacts.py::TestMessageResponse::test_returns_message_with_text_part[jsonrpc]",
}


async def play(run: Run, host: RunHost, board: Board) -> str:
    id = str(board.messages()[-1].metadata.get("message_id", ""))
    for prefix, part in ARTIFACTS.items():
        if id.startswith(prefix):
            board.append(Message("assistant", [part]), "made")
            break
    if id.startswith("tck-input-required"):
        number = 0
        # Some tests send more than one message to the task.
        while str(await host.ask_user("What next?", key=f"q{number}")).startswith("TCK history"):
            number += 1
    return "Hello from TCK"


@pytest.mark.skipif(not FOLDER, reason="UPSHOT_A2A_TCK names no checkout of a2a-tck")
async def test_what_the_protocol_demands_is_there() -> None:
    agent = Agent("tck", engine=ScriptEngine(play), artifacts=["made"])
    python = os.environ.get("UPSHOT_A2A_TCK_PYTHON") or str(Path(FOLDER, ".venv/bin/python"))
    async with served(App([agent], journal="memory:"), user=lambda request: User("ann")) as site:
        process = await asyncio.create_subprocess_exec(
            python,
            "run_tck.py",
            "--sut-host",
            site.url.replace("127.0.0.1", "localhost"),
            *("--transport", "jsonrpc", "--level", "must"),
            cwd=FOLDER,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said = (await process.communicate())[0].decode()
    last = said.rstrip().splitlines()[-1]
    print(last)
    failed = re.findall(r"^(?:FAILED|ERROR) \S*/(\S+)", said, re.M)
    assert " passed" in last, said
    assert set(failed) <= KNOWN, said
