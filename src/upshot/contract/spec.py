"""AgentSpec: an agent in names only, the form in which it can be stored and sent."""

from __future__ import annotations

from .budget import Budget
from .card import AgentCard
from .settings import ModelSettings, Retry
from .value import JsonObject, Root, freeze

__all__ = ["AgentSpec"]


class AgentSpec(Root, frozen=True, kw_only=True):
    """An agent as data: what it has is named, and found again at the run.

    Attributes:
        id: The agent's id.
        name: For people, "" for the id.
        model: "provider:name", "" where none is set.
        instructions: The text; None where there is none or a function makes it.
        tools: Names of its tools in order; None is none of its own and no limit set by it.
        output_schema: JSON Schema of its output, None for text.
        handoffs: Ids of the agents it may hand over to.
        engine: The engine's class name, "" for the default.
        card: What it says of itself.
        budget: Its limits.
        settings: How its model is asked.
        retry: How failed model calls are tried again; None is not at all.
        omitted: Fields of the agent that have no form in names and were left out, among
            instructions, output_type, observers and deciders. A spec without any but observers
            runs; to run it without the others too, set this to ().
    """

    id: str = ""
    name: str = ""
    model: str = ""
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    output_schema: JsonObject | None = None
    handoffs: tuple[str, ...] = ()
    engine: str = ""
    card: AgentCard | None = None
    budget: Budget | None = None
    settings: ModelSettings | None = None
    retry: Retry | None = Retry()
    omitted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "omitted")
