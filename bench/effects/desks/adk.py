"""Google's Agent Development Kit, with its sessions in SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.adk.tools import FunctionTool
from google.genai import types
from pydantic import PrivateAttr

from bench.effects.play import Play

PACKAGES = ("google-adk",)


class Scripted(BaseLlm):
    """Plays the script."""

    model: str = "scripted"
    _play: Play = PrivateAttr()

    async def generate_content_async(
        self, llm_request: Any, *_: Any, **__: Any
    ) -> AsyncGenerator[LlmResponse, None]:
        for content in llm_request.contents:
            for part in content.parts or ():
                if part.function_response:
                    self._play.read(part.function_response.id, part.function_response.response)
        calls = [
            types.Part(
                function_call=types.FunctionCall(
                    id=one.id, name=self._play.tool, args=one.arguments
                )
            )
            for one in self._play.next()
        ]
        parts = calls or [types.Part(text="done")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def say_error(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
    """What the model reads of an exception. Without it, the exception ends the run."""
    return {"error": str(error)}


def tool_of(refund: Callable[..., Any]) -> Any:
    """The function as a tool."""
    return FunctionTool(refund)


def schema_of(refund: Callable[..., Any]) -> Any:
    """What the model reads of the tool."""
    return tool_of(refund)._get_declaration().model_dump()


def talk(refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
    """One run of the agent."""
    asyncio.run(_talk(refund, play, session, folder))


async def _talk(refund: Callable[..., Any], play: Play, session: str, folder: Path) -> None:
    model = Scripted()
    model._play = play
    agent = LlmAgent(
        name="clerk", model=model, tools=[tool_of(refund)], on_tool_error_callback=say_error
    )
    service = DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'adk.db'}")
    who = {"user_id": "ann", "session_id": session}
    if await service.get_session(app_name="desk", **who) is None:
        await service.create_session(app_name="desk", **who)
    runner = Runner(app_name="desk", agent=agent, session_service=service)
    asked = types.Content(role="user", parts=[types.Part(text="Refund order 7.")])
    async for _ in runner.run_async(new_message=asked, **who):
        pass
    await runner.close()
