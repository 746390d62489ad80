"""What an agent says of itself to others, in A2A's terms."""

from __future__ import annotations

from .value import Root, Value, freeze

__all__ = ["AgentCapabilities", "AgentCard", "Skill"]


class AgentCapabilities(Value, frozen=True, kw_only=True):
    """What a served agent can do.

    Attributes:
        streaming: Whether it sends events while it works.
        push_notifications: Whether it calls back.
        state_transition_history: Whether it tells past states.
    """

    streaming: bool = False
    push_notifications: bool = False
    state_transition_history: bool = False


class Skill(Value, frozen=True, kw_only=True):
    """One thing that an agent can do.

    Attributes:
        id: Unique among the agent's skills.
        name: For people.
        description: For people and models.
        tags: Words to find it by.
        examples: Requests that it serves.
        input_modes: Media types it takes; empty is the card's.
        output_modes: Media types it gives; empty is the card's.
    """

    id: str = ""
    name: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    input_modes: tuple[str, ...] = ()
    output_modes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "tags", "examples", "input_modes", "output_modes")


class AgentCard(Root, frozen=True, kw_only=True):
    """An agent's business card; address, version and keys belong to serving.

    Attributes:
        name: For people.
        description: What the agent is for.
        skills: What it can do.
        default_input_modes: Media types it takes.
        default_output_modes: Media types it gives.
        capabilities: What it can do when served.
    """

    name: str = ""
    description: str = ""
    skills: tuple[Skill, ...] = ()
    default_input_modes: tuple[str, ...] = ("text/plain",)
    default_output_modes: tuple[str, ...] = ("text/plain",)
    capabilities: AgentCapabilities = AgentCapabilities()

    def __post_init__(self) -> None:
        freeze(self, "skills", "default_input_modes", "default_output_modes")
