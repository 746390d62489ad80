"""The OpenAI Agents SDK, with its SQLite session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.tracing import set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.effects.play import Play

PACKAGES = ("openai-agents",)
set_tracing_disabled(True)


class Scripted(Model):
    """Plays the script."""

    def __init__(self, play: Play) -> None:
        self.play = play

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        for item in input if isinstance(input, list) else ():
            if item.get("type") == "function_call_output":
                self.play.read(item["call_id"], item["output"])
        output: list[Any] = [
            ResponseFunctionToolCall(
                call_id=one.id,
                name=self.play.tool,
                arguments=json.dumps(one.arguments),
                type="function_call",
            )
            for one in self.play.next()
        ]
        part = ResponseOutputText(text="done", type="output_text", annotations=[])
        said = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[part]
        )
        return ModelResponse(output=output or [said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool. By default the model does not see the text of an exception."""
    return function_tool(refund, failure_error_function=lambda _, error: str(error))


def schema_of(refund: Callable[..., Any]) -> Any:
    """What the model reads of the tool."""
    made = tool_of(refund)
    return made.name, made.description, made.params_json_schema


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""
    agent = Agent(name="clerk", model=Scripted(play), tools=[tool_of(refund)])
    kept = SQLiteSession(session, folder / "openai.db")
    asyncio.run(Runner.run(agent, "Refund order 7.", session=kept, max_turns=20))
