"""smolagents, whose agents keep nothing between processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from smolagents import Model, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents.monitoring import LogLevel

from bench.effects.play import Play

PACKAGES = ("smolagents",)


class Scripted(Model):
    """Plays the script."""

    def __init__(self, play: Play) -> None:
        super().__init__(model_id="scripted")
        self.play = play
        self.open: list[str] = []

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        # It reads one text for all calls of a reply, with ids made by the agent.
        if self.open:
            text = str(messages[-1].content)
            for one in self.open:
                self.play.read(one, text)
        wanted = self.play.next()
        self.open = [one.id for one in wanted]
        calls = [
            ChatMessageToolCall(
                function=ChatMessageToolCallFunction(name=self.play.tool, arguments=one.arguments),
                id=one.id,
                type="function",
            )
            for one in wanted
        ]
        final = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": "done"})
        end = ChatMessageToolCall(function=final, id="end", type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls or [end])


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool."""
    with warnings.catch_warnings():
        # For a second decorator for remote executors, which copy the source.
        warnings.simplefilter("ignore")
        return tool(refund)


def schema_of(refund: Callable[..., Any]) -> Any:
    """What the model reads of the tool."""
    made = tool_of(refund)
    return made.name, made.description, made.inputs, made.output_type


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""
    agent = ToolCallingAgent(
        tools=[tool_of(refund)], model=Scripted(play), verbosity_level=LogLevel.OFF
    )
    agent.run("Refund order 7.")
