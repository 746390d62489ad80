"""Agent: an agent as plain data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Generic, TypeAlias, cast

from upshot.contract.agent_spec import (
    AgentCard,
    AgentSpec,
    Handoff,
    RunInfo,
    handoff_tool_name,
    tool_name_of_id,
)
from upshot.contract.base.checks import (
    ANYTHING,
    Allowed,
    check_argument,
    check_arguments,
    check_function,
    check_tool_item,
    engine_hint,
    name_of_function,
    two_tools,
)
from upshot.contract.base.structs import ArgumentsMeta, JsonObject
from upshot.contract.prompt import Prompt
from upshot.contract.settings import Budget, Compaction, ModelSettings, Retry
from upshot.errors import Misuse

if TYPE_CHECKING:
    # Only annotations use the protocols, and nothing evaluates those: importing Agent stays cheap.
    from typing_extensions import TypeVar

    from upshot.contract.model_calls import Request
    from upshot.contract.protocols import Decider, Engine, Model, Observer, Run, Tool
    from upshot.contract.result import AgentResult
    from upshot.contract.tool_context import ToolContext

    T = TypeVar("T", default=str)
    # Any: an agent whose tools need no dependencies may be given any.
    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    T, Deps = TypeVar("T"), TypeVar("Deps")


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_HOOKS = ("observers", "deciders", "preparers", "committers")
_LIST = ("tools", "handoffs", *_HOOKS, "artifacts")
# An output type has too many forms to list, so only plain values are refused.
_NO_TYPES = (str, bytes, int, float, list, tuple, set)
_STRING = Allowed("a string", (str,))
_CALLED = Allowed("a function", methods=("__call__",))
_ALLOWED = {
    "id": Allowed("a text that is not empty, such as Agent('support')", fits=_is_id),
    "model": Allowed("'provider:name' or a Model", (str,), methods=("call",)),
    "name": _STRING,
    "instructions": Allowed("a string, or a function of the run", (str,), methods=("__call__",)),
    **{name: Allowed(f"a list, {name}=[...]", items=ANYTHING) for name in _LIST},
    **{name: Allowed(f"a list of functions, {name}=[...]", items=_CALLED) for name in _HOOKS[2:]},
    "artifacts": Allowed("a list of channels, artifacts=['notes']", items=_STRING),
    "output_type": Allowed("a type, a JSON Schema, or None for text", (object,), but=_NO_TYPES),
    "engine": Allowed(
        "an Engine, which has execute(run, host, board)", methods=("execute",), hint=engine_hint
    ),
    "card": Allowed("an AgentCard", (AgentCard,)),
    "budget": Allowed("a Budget", (Budget,)),
    "settings": Allowed("ModelSettings(...)", (ModelSettings,)),
    "retry": Allowed("a Retry", (Retry,)),
    "allow_empty": Allowed("True or False", (bool,)),
    "allow_filtered": Allowed("True or False", (bool,)),
    "dependencies": Allowed(
        "a function of the RunInfo that makes them; run(dependencies=...) takes a value",
        methods=("__call__",),
    ),
    "compaction": Allowed("Compaction(at_tokens=...)", (Compaction,)),
}

Instructions: TypeAlias = "str | Prompt | Callable[[Run], str | Prompt | Awaitable[str | Prompt]]"
# The board is upshot.Board, which this layer does not know.
Preparer: TypeAlias = "Callable[[RunInfo, Request, Any], object]"
Committer: TypeAlias = "Callable[[RunInfo, Request, AgentResult[Any]], Awaitable[None] | None]"
# The parameter of ToolContext is the type of dependencies that a tool needs.
DependentTool: TypeAlias = "Callable[Concatenate[ToolContext[Deps], ...], object]"
# A plain function may take any parameters; the tool layer reads its signature.
AgentItem: TypeAlias = "Agent[Any] | AgentTool"
NativeTool: TypeAlias = "Tool | AgentItem | str | Iterable[Tool]"
ToolItem: TypeAlias = "DependentTool[Deps] | NativeTool | Callable[..., object]"
Made: TypeAlias = "Deps | Awaitable[Deps] | AbstractAsyncContextManager[Deps]"
DependencyFactory: TypeAlias = "Callable[[RunInfo], Made[Deps]]"


@dataclass(frozen=True, repr=False)
class Agent(Generic[T, Deps], metaclass=ArgumentsMeta):
    """An agent as plain data; the engine that runs it decides what it does.

    Attributes:
        id: Its name in logs, results and handoffs; not empty.
        model: "provider:name" or a ``Model``; None if the run provides one.
        name: A name to show to users; None is the id.
        instructions: A text, a prompt of ``load_prompt``, or a function of the run that returns
            either; it is called once per attempt.
        tools: Tools, functions, tool sets, agents or names. None means that the agent has no tools
            and sets no restriction; a sequence is the allow-list. An agent is called as a tool, see
            ``as_tool``.
        output_type: A msgspec, pydantic or dataclass type, a JSON Schema, or None for text.
        handoffs: Agents that it may hand over to: a Handoff, an Agent or an id.
        observers: Notified of what happens, in this order.
        deciders: Asked, in this order, what to do with an attempt.
        preparers: Called, in this order, with (info, request, board) before each attempt. Each may
            change the board, for example to add what a search found, or return another one.
        committers: Called, in this order and before those of the call, with (info, request, result)
            when a run is to be committed.
        engine: Decides the next step; None is the loop engine.
        card: How it describes itself to other agents.
        budget: Its limits; None is the default budget.
        settings: Settings of its model calls.
        retry: How failed model calls are retried; None means never.
        allow_empty: Whether the model may reply without text and without a call. If False, such a
            reply is a failure, ``empty_reply``.
        allow_filtered: Whether an answer that the provider's safety filter cut off counts as an
            answer, with a warning. If False, it is a failure, ``content_filter``, and its calls are
            not made.
        compaction: When and how older messages are replaced in requests to the model; None means
            never.
        artifacts: Channels whose messages become artifacts of its results, in addition to the
            channels that a call names.
        dependencies: Creates the ``dependencies`` of a run from its RunInfo, once per session,
            unless the call passes them. A function, plain or async, or one that returns an async
            context manager, such as a function under ``@asynccontextmanager``; the session exits it
            at its end. If it raises, the run fails before any model call.

    Raises:
        Misuse: The id is empty, a field has the wrong type, an item of tools cannot be a tool, an
            item of handoffs is not a Handoff, an Agent or an id, or two tools or two handoffs share
            a name.
    """

    id: str
    _: KW_ONLY
    model: str | Model | None = None
    name: str | None = None
    instructions: Instructions | None = None
    tools: Iterable[ToolItem[Deps]] | None = None
    output_type: type[T] | JsonObject | None = None
    handoffs: Iterable[Handoff | Agent[Any] | str] = ()
    observers: Iterable[Observer | object] = ()
    deciders: Iterable[Decider | object] = ()
    preparers: Iterable[Preparer] = ()
    committers: Iterable[Committer] = ()
    engine: Engine | None = None
    card: AgentCard | None = None
    budget: Budget | None = None
    settings: ModelSettings | None = None
    retry: Retry | None = Retry()
    allow_empty: bool = False
    allow_filtered: bool = False
    compaction: Compaction | None = None
    artifacts: Iterable[str] = ()
    dependencies: DependencyFactory[Deps] | None = None

    def __post_init__(self) -> None:
        fields = cast("dict[str, object]", vars(self))
        check_argument("the id of an agent", self.id, _ALLOWED["id"])
        check_arguments(fields, _ALLOWED, f" of agent {self.id!r}")
        for name in _LIST:
            items = fields[name]
            if items is not None and not isinstance(items, tuple):
                object.__setattr__(self, name, tuple(cast("Iterable[object]", items)))
        if self.tools:
            object.__setattr__(self, "tools", _read_tools(self.tools, {}))
        _check_handoffs(self)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types):
            # ``Agent[str]``: TypeVar defaults need Python 3.13.
            return super().__class_getitem__(types if isinstance(types, tuple) else (types, Any))

    def __repr__(self) -> str:
        from upshot.contract.base.reprs import portray_briefly

        return portray_briefly(self)

    def but(self, **changes: object) -> Agent[T, Deps]:
        """Return a copy of this agent with some fields changed.

        Raises:
            Misuse: There is no such field, or a value has the wrong type.
        """
        return replace(self, **cast("dict[str, Any]", changes))

    def as_tool(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        input: type[Any] | JsonObject | None = None,
        approval: bool | None = None,
        timeout_s: float | None = None,
    ) -> AgentTool:
        """Return this agent as a tool of another agent, which gets its answer.

        Each call is a child run with its own log, within the budget of the run that makes it. If
        the child run waits for an answer, the whole run parks, and both resume.

        Args:
            name: The name that the model calls; None is the agent's id, with ``_`` for every
                character that a name cannot have.
            description: What the model reads about it; None is the description of the agent's card.
            input: The type of the arguments: a msgspec, pydantic or dataclass type, or the JSON
                Schema of an object. The agent's request is then the arguments as JSON, and its
                board has each of them. None means one text, ``request``.
            approval: Whether a call needs the user's approval, besides what the agent's own tools
                need; None means no.
            timeout_s: Seconds for one call; None means no limit besides the budget.

        Raises:
            Misuse: The agent has handoffs, or an argument has the wrong type.
        """
        if self.handoffs:
            raise Misuse(
                f"agent {self.id!r} may hand its request over, so it cannot be a tool, which "
                "answers its caller: use agent.but(handoffs=()).as_tool()"
            )
        if description is None:
            about = "" if self.card is None else self.card.description
            description = about or f"Asks the agent {self.name or self.id} and returns its answer."
        name = tool_name_of_id(self.id) if name is None else name
        return AgentTool(self, name, description, input, approval, timeout_s)

    def spec(self) -> AgentSpec:
        """Return this agent as plain data that can be stored and sent.

        Tools, models and engines become their names. A field that cannot be stored is left out and
        listed in ``omitted``.
        """
        tools = None if self.tools is None else tuple(_tool_names(self.tools))
        return AgentSpec(
            id=self.id,
            name=self.name or "",
            model=self.model if isinstance(self.model, str) else _name_of(self.model),
            instructions=_text_of(self.instructions),
            tools=tools,
            output_schema=self.output_type if isinstance(self.output_type, dict) else None,
            handoffs=tuple(h.to_agent_id for h in handoffs_of(self)),
            engine="" if self.engine is None else type(self.engine).__name__,
            card=self.card,
            budget=self.budget,
            settings=self.settings,
            retry=self.retry,
            allow_empty=self.allow_empty,
            allow_filtered=self.allow_filtered,
            compaction=None if self.compaction is None else self.compaction.to_json(),
            artifacts=tuple(self.artifacts),
            omitted=tuple(self._omitted_fields()),
        )

    def _omitted_fields(self) -> Iterator[str]:
        if self.instructions is not None and _text_of(self.instructions) is None:
            yield "instructions"
        wanted: object = self.output_type
        if not (wanted is None or wanted is str or isinstance(wanted, dict)):
            yield "output_type"
        if any(
            isinstance(one, Handoff) and one != Handoff(one.to_agent_id) for one in self.handoffs
        ):
            # Its filter may matter for safety, and the spec can store only the id.
            yield "handoffs"
        yield from (name for name in _HOOKS if getattr(self, name))
        if self.dependencies is not None:
            yield "dependencies"
        compaction = self.compaction
        if compaction is not None and compaction.summarise is not None and not compaction.has_model:
            yield "compaction"


@dataclass(frozen=True, eq=False)
class AgentTool:
    """An agent that is called as a tool; made by ``Agent.as_tool``.

    Attributes:
        agent: The agent.
        name: The name that the model calls.
        description: What the model reads about it.
        input: The type of its arguments; None is one text.
        approval: Whether a call needs the user's approval.
        timeout_s: Seconds for one call; None means no limit besides the budget.
    """

    agent: Agent[Any]
    name: str
    description: str
    input: type[Any] | JsonObject | None
    approval: bool | None
    timeout_s: float | None


def _text_of(instructions: Instructions | None) -> str | None:
    """Return the instructions that do not depend on the run."""
    if isinstance(instructions, Prompt):
        return instructions.text
    return instructions if isinstance(instructions, str) else None


def handoffs_of(agent: Agent[Any]) -> tuple[Handoff, ...]:
    """Return the handoffs of *agent*, each converted to a ``Handoff``."""
    return tuple(map(_to_handoff, agent.handoffs))


def _to_handoff(item: Handoff | Agent[Any] | str) -> Handoff:
    if isinstance(item, Handoff):
        return item
    if isinstance(item, str):
        return Handoff(item)
    if not isinstance(item, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"{item!r} is not a handoff: give a Handoff, an Agent or an agent's id")
    return Handoff(item.id, item.card.description if item.card else "")


def _check_handoffs(agent: Agent[Any]) -> None:
    taken: dict[str, str] = {}
    for handoff in handoffs_of(agent):
        name = handoff.tool_name or handoff_tool_name(handoff.to_agent_id)
        if name in taken:
            raise Misuse(
                f"agent {agent.id!r} would offer two handoffs as {name} (to {taken[name]!r} and "
                f"{handoff.to_agent_id!r}): give one of them a tool_name"
            )
        taken[name] = handoff.to_agent_id


def _read_tools(items: Iterable[object], taken: dict[str, object]) -> tuple[object, ...]:
    """Return *items* with iterators exhausted; *taken* collects the tools by name.

    Raises:
        Misuse: An item cannot be a tool, or two have the same name.
    """
    found: list[object] = []
    for item in items:
        if isinstance(item, Agent):
            item = cast("Agent[Any]", item).as_tool()  # noqa: PLW2901
        if isinstance(item, AgentTool):
            _add_name(item, taken)
            found.append(item)
            continue
        check_tool_item(item)
        if not isinstance(item, str):
            if hasattr(item, "parameters") or callable(item):
                _add_name(item, taken)
            else:
                inner = _read_tools(cast("Iterable[object]", item), taken)
                item = inner if isinstance(item, Iterator) else item  # noqa: PLW2901
        found.append(item)
    return tuple(found)


def _add_name(item: object, taken: dict[str, object]) -> None:
    name: object = getattr(item, "name", None)
    if not isinstance(name, str):
        name = name_of_function(cast("Callable[..., object]", item))
        check_function(item, name)
    if taken.setdefault(name, item) != item:
        raise two_tools(name)


def _tool_names(items: Iterable[object]) -> Iterator[str]:
    for item in items:
        if isinstance(item, str) or hasattr(item, "name") or not isinstance(item, Iterable):
            yield _name_of(cast("object", item))
        else:
            yield from _tool_names(cast("Iterable[object]", item))


def _name_of(item: object) -> str:
    if item is None:
        return ""
    if isinstance(item, str):
        return item
    name = getattr(item, "name", None) or getattr(item, "__name__", None)
    return str(name or type(item).__name__)
