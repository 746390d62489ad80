"""Strands Agents, with its sessions in files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from bench.effects.play import Play

PACKAGES = ("strands-agents",)


class Scripted(Model):
    """Plays the script."""

    def __init__(self, play: Play) -> None:
        self.play = play

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        for message in messages:
            for part in message["content"]:
                if "toolResult" in part:
                    result = part["toolResult"]
                    self.play.read(result["toolUseId"], json.dumps(result["content"]))
        yield {"messageStart": {"role": "assistant"}}
        calls = self.play.next()
        for one in calls:
            start = {"toolUse": {"name": self.play.tool, "toolUseId": one.id}}
            delta = {"toolUse": {"input": json.dumps(one.arguments)}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool."""
    return tool(refund)


def schema_of(refund: Callable[..., Any]) -> Any:
    """What the model reads of the tool."""
    return tool_of(refund).tool_spec


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""
    kept = FileSessionManager(session_id=session, storage_dir=str(folder / "strands"))
    agent = Agent(
        model=Scripted(play),
        tools=[tool_of(refund)],
        session_manager=kept,
        agent_id="clerk",
        callback_handler=None,
    )
    agent("Refund order 7.")
