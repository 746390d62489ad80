"""The conformance suite of the Model Context Protocol against /mcp.

The client of the protocol's own package is in ``tests/serve/doors/test_mcp.py``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.protocols_real.node import NODE, PACKAGES, needs_node
from tests.serve.doors.asking import pay
from tests.serve.kit import served
from upshot import Agent, App, ScriptedModel, ToolCall
from upshot.serve import User

SUITE = PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    # An agent that is called without the message that it needs.
    "tools-call-error",
    "tools-call-elicitation",
    "server-sse-polling",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
# The others, and why each does not apply.
OTHERS = {
    "its tool is called without arguments, and an agent needs a message": (
        "tools-call-simple-text",
        "tools-call-with-progress",
    ),
    "the result of an agent is text and structured content": (
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
    ),
    "its tool asks what no agent asks: samples, logs, defaults and kinds of fields, a schema": (
        "tools-call-sampling",
        "tools-call-with-logging",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "json-schema-2020-12",
    ),
    "there are tools alone, and the capability is not declared": (
        "logging-set-level",
        "completion-complete",
        "resources-list",
        "resources-read-text",
        "resources-read-binary",
        "resources-templates-read",
        "resources-subscribe",
        "resources-unsubscribe",
        "prompts-list",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-embedded-resource",
        "prompts-get-with-image",
    ),
}


def app() -> App:
    pays = [ToolCall("p", "pay", {"order": 1}), "Paid."]
    return App(
        [
            Agent("test_elicitation", model=ScriptedModel(pays * 9), tools=[pay]),
            Agent("test_error_handling", model=ScriptedModel(["Fine."] * 9)),
        ],
        journal="memory:",
    )


async def said_by(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        NODE, str(SUITE), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return said.decode()


@needs_node
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_of_the_suite(scenario: str, tmp_path: Path) -> None:
    async with served(app(), user=lambda request: User("ann")) as site:
        url = site.url.replace("127.0.0.1", "localhost")
        place = ["--url", f"{url}/mcp", "--scenario", scenario, "-o", str(tmp_path)]
        said = await said_by("server", *place)
    (checks,) = tmp_path.glob("**/checks.json")
    found = json.loads(checks.read_text())
    assert found, said
    assert not [one for one in found if one["status"] == "FAILURE"], said
    if scenario != "server-sse-polling":
        # What may be missing there is that the server ends streams of its own to be polled.
        assert {one["status"] for one in found} == {"SUCCESS"}, said


@needs_node
async def test_each_scenario_of_the_suite_is_tried_or_said_not_to_apply() -> None:
    listed, _, _ = (await said_by("list")).partition("Client scenarios")
    there = {line.split()[1] for line in listed.splitlines() if line.startswith("  - ")}
    assert there == {*SCENARIOS, *(name for names in OTHERS.values() for name in names)}
