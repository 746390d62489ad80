"""Pydantic AI, with its messages in a file from which a run is resumed."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    ModelRetry,
    Tool,
    ToolApproved,
)
from pydantic_ai.messages import (
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel

from bench.effects.play import Play

PACKAGES = ("pydantic-ai-slim",)


def model_of(play: Play) -> FunctionModel:
    """A model that plays the script."""

    def reply(messages: Any, info: Any) -> ModelResponse:
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    play.read(part.tool_call_id, part.model_response_str())
                elif isinstance(part, RetryPromptPart):
                    play.read(part.tool_call_id, part.model_response())
        calls = [ToolCallPart(play.tool, one.arguments, one.id) for one in play.next()]
        return ModelResponse(parts=calls or [TextPart("done")])

    return FunctionModel(reply)


def retried(refund: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function so that the model sees its failures, as the documents say."""

    @functools.wraps(refund)
    def tool(**arguments: Any) -> Any:
        try:
            return refund(**arguments)
        except OSError as error:
            raise ModelRetry(str(error)) from error

    return tool


def tools_of(refund: Callable[..., Any], folder: Path, session: str, *, asks: bool) -> list[Any]:
    """The tools of the agent."""
    return [Tool(retried(refund), max_retries=3, requires_approval=asks)]


def talk(
    refund: Callable[..., Any],
    play: Play,
    *,
    session: str,
    folder: Path,
    tools: Any = tools_of,
    goes_on: bool = False,
) -> None:
    """One run of the agent, or what is left of one."""
    agent = Agent(model_of(play), tools=tools(refund, folder, session, asks=False))
    kept = folder / f"{session}.messages"
    asyncio.run(_run(agent, kept, None if goes_on else "Refund order 7."))


async def _run(agent: Agent, kept: Path, asked: str | None) -> None:
    history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else None
    async with agent.iter(asked, message_history=history) as run:
        async for _ in run:
            new = kept.with_suffix(".new")
            new.write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
            new.replace(kept)


def resume(
    refund: Callable[..., Any], play: Play, *, session: str, folder: Path, tools: Any = tools_of
) -> None:
    """Resume from the messages."""
    talk(refund, play, session=session, folder=folder, tools=tools, goes_on=True)


def fork(
    refund: Callable[..., Any], play: Play, *, session: str, folder: Path, tools: Any = tools_of
) -> None:
    """Start a new conversation from the first message of another one."""
    messages = ModelMessagesTypeAdapter.validate_json((folder / f"{session}.messages").read_bytes())
    kept = folder / f"{session}-fork.messages"
    kept.write_bytes(ModelMessagesTypeAdapter.dump_json(messages[:1]))
    talk(refund, play, session=f"{session}-fork", folder=folder, tools=tools, goes_on=True)


def edit(
    refund: Callable[..., Any], play: Play, *, session: str, folder: Path, tools: Any = tools_of
) -> None:
    """The model asks for order 8, and a person answers: yes, but order 7."""
    made = tools(refund, folder, session, asks=True)
    output: Any = [str, DeferredToolRequests]
    agent = Agent(model_of(play), tools=made, output_type=output)

    async def work() -> None:
        parked = await agent.run("Refund order 8.")
        yes = ToolApproved(override_args={"order_id": "7", "cents": 900})
        asked = [one.tool_call_id for one in parked.output.approvals]
        answers = DeferredToolResults(approvals=dict.fromkeys(asked, yes))
        await agent.run(message_history=parked.all_messages(), deferred_tool_results=answers)

    asyncio.run(work())
