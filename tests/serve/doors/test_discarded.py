"""What deciders did not let pass comes out of no door."""

from __future__ import annotations

from typing import Any

from tests.serve.doors.asking import agents, opened
from tests.serve.doors.test_mcp import client_of
from tests.serve.kit import served
from upshot import Agent, App, Decider, FinalizeDecision, ScriptedModel

A2A = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "SendMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}},
}
UI = {
    "id": "chat",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}],
}
ASKED: list[tuple[str, Any, dict[str, str]]] = [
    ("/a2a/judged", A2A, {"a2a-version": "1.0"}),
    ("/ui/judged", UI, {}),
    ("/v1/responses", {"model": "judged", "input": "Hello"}, {}),
]


class Never(Decider):
    """Lets no answer out."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.discard("it must not be said")


def judged() -> Agent[Any]:
    model = ScriptedModel(["A secret slips."] * len(ASKED))
    return Agent("judged", model=model, deciders=[Never()])


async def test_what_was_discarded_comes_out_of_no_door() -> None:
    app = App([*agents(), judged()], journal="memory:")
    async with served(app) as site:
        cal = site.by("cal")
        for path, body, more in ASKED:
            headers = {**cal.headers, **more}
            asking = site.session.post(site.url + path, json=body, headers=headers)
            async with asking as response:
                text = await response.text()
                assert (response.status, "secret" in text) == (200, False), (path, text)
        _, runs = await site.by("oz").get("/api/runs?agent=judged")
    assert len(runs["runs"]) == len(ASKED)


async def test_nor_out_of_a_tool() -> None:
    async with opened(judged()) as site, client_of(site) as client:
        result = await client.call_tool("judged", {"message": "Hello"})
    assert result.structured_content["status"] == "completed"
    assert "secret" not in str(result) and "not let pass" in str(result.content)
