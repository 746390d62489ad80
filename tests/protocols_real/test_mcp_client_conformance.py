"""The client scenarios of MCP's conformance suite, played by runs with ``open_mcp``."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.protocols_real.node import NODE, PACKAGES, needs_node

SUITE = PACKAGES / "mcp-conformance" / "dist" / "index.js"
HERE = Path(__file__).parent
SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sep-2322-client-request-state",
    "sse-retry",
    "request-metadata",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
)
# What the suite says of itself, and what a client of this version does not send.
_NO_VERDICT = {"INFO", "SKIPPED"}
_TIMEOUT_MS = 180_000


async def said_by(*words: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        NODE, str(SUITE), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@needs_node
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_of_the_suite(scenario: str, tmp_path: Path) -> None:
    client = shlex.join([sys.executable, str(HERE / "mcp_client.py")])
    options = ["--timeout", str(_TIMEOUT_MS), "-o", str(tmp_path)]
    code, said = await said_by("client", "--command", client, "--scenario", scenario, *options)
    (checks,) = tmp_path.glob("**/checks.json")
    found = {one["status"] for one in json.loads(checks.read_text())} - _NO_VERDICT
    assert found == {"SUCCESS"}, said
    assert code == 0, said


@needs_node
async def test_each_scenario_of_the_suite_is_tried() -> None:
    _, listed = await said_by("list", "--client")
    there = {line.split()[1] for line in listed.splitlines() if line.startswith("  - ")}
    assert there == {*SCENARIOS}
