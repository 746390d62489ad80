"""What the nodes of a graph do, as plain values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import asdict

from upshot.contract.agent import Agent
from upshot.contract.base.checks import check_amount, check_whole, kind_of
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.model_calls import Request
from upshot.contract.result import OUTPUT_VAR
from upshot.engines.common import check_fit
from upshot.errors import Misuse

# A user's function of the board; its return value is checked where it is used.
BoardFunction: TypeAlias = Callable[..., object]


@dataclass(frozen=True)
class AgentTask:
    """Run an agent on a request, as a child run; its answer is a message.

    Attributes:
        agent: The agent.
        request: The request: a text, a Request, or a function of the board that returns one. A text
            gets the inputs of the run. None is the text of the last message on the main channel;
            for the items of a ForEach, that and the item.
    """

    agent: Agent[Any]
    request: str | Request | BoardFunction | None = None

    @property
    def is_typed(self) -> bool:
        """Whether its answer is a typed value and not a text."""
        return self.agent.output_type is not None and self.agent.output_type is not str


@dataclass(frozen=True)
class ToolTask:
    """Call a tool of the run, through all its gates.

    Attributes:
        tool: Its name.
        arguments: A mapping, or a function of the board that returns one.
    """

    tool: str
    arguments: Mapping[str, Json] | BoardFunction = field(default_factory=dict[str, Json])


@dataclass(frozen=True)
class Question:
    """Ask the user; if the answer does not come at once, the run is parked.

    Attributes:
        text: The question, or a function of the board that returns it.
        choices: The allowed answers, empty for any.
    """

    text: str | BoardFunction
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class WaitSignal(Question):
    """Wait for a signal that ``RunHandle.signal`` sends; until it comes, the run is parked.

    Attributes:
        text: The name of the signal, or a function of the board that returns it.
        choices: None.
    """


@dataclass(frozen=True)
class Parallel:
    """Do several things at the same time, each on a copy of the board; changes are merged.

    Attributes:
        branches: What to do, by name; changes are merged in this order.
    """

    branches: Mapping[str, object]

    def __post_init__(self) -> None:
        if not self.branches:
            raise Misuse("Parallel needs at least one branch")
        nodes = {name: as_node(name, work) for name, work in self.branches.items()}
        object.__setattr__(self, "branches", nodes)


@dataclass(frozen=True)
class ForEach:
    """Do the same for every item, at the same time, each on a copy of the board.

    The resulting values are kept as a list, in the order of the items.

    Attributes:
        items: A variable that contains a list, or a function of the board that returns one.
        work: What to do. It finds its item in a variable; an agent without a request is asked
            about the item.
        name: The name of that variable.
        at_once: The maximum number of items at the same time; None means all.
    """

    items: str | BoardFunction
    work: object
    name: str = "item"
    at_once: int | None = None

    def __post_init__(self) -> None:
        check_whole("ForEach.at_once", self.at_once, least=1, none="all")
        object.__setattr__(self, "work", as_node("work", self.work))

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The variables that each item has for itself: those set by nodes that return something.

        Such a node sets its variable for every item, so this is not a conflict. Variables that
        functions set themselves are not included: there a conflict may be a mistake.
        """
        work = as_node("work", self.work)
        named = (work.output,) if work.output else ()
        return frozenset((*named, *_returned_names(work.work)))


@dataclass(frozen=True)
class Node:
    """What a node does, and how often it is tried.

    Attributes:
        work: A function of the board (or of board and run), sync or async; an Agent, a Graph,
            or one of the other values of this module.
        attempts: How often it is tried, at least 1.
        backoff_s: Seconds before the second try; doubled for each one after it. The
            ``retry_after_s`` of an error is a minimum.
        effect: read, write or destructive: what a function does outside.
        idempotent: Whether it may run again if the process died in it. If False, the run then
            fails with code interrupted.
        output: The variable that takes what it returns. "" is the node's name for a tool, a
            question, ForEach and an agent with an output type; then a function returns None, its
            board, or variables to set.
        asks: Whether it may ask the user.
        wants_run: Whether it is a function of board and run.
    """

    work: object
    _: KW_ONLY
    attempts: int = 1
    backoff_s: float = 0.5
    effect: Effect = Effect.WRITE
    idempotent: bool = True
    output: str = ""
    asks: bool = field(init=False, default=False, repr=False)
    wants_run: bool = field(init=False, default=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("Node.attempts", self.attempts, least=1)
        check_amount("Node.backoff_s", self.backoff_s, is_endless=False)
        work = self.work
        if isinstance(work, Agent):
            object.__setattr__(self, "work", AgentTask(cast("Agent[Any]", work)))
        object.__setattr__(self, "effect", Effect(self.effect))
        work = cast("object", vars(self)["work"])
        object.__setattr__(self, "asks", _may_ask(work))
        object.__setattr__(self, "wants_run", callable(work) and _takes_run(work))
        if self.attempts > 1 and self.asks:
            raise Misuse("a node that asks the user cannot have retries: ask in a separate node")


# Their return value is stored under the name of their node, if no other is given.
_NAMED = (ToolTask, Question, ForEach)
_WORKS: tuple[type, ...] = (Agent, AgentTask, ToolTask, Question, Parallel, ForEach)


def as_node(name: str, work: object) -> Node:
    """Return *work* as a Node.

    Raises:
        Misuse: It is nothing that a node can do.
    """
    if isinstance(work, Node):
        as_node(name, work.work)
        return work
    known = isinstance(work, _WORKS)
    if known or callable(work) or hasattr(work, "nodes"):
        node = Node(work)
        if callable(work) and not known and not hasattr(work, "nodes"):
            taken = ("board", "run") if node.wants_run else ("board",)
            check_fit(work, f"the function of node {name!r}", *taken)
        return node
    raise Misuse(
        f"node {name!r} is {kind_of(work)}: give a function of the board, an Agent, a "
        "Graph, or a Node, AgentTask, ToolTask, Question, Parallel or ForEach"
    )


def members_of(work: object) -> Iterator[tuple[str, Node]]:
    """Return the nodes in *work*, by name."""
    match work:
        case Parallel(branches=branches):
            yield from ((name, as_node(name, node)) for name, node in branches.items())
        case ForEach(work=inner):
            yield "work", as_node("work", inner)
        case _:
            nodes: Mapping[str, Node] = getattr(work, "nodes", {})
            yield from nodes.items()


def _returned_names(work: object) -> Iterator[str]:
    """Return the variables that take what nodes in *work* return."""
    if hasattr(work, "nodes"):
        # The output of a graph.
        yield OUTPUT_VAR
    for name, node in members_of(work):
        inner = node.work
        is_own = inner.is_typed if isinstance(inner, AgentTask) else isinstance(inner, _NAMED)
        if node.output or is_own:
            yield node.output or name
        if not isinstance(inner, ForEach):
            yield from _returned_names(inner)


def _may_ask(work: object) -> bool:
    """Whether *work* may ask the user."""
    return isinstance(work, Question) or any(node.asks for _, node in members_of(work))


def _takes_run(function: BoardFunction) -> bool:
    """Whether *function* takes the run besides the board."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
            # A decorator with *args takes what the wrapped function takes.
            parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in plain and p.default is inspect.Parameter.empty]
    return len(needed) > 1


def facts_of(value: object, above: frozenset[int] = frozenset()) -> object:
    """Return what decides what *value* does, as plain data that is the same in every process.

    For a function it is its qualified name, its code and the functions that it closes over; other
    variables may change while it runs. For an agent it is the spec.
    """
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if id(value) in above:
        return "..."
    above |= {id(value)}

    if isinstance(value, Agent):
        agent = cast("Agent[Any]", value)
        instructions = agent.instructions if callable(agent.instructions) else None
        return ["agent", encode(agent.spec()), facts_of(instructions, above)]
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return [[str(name), facts_of(one, above)] for name, one in items]
    if isinstance(value, list | tuple | set | frozenset):
        found = [facts_of(one, above) for one in cast("Iterable[object]", value)]
        return sorted(map(repr, found)) if isinstance(value, set | frozenset) else found
    name, parts = _parts_of(value)
    return [name, *(facts_of(part, above) for part in parts)]


def _parts_of(value: object) -> tuple[str, Iterable[object]]:
    """Return the name of a function or another object, and the parts that decide what it does."""
    digest = getattr(value, "digest", None)
    if isinstance(digest, str):
        # A graph inside a node.
        return digest, ()
    name = str(getattr(value, "__qualname__", type(value).__qualname__))
    match value:
        case FunctionType(__code__=code):
            cells = [_content_of(cell) for cell in value.__closure__ or ()]
            closed = [one for one in cells if isinstance(one, FunctionType | MethodType)]
            return name, (code, value.__defaults__, value.__kwdefaults__, closed)
        case MethodType():
            return name, (value.__func__,)
        case CodeType():
            return "", (value.co_code, value.co_names, value.co_consts)
        case partial():
            whole = cast("partial[object]", value)
            return name, (whole.func, whole.args, whole.keywords)
        case Struct():
            return name, (asdict(value),)
        case _ if is_dataclass(value):
            return name, [getattr(value, one.name) for one in fields(value) if one.init]
        case _:
            return name, (inspect.getattr_static(value, "__call__", None),)


def _content_of(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # A variable that is assigned later.
        return None
