"""``mcp_client.py URL``: a run with the tools of an MCP server, for the suite's client scenarios.

The suite names the scenario in the environment, with what it needs beside the address. What the
suite lacks is an agent: a script says which tools it calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx2

from upshot import Agent, OAuth, PendingQuestion, ScriptedModel, ToolCall, open_mcp, run

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
SPACE = "suite"


def calls_for(tools: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that the scenario waits for, by the server's own names."""
    if "toolCalls" in CONTEXT:
        return [(one["name"], one.get("arguments") or {}) for one in CONTEXT["toolCalls"]]
    if SCENARIO.startswith("sep-2640-client-verify"):
        skill = "pdf-processing"
        # The second file is not to be fetched either, whatever a model asks for.
        others = ({"skill": skill}, {"skill": skill, "file": "references/FORMS.md"})
        return [("read_skill", given) for given in others]
    if SCENARIO == "sep-2640-client-no-prefetch":
        return []
    names = [tool.name.removeprefix(f"{SPACE}_") for tool in tools]
    if SCENARIO == "json-schema-2020-12-preservation":
        listed = tools["json_schema_2020_12_tool"].parameters
        return [("json_schema_echo", {"schema": listed})]
    if "add_numbers" in names:
        return [("add_numbers", {"a": 5, "b": 3})]
    return [(name, stub_of(tools[name].parameters)) for name in names]


def stub_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with a value for each required field."""
    values: dict[str, Any] = {"string": "x", "integer": 0, "number": 0, "boolean": False}
    fields = schema.get("properties", {})
    return {name: values.get(fields[name].get("type"), {}) for name in schema.get("required", ())}


async def sign_in(address: str) -> str:
    """Return where the suite's authorization server sends a browser back to."""
    async with httpx2.AsyncClient() as http:
        return (await http.get(address)).headers["location"]


async def with_id_token(audience: str, resource: str) -> str:
    """Exchange the user's token for a grant, at the identity provider of the company."""
    kind = "urn:ietf:params:oauth:token-type"
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": f"{kind}:id-jag",
        "subject_token": CONTEXT["idp_id_token"],
        "subject_token_type": f"{kind}:id_token",
        "audience": audience,
        "resource": resource,
        "client_id": CONTEXT["idp_client_id"],
    }
    async with httpx2.AsyncClient() as http:
        answer = await http.post(CONTEXT["idp_token_endpoint"], data=form)
    return answer.raise_for_status().json()["access_token"]


async def workload_identity(audience: str, resource: str) -> str:
    return CONTEXT["valid_jwt"]


async def issuer_of(url: str) -> str:
    """Return what a company would have in its settings."""
    place = httpx2.URL(url)
    async with httpx2.AsyncClient() as http:
        found = await http.get(
            place.copy_with(path=f"/.well-known/oauth-protected-resource{place.path}")
        )
    return found.json()["authorization_servers"][0]


async def auth_for(url: str) -> OAuth | None:
    """Return how the scenario's client authorises itself."""
    client_id, secret = CONTEXT.get("client_id", ""), CONTEXT.get("client_secret", "")
    match SCENARIO.removeprefix("auth/"):
        case "client-credentials-jwt":
            return OAuth(
                grant="client_credentials",
                client_id=client_id,
                private_key=CONTEXT["private_key_pem"],
                signing_algorithm=CONTEXT.get("signing_algorithm", "ES256"),
            )
        case "client-credentials-basic":
            return OAuth(grant="client_credentials", client_id=client_id, client_secret=secret)
        case "enterprise-managed-authorization":
            return OAuth(
                grant="jwt_bearer",
                client_id=client_id,
                client_secret=secret,
                issuer=await issuer_of(url),
                assertion=with_id_token,
            )
        case "wif-jwt-bearer":
            return OAuth(grant="jwt_bearer", client_id=client_id, assertion=workload_identity)
        case _ if SCENARIO.startswith("auth/"):
            return OAuth(
                client_id=client_id,
                client_secret=secret,
                redirect=sign_in,
                redirect_uri="http://localhost:3000/callback",
                client_metadata_url="https://conformance-test.local/client-metadata.json",
                dpop="dpop" in SCENARIO,
            )
        case _:
            return None


def fill_in(question: PendingQuestion) -> Any:
    """Accept a form with its defaults, or confirm."""
    schema: Any = question.schema or {}
    confirms = "confirmed" in schema.get("properties", {})
    return {"confirmed": True} if confirms else "accept"


async def play(url: str) -> None:
    options: Any = {"auth": await auth_for(url), "elicit": fill_in, "sampling": True}
    async with open_mcp(SPACE, url=url, roots=["."], skills=True, **options) as tools:
        if SCENARIO == "http-standard-headers":
            for one in await tools.resources():
                await tools.resource(str(one["uri"]))
            for one in await tools.prompts():
                await tools.prompt(str(one["name"]))
        script: list[Any] = [
            ToolCall(f"c{number}", f"{SPACE}_{name}", arguments)
            for number, (name, arguments) in enumerate(calls_for(tools))
        ]
        model = ScriptedModel([*script, "Done."])
        result = await run(Agent("client", model=model, tools=[tools]), "Call its tools.")
        print(result.status, result.content)


if __name__ == "__main__":
    asyncio.run(play(sys.argv[-1]))
