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
        agent: An ``Agent`` of Pydantic AI; a compiled graph of LangGraph, such as an agent of
            LangChain; or a function that makes such a graph of the run's tools, as a list of
            LangChain's, which a graph can have in no other way.
        reads: The names of the agent's own tools that only read, so that a call that was cut off
            may be made again. All others count as tools that write.
        prices: What the agent's models cost, by "provider:model", before the public table; None
            is that table alone.

    Raises:
        Misuse: It is none of these, or its library is too old.
    """
    if _is_of(agent, "pydantic_ai", "AbstractAgent"):
        from upshot.adapters.pydantic_ai_engine import PydanticAIEngine

        return PydanticAIEngine(agent, reads=reads, prices=prices)
    is_factory = callable(agent) and not isinstance(agent, type)
    if _is_of(agent, "langgraph", "Pregel") or is_factory:
        from upshot.adapters.langgraph_engine import LangGraphEngine

        return LangGraphEngine(agent, reads=reads, prices=prices)
    raise Misuse(
        "as_engine takes an Agent of Pydantic AI, a compiled graph of LangGraph or a function that "
        f"makes one of a list of tools, not {kind_of(agent)}"
    )


def _is_of(value: object, package: str, name: str) -> bool:
    """Whether a class of *value* is *name* of *package*, which is not imported for that."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(value).__mro__
    )
