"""The parts of an agent that can be stored: spec, card, identity of a run, and handoffs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from upshot.contract.base.structs import (
    ArgumentsMeta,
    CheckedMeta,
    JsonObject,
    KeywordMeta,
    Root,
    RunEvent,
    Value,
    check_types,
    freeze,
)
from upshot.contract.settings import Budget, ModelSettings, Retry
from upshot.errors import Misuse


class AgentCapabilities(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """What a served agent can do.

    Attributes:
        streaming: Whether it sends events while it works.
        push_notifications: Whether it calls the client back.
    """

    streaming: bool = False
    push_notifications: bool = False

    def __post_init__(self) -> None:
        check_types(self)


class Skill(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """One thing that an agent can do.

    Attributes:
        id: Unique among the agent's skills.
        name: A name to show to users.
        description: What the skill is, for users and models.
        tags: Keywords for searches.
        examples: Requests that it serves.
        input_modes: Media types it accepts; empty means the default of the card.
        output_modes: Media types it produces; empty means the default of the card.
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
        check_types(self)


class AgentCard(Root, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """What an agent publishes about itself; address, version and keys belong to its server.

    Attributes:
        name: A name to show to users.
        description: What the agent is for.
        skills: What it can do.
        default_input_modes: Media types it accepts.
        default_output_modes: Media types it produces.
        capabilities: What it can do when it is served.
    """

    name: str = ""
    description: str = ""
    skills: tuple[Skill, ...] = ()
    default_input_modes: tuple[str, ...] = ("text/plain",)
    default_output_modes: tuple[str, ...] = ("text/plain",)
    capabilities: AgentCapabilities = AgentCapabilities()

    def __post_init__(self) -> None:
        freeze(self, "skills", "default_input_modes", "default_output_modes")
        check_types(self)


class RunInfo(Value, frozen=True):
    """The identity of a run; the first argument of every hook.

    Attributes:
        agent_id: The agent of the run.
        run_id: The run.
        task_id: The caller's task, "" if none.
        context_id: The conversation, "" if none.
        attributes: Free JSON from the caller, as a copy; it cannot override the other fields.
        resumed: Whether this is a later session of the run.
    """

    agent_id: str = ""
    run_id: str = ""
    task_id: str = ""
    context_id: str = ""
    attributes: JsonObject = {}
    resumed: bool = False


HANDOFF_STATE_KEY = "handoff"
HANDOFF_FINALIZE_REASON = "handoff:"

HandoffFilter: TypeAlias = (
    Callable[[RunInfo, object], Awaitable[bool] | bool]
    | Callable[[RunInfo, object, Any], Awaitable[bool] | bool]
)
HandoffHook: TypeAlias = Callable[[RunInfo, "HandoffEvent"], Awaitable[None] | None]


class HandoffEvent(RunEvent, frozen=True, kw_only=True, tag="handoff"):
    """The model handed the request over.

    Attributes:
        to_agent_id: The agent that gets the request.
        tool_name: The handoff tool that the model called.
        call_id: The id of that call.
        reason: Why, in the model's words.
        note: What the next agent should know, in the model's words.
    """

    to_agent_id: str = ""
    tool_name: str = ""
    call_id: str = ""
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class Handoff(metaclass=ArgumentsMeta):
    """An agent that a request may be handed over to.

    Attributes:
        to_agent_id: The agent's id.
        description: When to hand over, for the model.
        tool_name: The tool's name; None derives one from the id.
        filter: Called with the run's identity and its board, and also with the run's dependencies
            if it has a third parameter without a default; False hides the handoff. Sync or async.
        on_invoke: Called with the identity and the event, sync or async, before the handoff takes
            effect. An exception fails the call, and there is no handoff.
        history: Whether the next agent gets the messages so far.

    Raises:
        Misuse: The id is blank, or a field has the wrong type.
    """

    to_agent_id: str
    description: str = ""
    tool_name: str | None = None
    filter: HandoffFilter | None = None
    on_invoke: HandoffHook | None = None
    history: bool = True

    def __post_init__(self) -> None:
        given = cast("dict[str, object]", vars(self))
        agent_id = given["to_agent_id"]
        if not isinstance(agent_id, str) or not agent_id.strip():
            raise Misuse(f"a Handoff needs an agent's id, got {_describe_given(agent_id)}")
        for name in ("description", "tool_name"):
            if not isinstance(given[name], str | None):
                raise Misuse(f"{name} of the handoff to {agent_id!r} must be a string")
        for name in ("filter", "on_invoke"):
            if given[name] is not None and not callable(given[name]):
                raise Misuse(f"{name} of the handoff to {agent_id!r} must be a function")


def _describe_given(given: object) -> str:
    """Return what was given instead of an id, and what to give, for the message."""
    id = getattr(given, "id", None)
    if isinstance(id, str):
        return f"the {type(given).__name__} itself: Handoff({id!r})"
    return f"{given if given is None else repr(given)[:60]}: Handoff('support')"


def handoff_tool_name(agent_id: str) -> str:
    """Return the name of the tool that hands over to *agent_id*.

    It is the id in lower case, with ``_`` for every character outside [a-z0-9_]; an empty id gives
    ``transfer_to_unknown``.
    """
    return f"transfer_to_{tool_name_of_id(agent_id)}"


def tool_name_of_id(agent_id: str) -> str:
    """Return *agent_id* in the characters of a tool's name: see ``handoff_tool_name``."""
    return re.sub(r"[^a-z0-9_]", "_", agent_id.lower()) or "unknown"


class AgentSpec(Root, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """An agent as data: tools, model and engine are names, resolved again when it runs.

    Attributes:
        id: The agent's id.
        name: A name to show to users, "" for the id.
        model: "provider:name", "" if none is set.
        instructions: The text; None if there is none, or a function produces it.
        tools: Names of its tools in order; None means that it has none and sets no restriction.
        output_schema: JSON Schema of its output, None for text.
        handoffs: Ids of the agents that it may hand over to.
        engine: The engine's class name, "" for the default.
        card: How it describes itself to other agents.
        budget: Its limits.
        settings: Settings of its model calls.
        retry: How failed model calls are retried; None means never.
        allow_empty: Whether the model may reply without text and without a call.
        allow_filtered: Whether an answer that a safety filter cut off counts as an answer.
        compaction: ``at_tokens``, ``keep_last`` and ``summarise`` (the name of a model, or null)
            as in ``Compaction``; None for none.
        artifacts: Channels whose messages become artifacts of its results.
        omitted: Fields of the agent that cannot be stored and were left out: any of instructions,
            output_type, handoffs (if one has more than an id), observers, deciders, preparers,
            committers, dependencies and compaction (if a function writes the summaries). A spec
            that omits more than observers does not run; to run it without those fields, set this
            to ().
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
    allow_empty: bool = False
    allow_filtered: bool = False
    compaction: JsonObject | None = None
    artifacts: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "artifacts", "omitted")
        if self.artifacts:
            check_types(self, "artifacts")
