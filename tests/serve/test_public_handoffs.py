"""What a run tells its user over a public door that hands the request over."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import Agent, App, Decider, ModelResponse, Request, ScriptedModel, ToolCall
from upshot.serve.public import public_events
from upshot.serve.site import working


@pytest.mark.parametrize("deciders", [(), (Decider(),)], ids=["live", "checked"])
async def test_a_request_that_is_handed_over_has_one_end(deciders: Any) -> None:
    over = ModelResponse(content="I ask Bo.", tool_calls=[ToolCall("h", "transfer_to_bo", {})])
    bo = Agent("bo", model=ScriptedModel(["Done."]))
    front = Agent("a", model=ScriptedModel([over, over]), handoffs=[bo], deciders=deciders)
    async with App([front], journal="memory:") as app, working(app):
        handle = await app.submit(front, Request("Go.", run_id="r"))
        events = [one async for one in public_events(app, handle)]
    shown = [one for one in events if one["kind"] in ("message", "end")]
    assert [(one["kind"], one["text"]) for one in shown] == [
        ("message", "I ask Bo."),
        ("message", "Done."),
        ("end", "Done."),
    ]
