"""A support desk on LangGraph that goes on from its checkpoints where its process was killed."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

Bank = Callable[[int], Awaitable[None]]


def make_graph(model: BaseChatModel, bank: Bank, folder: Path, saver: AsyncSqliteSaver) -> Any:
    async def refund(order: int) -> str:
        """Give the money for an order back."""
        await bank(order)
        return f"Order {order} is refunded."

    return create_agent(model, [refund], checkpointer=saver)


async def serve(model: BaseChatModel, bank: Bank, folder: Path, asked: str) -> str:
    """Do what the user asked, or go on with it."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
        graph = make_graph(model, bank, folder, saver)
        config = {"configurable": {"thread_id": folder.name}}
        begun = (await graph.aget_state(config)).values
        first = None if begun else {"messages": [("user", asked)]}
        state = await graph.ainvoke(first, config)
    return state["messages"][-1].content
