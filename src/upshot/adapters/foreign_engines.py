"""``as_engine``: an agent of another library as the engine of a run."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any, Final

from upshot.contract.base.checks import kind_of
from upshot.contract.protocols import Engine
from upshot.errors import Misuse
from upshot.models.prices import Prices
from upshot.wire.pricing import Price

# Libraries whose agents are driven: the package, a class, and the engine.
_DRIVEN: Final = (
    ("pydantic_ai", "AbstractAgent", "pydantic_ai_engine", "PydanticAIEngine"),
    ("agents", "Agent", "openai_agents_engine", "OpenAIAgentsEngine"),
    ("google", "BaseAgent", "adk_engine", "ADKEngine"),
    ("agno", "Agent", "agno_engine", "AgnoEngine"),
    ("agent_framework", "RawAgent", "agent_framework_engine", "AgentFrameworkEngine"),
    ("claude_agent_sdk", "ClaudeAgentOptions", "claude_agent_engine", "ClaudeAgentEngine"),
    ("crewai", "Agent", "crewai_engine", "CrewAIEngine"),
    ("smolagents", "MultiStepAgent", "smolagents_engine", "SmolagentsEngine"),
    ("langgraph", "Pregel", "langgraph_engine", "LangGraphEngine"),
)
# Libraries whose agents are read and not driven: the package, a class, its adapter, and why.
_UNDRIVEN: Final = (
    ("claude_agent_sdk", "ClaudeSDKClient", "from_claude_agent_sdk", "it runs already"),
    ("crewai", "Crew", "from_crewai", "each of its tasks has its own prompt and agent"),
)


def as_engine(
    agent: object,
    *,
    reads: Collection[str] = (),
    prices: Prices | Mapping[str, Price] | None = None,
) -> Engine:
    """Make an engine of an agent of another library: ``Agent("desk", engine=as_engine(theirs))``.

    Args:
        agent: An agent of Pydantic AI, the OpenAI Agents SDK, Google's Agent Development Kit, Agno,
            Microsoft Agent Framework, CrewAI or smolagents; the options of the Claude Agent SDK; a
            function without parameters that makes an agent of Strands; a compiled graph of
            LangGraph, such as an agent of LangChain; or a function that makes such a graph from the
            run's tools, a list of LangChain tools. A graph can get the run's tools in no other way.
        reads: The names of the agent's own tools that only read, so that an interrupted call may be
            repeated. All others count as tools that write.
        prices: The prices of the agent's models, by "provider:model"; they win over the public
            table. None uses that table alone.

    Raises:
        Misuse: It is none of these, or its library is too old.
    """
    for package, kind, adapter, why in _UNDRIVEN:
        if _is_of(agent, package, kind):
            raise Misuse(
                f"as_engine cannot drive {kind_of(agent)} of {package}, because {why}: run it in a "
                f"ScriptEngine, and return {adapter}(...)"
            )
    for package, kind, module, name in _DRIVEN:
        if _is_of(agent, package, kind):
            return _make(module, name, agent, reads=reads, prices=prices)
    if _is_of(agent, "strands", "Agent"):
        raise Misuse(
            "an agent of Strands keeps its conversation, so each run needs one of its own: give "
            "as_engine(make) a function without parameters that makes the agent"
        )
    if _makes_agents(agent):
        return _make("strands_engine", "StrandsEngine", agent, reads=reads, prices=prices)
    if callable(agent) and not isinstance(agent, type):
        return _make("langgraph_engine", "LangGraphEngine", agent, reads=reads, prices=prices)
    raise Misuse(
        "as_engine takes an agent of Pydantic AI, OpenAI Agents, ADK, Agno, Agent Framework, "
        "CrewAI or smolagents, options of the Claude Agent SDK, a graph of LangGraph or a function "
        f"that makes one of tools, or one that makes an agent of Strands, not {kind_of(agent)}"
    )


def _make(module: str, name: str, agent: object, **options: Any) -> Engine:
    """Make the engine *name* of a *module*, which is imported only when it is used."""
    kind: Any = getattr(import_module(f"upshot.adapters.{module}"), name)
    return kind(agent, **options)


def _makes_agents(value: object) -> bool:
    """Whether *value* is a function without parameters."""
    if not callable(value) or isinstance(value, type):
        return False
    try:
        return not inspect.signature(value).parameters
    except (TypeError, ValueError):
        return False


def _is_of(value: object, package: str, name: str) -> bool:
    """Whether a class of *value* is *name* of *package*; does not import the package."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(value).__mro__
    )
