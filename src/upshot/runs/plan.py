"""The plan of a run: its options, the values they allow, and the type of its answer."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypedDict, cast

import msgspec
from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent import Agent, DependencyFactory, Preparer, ToolItem
from upshot.contract.agent_spec import AgentSpec, Handoff, RunInfo
from upshot.contract.base.checks import (
    ANYTHING,
    Allowed,
    check_argument,
    did_you_mean,
    engine_hint,
    format_value,
    json_fault,
    whole_number,
)
from upshot.contract.base.enums import Origin, Role
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.secrets import MARKS_OPTION
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import BoardChanged, SeedReference
from upshot.contract.message import Message
from upshot.contract.model_calls import Request, name_of
from upshot.contract.pending import TaintOrigin
from upshot.contract.protocols import (
    AnyResult,
    ArtifactStore,
    Board,
    Clock,
    Decider,
    Engine,
    Host,
    Journal,
    Model,
    Observer,
)
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint, Compacted
from upshot.contract.settings import Budget, ModelSettings, Policy, Quota, Retry
from upshot.errors import Misuse
from upshot.models.prices import Prices
from upshot.runs.callbacks import method
from upshot.runs.limits.pacer import Pacer
from upshot.runs.limits.quotas import QUOTAS_OPTION, BoundQuota
from upshot.runs.task_supervisor import WRITE_GRACE_S
from upshot.state.child_runs import TURN_OPTION
from upshot.state.run_state import DECLARED_OPTION
from upshot.state.turns import Turn
from upshot.tools.definition.tool import Tool
from upshot.tools.gates.approval_gate import ApprovalRequest, PreToolHook
from upshot.tools.gates.standard_gates import GateChoice
from upshot.wire.pricing import Price

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")

Seeder: TypeAlias = Callable[[RunInfo, Request], Board | Awaitable[Board | None] | None]
Committer: TypeAlias = Callable[[RunInfo, Request, AnyResult], Awaitable[None] | None]
Approver: TypeAlias = Callable[[ApprovalRequest], bool | Awaitable[bool | None] | None]
History: TypeAlias = Sequence[Message] | AgentResult[Any]
Where: TypeAlias = str | PathLike[str] | Journal


class ResumeOptions(TypedDict, Generic[Deps], total=False):
    """Options of every way to start or resume a run; the call's override the agent's.

    Attributes:
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        settings: Merged over the agent's, field by field.
        history: Messages or an earlier result, put before the request. In a conversation, only
            its first turn may have it.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        host: Any object with some of the methods of ``Host``.
        observers: Called after the agent's own.
        deciders: Called after the agent's own.
        committers: Called with (info, request, result) when a run is to be committed.
        prepare: Makes the board from (info, request), once for each attempt.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no
            attributes themselves. Identity is separate, so attributes cannot forge it.
        parent_run_id: Overrides the id of the run that this one is started in.
        resume_from: A checkpoint, for an engine that keeps none.
        max_attempts: The number of attempts that deciders may ask for, the first included; at
            least 1.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        budget: Limits; replaces the agent's budget as a whole.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides
            what ``Agent.dependencies`` makes.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        policy: Rules on tools, checked at every call.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks
            in their place, so pass the same secrets when you resume, in any order. With more or
            fewer, the run warns ``secrets_changed``, and the marks in the log are not replaced.
        prices: Prices of models, looked up before the public table; for models given by name.
        clock: The clock, for tests.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.
        launch: What a command line needs to start the run again; kept in the log, never a key.
    """

    engine: Engine | None
    model: str | Model | None
    settings: ModelSettings | None
    history: History
    tools: Iterable[ToolItem]
    host: Host | object | None
    observers: Iterable[Observer | object]
    deciders: Iterable[Decider | object]
    committers: Iterable[Committer]
    prepare: Seeder | None
    artifacts: Iterable[str]
    attributes: Mapping[str, Any] | None
    parent_run_id: str
    resume_from: Checkpoint | None
    max_attempts: int
    retry: Retry | None
    budget: Budget | None
    pacer: Pacer | None
    priority: int
    quotas: Iterable[Quota]
    dependencies: Deps
    approve: Approver | None
    on_pre_tool_use: PreToolHook | None
    gates: GateChoice | None
    artifact_store: ArtifactStore | None
    policy: Policy | None
    secrets: Iterable[str]
    prices: Prices | Mapping[str, Price] | None
    clock: Clock | None
    write_grace_s: float
    launch: JsonObject


class RunOptions(ResumeOptions[Deps], total=False):
    """Options of ``run``, ``run_sync`` and ``start``: those of ``ResumeOptions``, and these.

    Attributes:
        journal: A path, "memory:" or an open journal; None keeps no log.
        conversation: The id of the conversation that the run is a turn of, in place of the
            request's ``context_id``. It needs a journal.
        if_waiting: What happens to the turn while another turn waits for answers: with "refuse" it
            fails with ``conflict``, with "tell" it starts and the model reads what is waiting.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
    """

    journal: Where | None
    conversation: str
    if_waiting: Literal["refuse", "tell"]
    remember: bool


class OutputType:
    """Validates an answer, whatever kind of type describes it.

    Attributes:
        schema: JSON Schema of the answer; None for plain text.
        is_text: Whether any text is a valid answer.
        is_schema: Whether the user gave the JSON Schema, and the answer is plain JSON.
    """

    def __init__(
        self,
        schema: JsonObject | None,
        build: Callable[[Json], object],
        *,
        is_schema: bool = False,
    ) -> None:
        self.schema = schema
        self.is_text: bool = schema is None
        self.is_schema: bool = is_schema
        self._build = build

    @classmethod
    def of(cls, output_type: object, *, what: str = "output_type") -> OutputType:
        """Return the OutputType for an agent's ``output_type``.

        Args:
            what: What it is, for messages.
            output_type: None or ``str`` for text; a JSON Schema; or a msgspec, pydantic,
                dataclass or plain typing type.

        Raises:
            Misuse: It is a type without a JSON Schema.
        """
        if output_type is None or output_type is str:
            return cls(None, lambda value: value)
        if isinstance(output_type, dict):
            return _of_schema(cast("JsonObject", output_type), what)
        if hasattr(output_type, "model_json_schema"):
            model = cast("Any", output_type)
            return cls(
                model.model_json_schema(),
                _validator_of(model.model_validate_json, model.model_validate),
            )
        return _of_type(output_type, what)

    def parse(self, text: str) -> Json:
        """Parse and validate an answer.

        Args:
            text: What the model wrote: JSON, or JSON inside a Markdown fence.

        Returns:
            The validated JSON value.

        Raises:
            ValueError: It is not JSON, or not of the type. The message can be shown to the model.
        """
        if self.schema is None:
            return text
        try:
            value: Json = msgspec.json.decode(without_fence(text))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(f"the answer is not JSON: {json_fault(error)}") from error
        self.build(value)
        return value

    def build(self, value: Json) -> object:
        """Build the typed answer from a JSON value.

        Raises:
            ValueError: It is not of the type.
        """
        try:
            return self._build(value)
        except ValueError as error:
            raise ValueError(f"the answer does not have the form asked for: {error}") from error


def _of_schema(schema: JsonObject, what: str) -> OutputType:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        text = " ".join(str(error).split())
        raise Misuse(f"{what} is not a JSON Schema: {text}") from error

    def check(value: Json) -> Json:
        faults = [
            f"/{'/'.join(map(str, fault.instance_path))}: {fault.message}"
            for fault in validator.iter_errors(value)
        ]
        if faults:
            raise ValueError("; ".join(faults))
        return value

    return OutputType(schema, check, is_schema=True)


def _of_type(output_type: Any, what: str) -> OutputType:
    try:
        (schema,), components = msgspec.json.schema_components(
            [output_type], ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        if "pydantic" in sys.modules and (found := _of_pydantic(output_type)) is not None:
            return found
        raise Misuse(
            f"{what} {output_type!r} has no JSON Schema: give a msgspec Struct, a pydantic "
            f"model, a dataclass or a JSON Schema ({error})"
        ) from error
    if components:
        name = schema.get("$ref", "").rpartition("/")[2]
        rest = {key: form for key, form in components.items() if key != name}
        schema = components.get(name, schema)
        if rest or _refers_to_itself(schema, name):
            schema = {**schema, "$defs": components}
    return OutputType(
        cast("JsonObject", schema), lambda value: msgspec.convert(value, output_type, strict=True)
    )


def _of_pydantic(output_type: Any) -> OutputType | None:
    """Return an OutputType for a type that pydantic supports, such as a list of models, or None."""
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        adapter = TypeAdapter[object](output_type)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None
    return OutputType(schema, _validator_of(adapter.validate_json, adapter.validate_python))


def _validator_of(
    read: Callable[[bytes], object], check: Callable[[object], object]
) -> Callable[[Json], object]:
    """Return a function that validates with pydantic, as JSON, so that strict models accept the
    JSON form of a date.
    """
    from pydantic import ValidationError

    def build(value: Json) -> object:
        try:
            try:
                text = msgspec.json.encode(value)
            except TypeError:
                # It is a built object already.
                return check(value)
            return read(text)
        except ValidationError as error:
            faults = [
                f"/{'/'.join(map(str, fault['loc']))}: {fault['msg']}"
                for fault in error.errors(include_url=False)
            ]
            raise ValueError("; ".join(faults)) from error

    return build


def _refers_to_itself(schema: object, name: str) -> bool:
    return bool(name) and f"#/$defs/{name}" in msgspec.json.encode(schema).decode()


def without_fence(text: str) -> str:
    """Return what is inside a Markdown fence; a text without one stays as it is."""
    inner = text.strip()
    if inner.startswith("```") and inner.endswith("```") and "\n" in inner:
        return inner[inner.index("\n") + 1 : -3]
    return inner


# The logged option that names the engine's class.
ENGINE_OPTION = "engine"
POLICY_OPTION = "policy"
# The attribute of runs of the lab: an object with ``experiment``, ``case`` and ``variant``.
LAB_ATTRIBUTE = "upshot.lab"
# Option of a fork: whether the user is asked about every call that may write.
ASK_WRITES_OPTION = "ask_writes"
# Options that the log cannot store and later sessions need, with how else a session can get them.
# The log stores the identity of the values that were given.
_NO_OTHER = "; the command line cannot give any"
UNLOGGED = {
    "artifact_store": _NO_OTHER,
    "committers": _NO_OTHER,
    "deciders": _NO_OTHER,
    "dependencies": ", an agent that makes them, or --dependencies FILE.py:NAME",
    "gates": _NO_OTHER,
    "on_pre_tool_use": _NO_OTHER,
}

# Frozen, so all runs without a budget share it.
USUAL_BUDGET = Budget()

# Starts a child run: takes agent, request and options, returns its result.
Child = Callable[..., Awaitable[Any]]


class MadeBy(NamedTuple):
    """A value of the option ``dependencies``: a factory, as a command line names it."""

    factory: DependencyFactory[Any]


class Plan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A run before it starts: agent, request, tools and limits.

    Attributes:
        observers: The agent's first, then the call's; the same for deciders.
        taint: Where untrusted content in the history came from, None for none.
        handoff_messages: Messages of the agent that handed the request over; they follow it.
        extra_logged: Other values that the log keeps among the options.
        warnings: Emitted when the session starts.
        earlier_may_work: Whether the previous session may still be running.
        spec: The agent, described by names only.
        seed: The changes that made the first board, in an earlier session.
        secret_marks: The prefix of the marks that replace secrets in its log, "" without any.
        cached_logged: The value of ``logged_options``, if computed before.
        is_journal_lost: Whether its journal is in memory and closed when the run ends.
        is_known: Whether the parent run has already counted the usage in this run's log.
        continue_stopped: Whether a child run that was stopped is continued together with this one.
        is_retry_given: Whether the call set how failed model calls are retried.
        turn: Its turn in a conversation, None outside any.
        asked: The user's messages in earlier committed turns of the conversation.
        named_seed: As in ``RunState``.
        conflict: The error that ends it before it starts, None if it may start.
        summariser: Makes summaries of older messages; None drops those messages.
        compacted: The summary that replaces the first messages, and the messages it was made
            from; None for none.

    The others: see ``RunOptions``.
    """

    agent: Agent[Any]
    request: Request
    run_id: str
    engine: Engine
    model: Model | None
    output: OutputType
    settings: ModelSettings | None = None
    retry: Retry | None = None
    budget: Budget = USUAL_BUDGET
    pacer: Pacer | None = None
    priority: int = 0
    quotas: tuple[BoundQuota, ...] = ()
    tools: tuple[Tool, ...] = ()
    handoffs: tuple[Handoff, ...] = ()
    host: object = None
    observers: tuple[object, ...] = ()
    deciders: tuple[object, ...] = ()
    committers: tuple[Committer, ...] = ()
    prepare: Seeder | None = None
    preparers: tuple[Preparer, ...] = ()
    history: Sequence[Message] = ()
    taint: TaintOrigin | None = None
    handoff_messages: Sequence[Message] = ()
    artifacts: tuple[str, ...] = ()
    attributes: JsonObject = {}
    parent_run_id: str = ""
    resume_from: Checkpoint | None = None
    max_attempts: int = 1
    dependencies: object = None
    journal: Journal | None = None
    approve: Approver | None = None
    on_pre_tool_use: PreToolHook | None = None
    gates: GateChoice | None = None
    artifact_store: ArtifactStore | None = None
    policy: Policy | None = None
    secrets: tuple[str, ...] = ()
    secret_marks: str = ""
    clock: Clock = SYSTEM_CLOCK
    write_grace_s: float = WRITE_GRACE_S
    launch: JsonObject = {}
    extra_logged: JsonObject = {}
    child: Child | None = None
    warnings: tuple[RunWarning, ...] = ()
    earlier_may_work: bool = False
    spec: AgentSpec = AgentSpec()
    is_journal_lost: bool = False
    is_known: bool = False
    continue_stopped: bool = False
    is_retry_given: bool = False
    seed: tuple[BoardChanged, ...] = ()
    cached_logged: JsonObject | None = None
    turn: Turn | None = None
    asked: tuple[Message, ...] = ()
    named_seed: tuple[SeedReference, tuple[Message, ...]] | None = None
    conflict: AgentError | None = None
    summariser: Model | Callable[..., Any] | None = None
    compacted: tuple[Compacted, Sequence[Message]] | None = None

    @property
    def is_prepared(self) -> bool:
        """Whether a function of the user's makes or changes the board of each attempt."""
        return self.prepare is not None or bool(self.preparers)

    @property
    def dependency_factory(self) -> DependencyFactory[Any] | None:
        """The function that makes a session's dependencies, None if there is none."""
        given = self.dependencies
        if given is None:
            return self.agent.dependencies
        return given.factory if isinstance(given, MadeBy) else None

    @property
    def ask(self) -> Callable[..., Any] | None:
        """The ``ask_user`` method of the user's host, None if it has none."""
        return method(self.host, "ask_user")

    def given(self, name: str) -> Json:
        """Return the identity of its value for option *name* of ``UNLOGGED``, None for none."""
        value = self._given(name)
        if name == "dependencies":
            # By factory name: the repr of a connection pool may differ between processes.
            return None if value is None else called(value)
        if isinstance(value, tuple | list):
            items = cast("Iterable[object]", value)
            return [identity_of(item) for item in items] or None
        return None if value is None else identity_of(value)

    def _given(self, name: str) -> object:
        """Return what the call gave. The agent gives its own values again when resumed."""
        if name == "deciders":
            return self.deciders[len(tuple(self.agent.deciders)) :]
        if name == "dependencies" and self.dependencies is None:
            # The call may give them the next time.
            return self.agent.dependencies
        is_usual = self.artifact_store is getattr(self.journal, "artifacts", None)
        return None if name == "artifact_store" and is_usual else getattr(self, name)

    def logged_options(self) -> JsonObject:
        """Return the options as the log keeps them, for later sessions."""
        if self.cached_logged is not None:
            return self.cached_logged.copy()
        options: JsonObject = {
            **self.extra_logged,
            "max_attempts": self.max_attempts,
            ENGINE_OPTION: type(self.engine).__name__,
        }
        if self.model is not None:
            options["model"] = name_of(self.model)
        # The agent gives its own budget again when resumed.
        known = self.agent.budget or USUAL_BUDGET
        if self.budget is not known and self.budget != known:
            options["budget"] = msgspec.to_builtins(self.budget)
        if self.policy is not None:
            options[POLICY_OPTION] = msgspec.to_builtins(self.policy)
        if self.quotas:
            options[QUOTAS_OPTION] = msgspec.to_builtins(self.quotas)
        given = ((name, self.given(name)) for name in UNLOGGED)
        options.update((name, value) for name, value in given if value is not None)
        options |= _declarations_of(self.tools)
        if self.turn is not None:
            options[TURN_OPTION] = msgspec.to_builtins(self.turn)
        more: JsonObject = {
            "artifacts": [*self.artifacts],
            "launch": self.launch,
            MARKS_OPTION: self.secret_marks,
        }
        options.update((name, value) for name, value in more.items() if value)
        return options


def identity_of(value: object) -> str:
    """Return a text that identifies a function or object in any process: its qualified name, and
    the id, name and version that an object has.
    """
    owner = getattr(value, "__self__", None) if hasattr(value, "__qualname__") else value
    facts = ((fact, getattr(owner, fact, None)) for fact in ("id", "name", "version"))
    parts = [
        f"{fact}={fact_value}" for fact, fact_value in facts if isinstance(fact_value, str | int)
    ]
    return f"{called(value)}({', '.join(parts)})" if parts else called(value)


def called(value: object) -> str:
    """Return the qualified name of a function, or of an object's class."""
    made_by: object = getattr(value, "factory", value)
    while isinstance(made_by, partial):
        made_by = cast("object", made_by.func)
    kind = cast("type", made_by if hasattr(made_by, "__qualname__") else type(made_by))
    return f"{_module_of(kind)}:{kind.__qualname__}"


def _module_of(kind: type) -> str:
    """Return the module of *kind*, or the bare file name for a file outside packages."""
    module = sys.modules.get(kind.__module__)
    spec = getattr(module, "__spec__", None)
    if kind.__module__ == "__main__" and spec is not None:
        return str(spec.name)
    path: str = getattr(module, "__file__", None) or ""
    is_file = path and "." not in kind.__module__
    return os.path.splitext(os.path.basename(path))[0] if is_file else kind.__module__


def lacks(value: Json, now: Json) -> bool:
    """Whether anything that the run had before, as given by ``Plan.given``, is missing now.

    Compares module names without packages: a module may be loaded by file or from its package.
    """
    had, has = (
        Counter(map(_without_package, one if isinstance(one, list) else [one] if one else []))
        for one in (value, now)
    )
    return bool(had - has)


def _without_package(identity: Json) -> str:
    module, _, rest = str(identity).partition(":")
    return f"{module.rpartition('.')[2]}:{rest}"


def _declarations_of(tools: Iterable[Tool]) -> JsonObject:
    """Return the tools' declarations as an option, empty without any."""
    found: JsonObject = {
        tool.version: msgspec.to_builtins(tool.declaration)
        for tool in tools
        if tool.declaration.declares
    }
    return {DECLARED_OPTION: found} if found else {}


RESUME_NAMES = ("answers", "continue_stopped", "journal", "take_over")
"""Keywords of ``resume`` and ``reopen`` beside the options."""

_USER = Role.USER
_OPTIONS = RunOptions.__optional_keys__
# Only given by a command line, so error messages do not list it.
_UNLISTED = frozenset({"launch"})
# A host may lack every method, but a value of these types is certainly not a host.
_PLAIN = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)
_FUNCTION = Allowed("a function", methods=("__call__",))
_STRING = Allowed("a string", (str,))
_MAPPING = Allowed("a mapping from names to JSON values", (Mapping,))


def _list_of(words: str, item: Allowed = ANYTHING) -> Allowed:
    return Allowed(f"a list of {words}", items=item)


def _one_of(*words: str) -> Allowed:
    listed = " or ".join(map(repr, words))
    return Allowed(listed, fits=words.__contains__)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf


OPTIONS: Mapping[str, Allowed] = {
    "approve": _FUNCTION,
    "artifact_store": Allowed(
        "an artifact store, which has put(...) and read(...)", methods=("put", "read")
    ),
    "artifacts": _list_of("strings", _STRING),
    "attributes": _MAPPING,
    "budget": Allowed("a Budget", (Budget,)),
    "clock": Allowed(
        "a clock, which has monotonic(), now() and sleep(...)",
        methods=("monotonic", "now", "sleep"),
    ),
    "committers": _list_of("functions", _FUNCTION),
    "deciders": _list_of("deciders"),
    "conversation": _STRING,
    "dependencies": ANYTHING,
    "engine": Allowed(
        "an Engine, which has execute(run, host, board)", methods=("execute",), hint=engine_hint
    ),
    "gates": Allowed(
        "a list of gates, or a function from the standard gates to all gates",
        (Iterable,),
        but=(str, bytes, Mapping),
        fits=callable,
    ),
    "history": Allowed(
        "messages or an AgentResult",
        (AgentResult, Message, Iterable),
        but=(bytes, str, Mapping),
    ),
    "if_waiting": _one_of("refuse", "tell"),
    "host": Allowed("an object with some of Host's methods", (object,), but=(*_PLAIN, type)),
    # Opening it gives a better error message.
    "journal": ANYTHING,
    "launch": _MAPPING,
    "max_attempts": whole_number(1),
    "model": Allowed("'provider:name' or a Model", (str,), methods=("call",)),
    "observers": _list_of("observers"),
    "on_pre_tool_use": _FUNCTION,
    "pacer": Allowed("a Pacer", (Pacer,)),
    "parent_run_id": _STRING,
    "policy": Allowed("a Policy", (Policy,)),
    "prepare": _FUNCTION,
    "priority": Allowed("a whole number", (int,), but=(bool,)),
    "prices": Allowed(
        "Prices, or a mapping from model names to Price", (Mapping,), methods=("find", "cost_of")
    ),
    "quotas": _list_of("Quota objects", Allowed("a Quota", (Quota, BoundQuota))),
    "remember": Allowed("True or False", (bool,)),
    "resume_from": Allowed("a Checkpoint", (Checkpoint,)),
    "retry": Allowed("a Retry", (Retry,)),
    "secrets": _list_of("strings", _STRING),
    "settings": Allowed("ModelSettings", (ModelSettings,)),
    "tools": _list_of("tools"),
    "write_grace_s": Allowed("a number of seconds, 0 or more", fits=_is_seconds),
}
"""What each option of ``run`` and ``resume`` may be; every option has a row."""


def check_options(options: Mapping[str, object], *, also: Collection[str] = ()) -> None:
    """Check the names of the options, and that each value fits its row in ``OPTIONS``.

    Replaces an iterator, such as a generator, by a tuple that can be read more than once.
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            known = _OPTIONS.union(also)
            names = ", ".join(sorted(known - _UNLISTED))
            hint = _hint_for(name) or did_you_mean(name, known, f"there are {names}")
            raise Misuse(f"a run has no option {name!r}: {hint}")
        allowed, kept = OPTIONS[name], value
        if isinstance(value, Iterator) and allowed.items is not None:
            kept = tuple(cast("Iterator[object]", value))
            cast("dict[str, object]", options)[name] = kept
        if kept is not None:
            check_argument(name, kept, allowed)


def _hint_for(name: str) -> str:
    """Say where to give *name*, if it is not an option but a field of one; "" for other names."""
    homes = (("budget=", Budget), ("settings=", ModelSettings), ("policy=", Policy), ("", Request))
    for option, kind in homes:
        if name in kind.__struct_fields__:
            return f"give {option}{kind.__name__}({name}=...)"
    return ""


def check_run_id(run_id: object) -> None:
    """Check that *run_id* is a run id, for resuming a run."""
    check_argument("run_id", run_id, _RUN_ID)


def _run_id_hint(value: object) -> str:
    if isinstance(value, AgentResult):
        return "give its run_id"
    return "give the run's id first, then the agent" if isinstance(value, Agent | AgentSpec) else ""


_FITS_RUN_ID = re.compile(r"[^\s/\x00-\x1f\x7f]*").fullmatch
_RUN_ID = Allowed("the id of a run, a string", (str,), hint=_run_id_hint)


def items_of(options: Mapping[str, object], name: str) -> tuple[Any, ...]:
    """Return the items of a list option, empty if it is not given."""
    items = options.get(name)
    return tuple(cast("Iterable[Any]", items)) if items else ()


def object_of(options: Mapping[str, object], name: str) -> dict[str, Json]:
    """Return a mapping option as JSON, empty if it is not given."""
    value = options.get(name)
    return _as_object(name, value) if value else {}


def check_encodable(name: str, text: str) -> None:
    """Refuse a name that UTF-8 cannot encode."""
    if clean_text(text) is not text:
        raise Misuse(f"{name} must be text that can be encoded, got lone surrogates: {text!r}")


def to_request(request: object) -> Request:
    """Convert the request argument of an API function to a Request, its values made JSON."""
    if isinstance(request, str):
        return Request(Message(_USER, clean_text(request)))
    if isinstance(request, Message):
        request = Request(request)
    if not isinstance(request, Request):
        raise Misuse(
            f"request must be a string, a Message or a Request, got {format_value(request)}"
        )
    for name in ("run_id", "task_id", "context_id"):
        check_encodable(name, getattr(request, name))
    if not _FITS_RUN_ID(request.run_id):
        # Run ids appear in commands and, before a slash, in answers.
        given = format_value(request.run_id)
        raise Misuse(f"a run_id has no blanks, slashes or control characters, got {given}")
    if not request.inputs and not request.metadata:
        return request
    return replace(
        request,
        inputs=_as_object("inputs of the request", request.inputs),
        metadata=_as_object("metadata of the request", request.metadata),
    )


def check_hooks(what: str, items: Iterable[object], methods: Collection[str]) -> None:
    """Check that each item has at least one of these methods. Mistyped ones would not be called."""
    for item in items:
        if isinstance(item, type):
            raise Misuse(f"{what} must be objects, got {format_value(item)}")
        if not any(callable(getattr(item, name, None)) for name in methods):
            wanted = f"objects with one of {', '.join(methods)}"
            raise Misuse(f"{what} must be {wanted}, got {format_value(item)}")


def losses_of(request: object, options: Mapping[str, object]) -> tuple[RunWarning, ...]:
    """Return a warning for each value of the caller that was replaced because it is not JSON."""
    given = {"attributes": options.get("attributes")}
    if isinstance(request, Request):
        given |= {"inputs": request.inputs, "metadata": request.metadata}
    if not any(given.values()):
        return ()
    found = [
        f"{name}{path}" for name, value in given.items() if value for path in to_free_json(value)[1]
    ]
    return tuple(
        RunWarning(
            code="lossy_value",
            message=f"{place} has no JSON form: it was replaced",
            origin=Origin.CALLER,
        )
        for place in found
    )


def _as_object(what: str, value: object) -> dict[str, Json]:
    try:
        form, _ = to_free_json(value)
    except UnserializableError as error:
        raise Misuse(f"{what}: {error}") from error
    if not isinstance(form, dict):
        raise Misuse(
            f"{what} must be a mapping from names to JSON values, got {format_value(value)}"
        )
    return form
