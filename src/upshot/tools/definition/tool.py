"""Tool: a function that a model can call, with its schema and options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, Generic, Literal, TypeAlias, cast, overload

from msgspec import to_builtins

from upshot.contract.base.checks import check_function, name_of_function
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.pending import Audience
from upshot.contract.provenance import ArgumentWord, Record, ToolDeclaration
from upshot.contract.settings import OnUnknown
from upshot.contract.tool_calls import ToolSpec
from upshot.errors import Misuse
from upshot.tools.definition.body import Body, FunctionBody
from upshot.tools.definition.identity import Once, OnRepeat, Scope, check_identity, read_names
from upshot.tools.definition.tool_options import (
    Trust,
    check_known,
    check_tool,
    read_declaration,
    read_resources,
    to_effect,
)

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    from upshot.tools.arguments.argument_check import ArgumentCheck
    from upshot.tools.definition.lookup import Lookup
    from upshot.tools.definition.tool_options import (
        Address,
        Circuit,
        Predicate,
        ProcessLimits,
        Rate,
        VerifyHook,
    )

    # The function's parameters, its return type, and (for methods) its owner.
    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=object)
    Q = ParamSpec("Q")
    S = TypeVar("S")
else:
    from typing import ParamSpec, TypeVar

    P, Q = ParamSpec("P"), ParamSpec("Q")
    R_co, S = TypeVar("R_co", covariant=True), TypeVar("S")


EffectWord: TypeAlias = Effect | Literal["read", "write", "destructive"]
Public: TypeAlias = bool | Callable[[JsonObject], JsonObject]
Resources: TypeAlias = Iterable[str] | Callable[[JsonObject], Iterable[str]]


@dataclass(frozen=True, eq=False, repr=False)
class Tool(Generic[P, R_co]):
    """A function that a model can call.

    Made by ``@tool`` or ``Tool.from_schema``. It can still be called like the function itself, with
    the same parameters and result: ``Tool[P, R_co]``.

    Attributes:
        name: The name that the model calls: 1 to 64 of a-z, A-Z, 0-9, ``_``, ``-`` and ``.``.
        body: The function behind it, with its schema.
        about: The description for the model; None uses the docstring.
        effect: What a call may change outside; None is undeclared and counts as write.
        idempotent: Whether calling it twice with the same arguments is as good as once. A
            repetition after a success in the same turn is denied as a duplicate.
        repeatable: Whether repetitions make sense even so, as in polling.
        network: Whether it uses the network.
        resources: What a call touches: names, or a function from the arguments to names.
            None is undeclared and counts as everything.
        approval: Whether a call needs the user's approval: True, False, or a pure function of the
            arguments that returns one of them; None asks for destructive tools. If the function
            raises, the user is asked.
        deny: Whether calls are denied: True, False, or a pure function of the arguments that
            returns one of them. If the function raises, the user is asked.
        once: The identity of its effect, which then happens only once however often it is
            requested: an argument, a tuple of arguments, or a pure function of all arguments that
            returns a text, or None for a call without identity. None means no identity.
        effect_name: The name of the effect, which several tools may share; "" is the tool's name.
        scope: Where the effect happens only once: in the "journal", or per "tenant",
            "conversation" or "run".
        may_differ: Arguments that may differ in a second call; any other difference is a conflict.
        on_repeat: What a second call gets: the output of the first ("repeat") or a denial ("deny").
        claim_wait_s: Seconds to wait while another call makes the same effect; None is the tool's
            timeout.
        keep: How long after it completed the effect is remembered; None is forever.
        timeout_s: Seconds for one run of the body; None is ``Budget.tool_timeout_s``.
        retry_on_timeout: Whether a call may be repeated after a timeout; None derives this from
            the effect.
        min_useful_s: The call is not started if less time than this is left.
        isolation: "process" runs each call in a separate process, which is killed along with
            every process it started; ``ToolContext.dependencies`` is None there. None runs it in
            this process.
        limits: Resource limits of that process; None means no limit.
        env: Environment variables for that process. It inherits only a few that hold no secrets:
            PATH, HOME, LANG, those starting with PYTHON and the like.
        verify: Checks whether a call with an unknown effect took effect, before it is repeated: a
            ``VerifyHook``, or a ``Lookup``, which asks another tool. None leaves it unknown.
        on_unknown: What a run does if the effect is still unknown after that: "tell" (report it to
            the model), "ask" (park with a ``PendingEffect``) or "stop" (fail with
            ``effect_unknown``). None uses the policy's value; without one, "ask" if the tool
            declares ``destructive``, otherwise "tell".
        repair: Whether a model is asked, once, to correct invalid arguments.
        retries: How often a failed body is run again immediately if its effect is known.
        error_key: A returned mapping with a truthy value under this key is a failure; None
            disables this.
        concurrency: How many calls of it may run at a time; None means no limit.
        trust: "untrusted" if its results may contain untrusted content; "trusted" if they are
            entirely your own system's words, so that its records can resolve names that the user
            mentions; otherwise "".
        foreign: Whether its name, description and schema come from outside, such as from an MCP
            server. With ``trust="untrusted"``, a run is tainted as soon as the tool is offered.
        arguments: The role of each argument for ``Policy(taint="values")``, such as "recipient" or
            ``ref("file")``; an argument that is not listed is a "target".
        records: The records that its results consist of.
        private: Whether its results are private; sending data out after them needs approval.
        asked_by: Words that a user may use to ask for it; empty uses the first word of its name.
        approval_expires_s: Seconds until an unanswered approval is asked again; None uses the
            policy's value.
        approvals: How many different users must approve a call, 1 or more. With 2 or more every
            call needs approval, unless ``approval`` says which do.
        rate: How often a run may call it; None means no limit.
        circuit: When a run stops calling it after failures; None is never.
        block_scope: What a final failure blocks for the rest of the turn: the "tool", or only
            calls with the same arguments ("key").
        plain_text: Whether a returned text reaches the model as it is; False wraps it as the JSON
            ``{"result": "..."}``.
        ask: Who may approve its calls: "staff", or "user" to include the user of the run, at any
            door.
        public: What the user of the run sees of its calls at a public door: False is nothing, True
            is their progress, and a function from the arguments to a JSON object adds that object.
        public_name: The name shown to the user; "" is the tool's name.
    """

    name: str
    body: Body
    _: KW_ONLY
    about: str | None = None
    effect: Effect | None = None
    idempotent: bool = False
    repeatable: bool = False
    network: bool = False
    resources: Resources | None = None
    approval: bool | Predicate | None = None
    deny: bool | Predicate = False
    once: Once | None = None
    effect_name: str = ""
    scope: Scope = "journal"
    may_differ: str | tuple[str, ...] = ()
    on_repeat: OnRepeat = "repeat"
    claim_wait_s: float | None = None
    keep: timedelta | None = None
    timeout_s: float | None = None
    retry_on_timeout: bool | None = None
    min_useful_s: float = 0.0
    isolation: Literal["process"] | None = None
    limits: ProcessLimits | None = None
    env: Mapping[str, str] | None = None
    verify: VerifyHook | Lookup | None = None
    on_unknown: OnUnknown | None = None
    repair: bool = False
    retries: int = 0
    error_key: str | None = "error"
    concurrency: int | None = None
    trust: Trust = ""
    foreign: bool = False
    arguments: Mapping[str, ArgumentWord] | None = None
    records: Record | Iterable[Record] = ()
    private: bool = False
    asked_by: str | Iterable[str] = ()
    approval_expires_s: float | None = None
    approvals: int = 1
    rate: Rate | None = None
    circuit: Circuit | None = None
    block_scope: Literal["tool", "key"] = "tool"
    plain_text: bool = True
    ask: Audience = "staff"
    public: Public = False
    public_name: str = ""
    # Not a field: a handoff is ordered like a write, but changes nothing outside the run.
    reaches_outside = True
    # The same: its body only runs an agent, whose own limits hold.
    runs_agent = False

    def __post_init__(self) -> None:
        check_tool(vars(self))
        self.declaration  # noqa: B018  # declaring an unknown argument is misuse at definition
        if self.effect is not None:
            object.__setattr__(self, "effect", to_effect(self.name, self.effect))
        if self.resources is not None:
            object.__setattr__(self, "resources", read_resources(self.name, self.resources))
        if not callable(self.once) and self.once is not None:
            object.__setattr__(self, "once", read_names(self.name, "once", self.once))
        object.__setattr__(self, "may_differ", read_names(self.name, "may_differ", self.may_differ))
        check_identity(self)
        if self.isolation is not None:
            self.address  # noqa: B018  # having no address is misuse at definition

    def __repr__(self) -> str:
        from upshot.contract.base.reprs import portray_briefly

        return portray_briefly(self, without=("body", "env"))

    @property
    def description(self) -> str:
        """The description for the model."""
        return self.body.description if self.about is None else self.about

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of the arguments; do not change it."""
        return self.body.parameters

    @cached_property
    def declaration(self) -> ToolDeclaration:
        """What the tool declares to a policy.

        Raises:
            Misuse: It names an unknown argument, or a value has the wrong type.
        """
        return read_declaration(self)

    @cached_property
    def version(self) -> str:
        """Digest of its name, description, schema and declarations, 16 hex digits."""
        import hashlib

        from upshot.contract.base.json_values import canonical_json

        described: list[Json] = [self.name, self.description, self.parameters]
        if self.declaration.declares:
            described.append(cast("JsonObject", to_builtins(self.declaration)))
        text = canonical_json(described)
        return hashlib.sha256(text).hexdigest()[:16]

    @cached_property
    def check(self) -> ArgumentCheck:
        """The parser and validator of its arguments."""
        from upshot.tools.arguments.argument_check import ArgumentCheck

        return ArgumentCheck(self.name, self.parameters)

    @cached_property
    def address(self) -> Address:
        """Where a separate process finds the function.

        Raises:
            Misuse: Another process cannot import it by name.
        """
        if self.isolation != "process":
            raise Misuse(
                f"tool {self.name!r}: isolation is {self.isolation!r}: give 'process' or None"
            )
        if not isinstance(self.body, FunctionBody) or self.is_unbound:
            raise Misuse(
                f"tool {self.name!r}: isolation='process' needs a function at the top of a module"
            )
        from upshot.tools.definition.tool_options import address_of

        return address_of(self.body.function, self.name)

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is offered to a model."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    @cached_property
    def declared_effect(self) -> Effect:
        """The declared effect; write if none was declared."""
        return self.effect or Effect.WRITE

    @cached_property
    def may_write(self) -> bool:
        """Whether a call may change something outside."""
        return self.effect is not Effect.READ

    @cached_property
    def always_asks(self) -> bool:
        """Whether every call needs approval, whatever the policy or a hook says."""
        if self.approval is None:
            return self.effect is Effect.DESTRUCTIVE or self.approvals > 1
        return self.approval is True

    @cached_property
    def is_deduplicated(self) -> bool:
        """Whether repetitions are denied: it is idempotent, not repeatable, and has no identity."""
        return self.idempotent and not self.repeatable and self.once is None

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a second call could double the effect, so equal calls are denied.

        True for a declared write that is neither idempotent nor repeatable, and for every tool
        with an identity.
        """
        if self.once is not None:
            return True
        writes = self.effect is Effect.WRITE or self.effect is Effect.DESTRUCTIVE
        return writes and not self.idempotent and not self.repeatable

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method that is not bound to an object yet."""
        return isinstance(self.body, FunctionBody) and self.body.is_method

    def resources_of(self, arguments: JsonObject) -> frozenset[str] | None:
        """Return what a call with *arguments* touches; None means anything.

        Raises:
            Exception: Whatever the tool's own function of the arguments raises.
        """
        if self.resources is None:
            return None
        named = self.resources(arguments) if callable(self.resources) else self.resources
        return frozenset(named)

    def touched_by(self, arguments: JsonObject) -> frozenset[str] | None:
        """Like ``resources_of`` for unchecked arguments; None if the function raises."""
        try:
            return self.resources_of(arguments)
        except Exception:  # the function only has to cope with checked arguments
            return None

    @cached_property
    def continues(self) -> bool:
        """Whether its body uses the log of its call (see ``execution.call_log``)."""
        # A mark of the function, so that every copy of the tool has it.
        return bool(getattr(self.body.function, "continues", False))

    def but(self, **changes: object) -> Tool[P, R_co]:
        """Return a copy of this tool with some fields changed, such as ``name``.

        Raises:
            TypeError: There is no such field.
        """
        return replace(self, **cast("dict[str, JsonObject]", changes))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, without gates or a record."""
        # So that a decorated function keeps working for its other callers and its tests.
        return cast("Callable[P, R_co]", self.body.function)(*args, **kwargs)

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> Tool[P, R_co]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[S, Q], R_co], owner: S, kind: type | None = None
    ) -> Tool[Q, R_co]: ...
    def __get__(self, owner: object, kind: type | None = None) -> Tool[..., R_co]:
        """Bind the tool of a method to its object."""
        if owner is None or not isinstance(self.body, FunctionBody) or not self.is_unbound:
            return self
        return replace(self, body=self.body.bind(owner))

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        parameters: JsonObject,
        call: Callable[..., object],
        *,
        effect: EffectWord | None = None,
        idempotent: bool = False,
        repeatable: bool = False,
        network: bool = False,
        resources: Resources | None = None,
        approval: bool | Predicate | None = None,
        deny: bool | Predicate = False,
        timeout_s: float | None = None,
        error_key: str | None = "error",
        trust: Trust = "",
        foreign: bool = False,
    ) -> Tool:
        """Make a tool from a JSON Schema.

        Args:
            name: The name that the model calls.
            description: The description for the model.
            parameters: JSON Schema of the arguments, an object schema; it is copied.
            call: A function, plain or async, that takes the arguments as one dict. If its first
                parameter is annotated ``ToolContext``, the context is passed before them.

        The other options are fields of ``Tool``.

        Raises:
            Misuse: The name, schema or callable is unusable, or an option has the wrong type.
        """
        from upshot.tools.definition.body import read_body

        if isinstance(call, Tool):
            raise Misuse(f"{name!r}: call is the tool {call.name!r}: use .but(...) to change it")
        body = read_body(name, description, parameters, call)
        return cls(
            name,
            body,
            effect=None if effect is None else to_effect(name, effect),
            idempotent=idempotent,
            repeatable=repeatable,
            network=network,
            resources=resources,
            approval=approval,
            deny=deny,
            timeout_s=timeout_s,
            error_key=error_key,
            trust=trust,
            foreign=foreign,
        )


@overload
def tool(function: Callable[P, R_co], /) -> Tool[P, R_co]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectWord | None = None,
    idempotent: bool = False,
    repeatable: bool = False,
    network: bool = False,
    resources: Resources | None = None,
    approval: bool | Predicate | None = None,
    deny: bool | Predicate = False,
    once: Once | None = None,
    effect_name: str = "",
    scope: Scope = "journal",
    may_differ: str | tuple[str, ...] = (),
    on_repeat: OnRepeat = "repeat",
    claim_wait_s: float | None = None,
    keep: timedelta | None = None,
    timeout_s: float | None = None,
    retry_on_timeout: bool | None = None,
    min_useful_s: float = 0.0,
    isolation: Literal["process"] | None = None,
    limits: ProcessLimits | None = None,
    env: Mapping[str, str] | None = None,
    retries: int = 0,
    verify: VerifyHook | Lookup | None = None,
    on_unknown: OnUnknown | None = None,
    repair: bool = False,
    error_key: str | None = "error",
    concurrency: int | None = None,
    trust: Trust = "",
    arguments: Mapping[str, ArgumentWord] | None = None,
    records: Record | Iterable[Record] = (),
    private: bool = False,
    asked_by: str | Iterable[str] = (),
    approval_expires_s: float | None = None,
    approvals: int = 1,
    rate: Rate | None = None,
    circuit: Circuit | None = None,
    block_scope: Literal["tool", "key"] = "tool",
    plain_text: bool = True,
    ask: Audience = "staff",
    public: Public = False,
    public_name: str = "",
) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...
def tool(
    function: Callable[P, R_co] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectWord | None = None,
    **fields: object,
) -> Tool[P, R_co] | Callable[[Callable[P, R_co]], Tool[P, R_co]]:
    """Make a tool from a function, plain or async: ``@tool`` or ``@tool(effect="read")``.

    The schema comes from the signature, the descriptions from the docstring. A first parameter
    annotated with ``ToolContext`` receives the context and is hidden from the model. A plain
    function runs in a thread, or in a separate process with ``isolation="process"``.

    Args:
        name: The name that the model calls; None is the function's name.
        description: The description for the model; None is the docstring.

    The other options are fields of ``Tool``.

    Raises:
        Misuse: The function has no name, is a generator or a class, or has a parameter that
            JSON cannot express; or it should run in a separate process, which cannot import it;
            or an option does not exist.
    """
    check_known(fields, _OPTIONS)

    def make(function: Callable[P, R_co]) -> Tool[P, R_co]:
        if not callable(function):
            raise Misuse(f"@tool takes a function, not {function!r}: give options by keyword")
        named = name_of_function(function) if name is None else name
        if isinstance(function, Tool):
            raise Misuse(f"{named!r} is a tool already: use .but(...) to change it")
        check_function(function, named)
        made = Tool(
            named,
            FunctionBody(function, named),
            about=description,
            effect=None if effect is None else to_effect(named, effect),
            **fields,  # pyright: ignore[reportArgumentType]  # the overload has their types
        )
        return cast("Tool[P, R_co]", made)

    return make if function is None else make(function)


_INNER = ("name", "body", "about")
_OPTIONS = ("name", "description", *(key for key in Tool.__dataclass_fields__ if key not in _INNER))
