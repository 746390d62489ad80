"""The same support desk, whose refunds are kept in a journal and made once."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.models import Model

from upshot import tool
from upshot.guard import guard

Bank = Callable[[int], Awaitable[None]]


def make_agent(model: Model, bank: Bank, folder: Path) -> Agent:
    @tool(effect="write")
    async def refund(order: int) -> str:
        """Give the money for an order back."""
        await bank(order)
        return f"Order {order} is refunded."

    tools = guard([refund], journal=folder / "desk.db", run_id=folder.name)
    return Agent(model, tools=tools.for_pydantic_ai())


async def serve(model: Model, bank: Bank, folder: Path, asked: str) -> str:
    """Do what the user asked, or go on with it."""
    agent, kept = make_agent(model, bank, folder), folder / "messages.json"
    history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else None
    async with agent.iter(None if history else asked, message_history=history) as run:
        async for _ in run:
            new = kept.with_suffix(".new")
            new.write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
            new.replace(kept)
    assert run.result is not None
    return run.result.output
