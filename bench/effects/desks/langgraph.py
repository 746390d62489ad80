"""LangGraph, by LangChain's ``create_agent``, with a checkpointer in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from bench.effects.play import Play

PACKAGES = ("langgraph", "langchain", "langgraph-checkpoint-sqlite")


class Scripted(BaseChatModel):
    """Plays the script."""

    play: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        for message in messages:
            if isinstance(message, ToolMessage):
                self.play.read(message.tool_call_id, message.text)
        calls = [
            {"name": self.play.tool, "args": one.arguments, "id": one.id}
            for one in self.play.next()
        ]
        said = AIMessage("" if calls else "done", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


@wrap_tool_call
def say_error(request: Any, handler: Any) -> Any:
    """Return a tool's exception to the model, as the documents say; otherwise the graph fails."""
    try:
        return handler(request)
    except OSError as error:
        text = f"Tool error: {error}"
        return ToolMessage(text, tool_call_id=request.tool_call["id"], status="error")


@contextmanager
def sqlite(folder: Path) -> Iterator[Any]:
    """The checkpointer in a file."""
    with SqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
        yield saver


class LangGraph:
    """The desk, with one of the checkpointers."""

    def __init__(self, saver: Callable[[Path], Any], packages: tuple[str, ...]) -> None:
        self.PACKAGES = packages
        self._saver = saver

    @contextmanager
    def _graph(
        self, refund: Callable[..., Any], play: Play, folder: Path, *middleware: Any
    ) -> Iterator[Any]:
        with self._saver(folder) as saver:
            yield create_agent(
                Scripted(play=play),
                [tool(refund)],
                checkpointer=saver,
                middleware=[say_error, *middleware],
            )

    def talk(self, refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
        """One turn of the thread."""
        with self._graph(refund, play, folder) as graph:
            asked = {"messages": [("user", "Refund order 7.")]}
            graph.invoke(asked, {"configurable": {"thread_id": session}}, durability="sync")

    def resume(self, refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
        """Resume from the last checkpoint."""
        with self._graph(refund, play, folder) as graph:
            graph.invoke(None, {"configurable": {"thread_id": session}})

    def fork(self, refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
        """Resume from the checkpoint before the model was called."""
        with self._graph(refund, play, folder) as graph:
            history = graph.get_state_history({"configurable": {"thread_id": session}})
            before = [one for one in history if one.next == ("model",)][-1]
            graph.invoke(None, before.config)

    def edit(self, refund: Callable[..., Any], play: Play, *, session: str, folder: Path) -> None:
        """The model asks for order 8, and a person answers: yes, but order 7."""
        asks = HumanInTheLoopMiddleware(interrupt_on={"refund": True})
        with self._graph(refund, play, folder, asks) as graph:
            where = {"configurable": {"thread_id": session}}
            graph.invoke({"messages": [("user", "Refund order 8.")]}, where)
            action = {"name": "refund", "args": {"order_id": "7", "cents": 900}}
            said = {"decisions": [{"type": "edit", "edited_action": action}]}
            graph.invoke(Command(resume=said), where)


DESK = LangGraph(sqlite, PACKAGES)
