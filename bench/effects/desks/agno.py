"""Agno, with its sessions in SQLite."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("AGNO_TELEMETRY", "false")

from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools import tool

from bench.effects.play import Play

PACKAGES = ("agno",)


@dataclass
class Scripted(Model):
    """Plays the script."""

    id: str = "scripted"
    play: Any = None

    def invoke(self, messages: Any = (), **_: Any) -> ModelResponse:
        for message in messages:
            if message.role == "tool":
                self.play.read(message.tool_call_id, message.content)
        calls = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": self.play.tool, "arguments": json.dumps(one.arguments)},
            }
            for one in self.play.next()
        ]
        if calls:
            return ModelResponse(role="assistant", tool_calls=calls)
        return ModelResponse(role="assistant", content="done")

    async def ainvoke(self, *given: Any, **options: Any) -> ModelResponse:
        return self.invoke(*given, **options)

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool."""
    return tool(refund)


def schema_of(refund: Callable[..., Any]) -> Any:
    """What the model reads of the tool."""
    made = tool_of(refund)
    made.process_entrypoint()
    return made.to_dict()


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""
    agent = Agent(
        model=Scripted(play=play),
        tools=[tool_of(refund)],
        db=SqliteDb(db_file=str(folder / "agno.db")),
        add_history_to_context=True,
        telemetry=False,
    )
    agent.run("Refund order 7.", session_id=session)
