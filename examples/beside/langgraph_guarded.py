"""The same support desk, whose refunds are kept in a journal and made once."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from upshot import tool
from upshot.guard import guard

Bank = Callable[[int], Awaitable[None]]


def make_graph(model: BaseChatModel, bank: Bank, folder: Path, saver: AsyncSqliteSaver) -> Any:
    @tool(effect="write")
    async def refund(order: int) -> str:
        """Give the money for an order back."""
        await bank(order)
        return f"Order {order} is refunded."

    tools = guard([refund], journal=folder / "desk.db")
    return create_agent(model, tools.for_langchain(), checkpointer=saver)


async def serve(model: BaseChatModel, bank: Bank, folder: Path, asked: str) -> str:
    """Do what the user asked, or go on with it."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
        graph = make_graph(model, bank, folder, saver)
        config = {"configurable": {"thread_id": folder.name}}
        begun = (await graph.aget_state(config)).values
        first = None if begun else {"messages": [("user", asked)]}
        state = await graph.ainvoke(first, config)
    return state["messages"][-1].content
