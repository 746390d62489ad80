"""``as_engine``: an agent of another library as the engine of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from upshot.contract.base.checks import kind_of
from upshot.contract.protocols import Engine
from upshot.errors import Misuse
from upshot.models.prices import Prices
from upshot.wire.pricing import Price


def as_engine(
    agent: object,
    *,
    reads: Collection[str] = (),
    prices: Prices | Mapping[str, Price] | None = None,
) -> Engine:
    """Make an engine of an agent of another library: ``Agent("desk", engine=as_engine(theirs))``.

    Args:
        agent: An agent of Pydantic AI, the OpenAI Agents SDK or Google's Agent Development Kit; a
            compiled graph of LangGraph, such as an agent of LangChain; or a function that makes
            such a graph from the run's tools, a list of LangChain tools. A graph can get the run's
            tools in no other way.
        reads: The names of the agent's own tools that only read, so that an interrupted call may be
            repeated. All others count as tools that write.
        prices: The prices of the agent's models, by "provider:model"; they win over the public
            table. None uses that table alone.

    Raises:
        Misuse: It is none of these, or its library is too old.
    """
    if _is_of(agent, "pydantic_ai", "AbstractAgent"):
        from upshot.adapters.pydantic_ai_engine import PydanticAIEngine

        return PydanticAIEngine(agent, reads=reads, prices=prices)
    if _is_of(agent, "agents", "Agent"):
        from upshot.adapters.openai_agents_engine import OpenAIAgentsEngine

        return OpenAIAgentsEngine(agent, reads=reads, prices=prices)
    if _is_of(agent, "google", "BaseAgent"):
        from upshot.adapters.adk_engine import ADKEngine

        return ADKEngine(agent, reads=reads, prices=prices)
    is_factory = callable(agent) and not isinstance(agent, type)
    if _is_of(agent, "langgraph", "Pregel") or is_factory:
        from upshot.adapters.langgraph_engine import LangGraphEngine

        return LangGraphEngine(agent, reads=reads, prices=prices)
    raise Misuse(
        "as_engine takes an agent of Pydantic AI, OpenAI Agents or ADK, a graph of LangGraph, "
        f"or a function that makes one of a list of tools, not {kind_of(agent)}"
    )


def _is_of(value: object, package: str, name: str) -> bool:
    """Whether a class of *value* is *name* of *package*; does not import the package."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(value).__mro__
    )
