"""CrewAI, one task of one agent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true")
os.environ.update(CREWAI_TRACING_ENABLED="false", CREWAI_TESTING="true")

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool
from pydantic import PrivateAttr

from bench.effects.play import Play

PACKAGES = ("crewai",)


class Scripted(BaseLLM):
    """Plays the script."""

    _play: Play = PrivateAttr()

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        for message in messages:
            if message.get("role") == "tool":
                self._play.read(message["tool_call_id"], message["content"])
        calls = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": self._play.tool, "arguments": json.dumps(one.arguments)},
            }
            for one in self._play.next()
        ]
        return calls or "done"


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool."""
    return tool(refund.__name__)(refund)


def schema_of(refund: Callable[..., Any]) -> Any:
    """What the model reads of the tool."""
    made = tool_of(refund)
    return made.name, made.description, made.args_schema.model_json_schema()


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the crew."""
    model = Scripted(model="scripted")
    model._play = play
    agent = Agent(
        role="clerk", goal="Refund.", backstory="A clerk.", llm=model, tools=[tool_of(refund)]
    )
    task = Task(description="Refund order 7.", expected_output="A word.", agent=agent)
    Crew(agents=[agent], tasks=[task]).kickoff()
