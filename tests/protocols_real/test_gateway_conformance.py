"""MCP's conformance suites through a gateway: what passes without it passes through it.

The scenarios for clients that begin with ``auth/`` are left out: a gateway has the credentials of
its servers from its file, and its clients have none.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.protocols_real.node import needs_node
from tests.protocols_real.test_mcp_conformance import said_by

pytestmark = needs_node
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOR_CLIENTS = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
# What the suite says of itself in its checks, and no verdict.
_NO_VERDICT = "INFO"


@asynccontextmanager
async def serving(*words: str, port: int) -> AsyncGenerator[str]:
    """A program that serves on a port; gives its address once it does."""
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT)
    try:
        while True:
            assert process.returncode is None, words
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.05)
        yield f"http://localhost:{port}/mcp"
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def verdicts_in(folder: Path) -> dict[str, Counter[str]]:
    """How often each scenario's checks had which verdict."""
    found: dict[str, Counter[str]] = {}
    for file in folder.glob("*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\dZ-]+$", "", file.parent.name)
        checks = json.loads(file.read_text())
        found[scenario] = Counter(one["status"] for one in checks)
        del found[scenario][_NO_VERDICT]
    return found


async def test_the_suite_for_servers_finds_a_gateway_as_good_as_its_server(tmp_path: Path) -> None:
    file, port, own = tmp_path / "desk.yml", free_port(), free_port()
    async with serving(str(HERE / "suite_server.py"), str(port), port=port) as url:
        # JSON is YAML too.
        terms = {"default": "read", "servers": {"suite": {"url": url}}}
        file.write_text(json.dumps({"journal": str(tmp_path / "gateway.db"), **terms}))
        words = ("-m", "upshot", "gateway", str(file), "--port", str(own))
        async with serving(*words, port=own) as through:
            found: list[dict[str, Counter[str]]] = []
            for place, one in (("direct", url), ("through", through)):
                folder = tmp_path / place
                said = await said_by("server", "--suite", "all", "--url", one, "-o", str(folder))
                found.append(verdicts_in(folder))
                print(f"{place}: {said.rstrip().splitlines()[-1]}")
    direct, gateway = found
    assert len(direct) >= 32 and not any(one["FAILURE"] for one in direct.values()), direct
    assert gateway == direct


@pytest.mark.parametrize("scenario", FOR_CLIENTS)
async def test_the_suite_for_clients_finds_no_gateway(scenario: str, tmp_path: Path) -> None:
    found: list[dict[str, Counter[str]]] = []
    for option in ("", "--gateway"):
        words = [sys.executable, str(HERE / "suite_client.py"), *option.split()]
        folder = tmp_path / f"results{option}"
        options = ("--scenario", scenario, "-o", str(folder))
        said = await said_by("client", "--command", shlex.join(words), *options)
        found.append(verdicts_in(folder))
        assert found[-1], said
    direct, gateway = found
    assert direct[scenario]["SUCCESS"] and not direct[scenario]["FAILURE"], direct
    assert gateway == direct
