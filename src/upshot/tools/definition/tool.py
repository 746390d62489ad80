"""Tool: something that a model can call, and what is known about it."""

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

    # The parameters of the function that a tool is made of, what it returns, and its owner.
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
    """Something that a model can call.

    Made by ``@tool`` or ``Tool.from_schema``; it can still be called like the function, with its
    parameters and its result, ``Tool[P, R_co]``.

    Attributes:
        name: What the model calls it by: 1 to 64 of a-z, A-Z, 0-9, ``_``, ``-`` and ``.``.
        body: Its work.
        about: What it does, for the model; None takes the docstring.
        effect: What it may do outside; None is undeclared and counts as write.
        idempotent: Whether running it twice with the same arguments is as good as once. A
            repetition after a success in the turn is then denied as a duplicate.
        repeatable: Whether repetitions make sense all the same, as for polling.
        network: Whether it reaches the network.
        resources: What it touches: names, or a function of the arguments that gives them.
            None is undeclared and counts as everything.
        approval: Whether the user is asked before it runs: True, False, or a pure function of the
            arguments that says so; None asks for destructive ones. A function that raises asks.
        deny: Whether its calls are denied: True, False, or a pure function of the arguments that
            says so. A function that raises has the user asked.
        once: What identifies its effect, which is made once, whoever asks for it: an argument, a
            tuple of arguments, or a pure function of all arguments that returns a text, or None
            for a call without identity. None is no identity.
        effect_name: The name of the effect, which another tool may share; "" is its own name.
        scope: Where it is made once: in the "journal", for one "tenant", in one "conversation"
            or one "run".
        may_differ: Arguments that may differ in a second call; others that differ are a conflict.
        on_repeat: What a second call gets: "repeat" is the output of the first, "deny" a denial.
        claim_wait_s: Seconds to wait for another call of the same effect that is under way; None is
            the tool's timeout.
        keep: For how long after its end the effect is made only once; None is for good.
        timeout_s: Seconds for one run of the body; None is ``Budget.tool_timeout_s``.
        retry_on_timeout: Whether it may be called again after a timeout; None concludes
            that from the effect.
        min_useful_s: With less time left than this it is not started.
        isolation: "process" runs each call in a process of its own, which is ended with all
            that it has started, and where ``ToolContext.dependencies`` is None; else None.
        limits: What such a process may use; None is no limit.
        env: Variables for such a process, which inherits only a few without secrets, such as
            PATH, HOME, LANG and those that begin with PYTHON.
        verify: Asked whether a call whose effect is unknown took effect, before it
            is repeated: a ``VerifyHook``, or a ``Lookup``, which asks another tool. None leaves it
            unknown.
        on_unknown: What a run does when its effect is unknown after that: "tell" (the model is
            told), "ask" (the run parks with a ``PendingEffect``), "stop" (it fails with
            ``effect_unknown``). None is the policy's, else "ask" for a tool that declares
            ``destructive`` and "tell" for others.
        repair: Whether a model is asked once to correct arguments that do not fit.
        retries: How often a failed body is run again at once, where nothing is unknown.
        error_key: A returned mapping with something truthy under it is a failure; None
            switches that off.
        concurrency: How many bodies of it run at a time; None is no limit of its own.
        trust: "untrusted" where its results may hold untrusted content; "trusted" where they are
            all your own system's words, so that its records say what the user's names mean; else
            "".
        foreign: Whether its name, description and schema are its source's, as those of an MCP
            server are: with ``trust="untrusted"`` a run is tainted as soon as it is offered.
        arguments: What each argument is to ``Policy(taint="values")``, such as "recipient" or
            ``ref("file")``; one that is left out is a "target".
        records: What its results are made of.
        private: Whether its results are private: what goes out after them is asked about.
        asked_by: Words by which a user asks for it; empty for the first word of its name.
        approval_expires_s: Seconds after which an unanswered approval is asked anew; None is
            what the policy says.
        rate: How often a run may call it; None is no limit of its own.
        circuit: When a run leaves it alone after failures; None is never.
        block_scope: What a failure that is final blocks for the turn: "tool", or with "key"
            only calls with the same arguments.
        plain_text: Whether the model of a run reads a text that it returns as it is; False shows
            the JSON ``{"result": "..."}``.
        ask: Who answers where its calls need approval: "staff", or "user" for the user of the run
            too, over any door.
        public: What the user of the run sees of its calls over a public door: False is nothing,
            True how far they are, and a function of the arguments gives what of them is shown
            beside that, as a JSON object.
        public_name: What the user sees it called; "" is its name.
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
    rate: Rate | None = None
    circuit: Circuit | None = None
    block_scope: Literal["tool", "key"] = "tool"
    plain_text: bool = True
    ask: Audience = "staff"
    public: Public = False
    public_name: str = ""
    # No field: a hand-off waits in line like a write, and changes nothing outside of the run.
    reaches_outside = True

    def __post_init__(self) -> None:
        check_tool(vars(self))
        self.declaration  # noqa: B018  # it is misuse at definition to declare what is not there
        if self.effect is not None:
            object.__setattr__(self, "effect", to_effect(self.name, self.effect))
        if self.resources is not None:
            object.__setattr__(self, "resources", read_resources(self.name, self.resources))
        if not callable(self.once) and self.once is not None:
            object.__setattr__(self, "once", read_names(self.name, "once", self.once))
        object.__setattr__(self, "may_differ", read_names(self.name, "may_differ", self.may_differ))
        check_identity(self)
        if self.isolation is not None:
            self.address  # noqa: B018  # it is misuse at definition to have none

    def __repr__(self) -> str:
        from upshot.contract.base.reprs import portray_briefly

        return portray_briefly(self, without=("body", "env"))

    @cached_property
    def description(self) -> str:
        """What it does, for the model."""
        return self.body.description if self.about is None else self.about

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema of its arguments; not to be changed."""
        return self.body.parameters

    @cached_property
    def declaration(self) -> ToolDeclaration:
        """What it says of itself to a policy.

        Raises:
            Misuse: It names an argument that is not there, or something is not of its type.
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
        said = canonical_json(described)
        return hashlib.sha256(said).hexdigest()[:16]

    @cached_property
    def check(self) -> ArgumentCheck:
        """How its arguments are read."""
        from upshot.tools.arguments.argument_check import ArgumentCheck

        return ArgumentCheck(self.name, self.parameters)

    @cached_property
    def address(self) -> Address:
        """Where a process of its own finds it.

        Raises:
            Misuse: Another process cannot import it by name.
        """
        if self.isolation != "process":
            raise Misuse(f"tool {self.name!r}: isolation is {self.isolation!r}; 'process' is all")
        if not isinstance(self.body, FunctionBody) or self.is_unbound:
            raise Misuse(
                f"tool {self.name!r}: isolation='process' needs a function at the top of a module"
            )
        from upshot.tools.definition.tool_options import address_of

        return address_of(self.body.function, self.name)

    @property
    def spec(self) -> ToolSpec:
        """It as it is offered to a model."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    @cached_property
    def declared_effect(self) -> Effect:
        """What it may do; write where nothing was declared."""
        return self.effect or Effect.WRITE

    @cached_property
    def may_write(self) -> bool:
        """Whether it may change something outside."""
        return self.effect is not Effect.READ

    @cached_property
    def always_asks(self) -> bool:
        """Whether the user is asked about each call of it, whatever else asks for that."""
        return self.effect is Effect.DESTRUCTIVE if self.approval is None else self.approval is True

    @cached_property
    def is_deduplicated(self) -> bool:
        """Whether its repetitions are held back: once is as good as twice, and none makes sense."""
        return self.idempotent and not self.repeatable and self.once is None

    @cached_property
    def is_guarded(self) -> bool:
        """Whether a second call could double its effect, so that equal calls are held back.

        That is so for a declared write that is neither idempotent nor repeatable, and for every
        tool with an identity.
        """
        if self.once is not None:
            return True
        writes = self.effect is Effect.WRITE or self.effect is Effect.DESTRUCTIVE
        return writes and not self.idempotent and not self.repeatable

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method that has no ``self`` yet."""
        return isinstance(self.body, FunctionBody) and self.body.is_method

    def resources_of(self, arguments: JsonObject) -> frozenset[str] | None:
        """What a call with *arguments* touches, None for anything.

        Raises:
            Exception: What the tool's own function of the arguments raises.
        """
        if self.resources is None:
            return None
        named = self.resources(arguments) if callable(self.resources) else self.resources
        return frozenset(named)

    def touched_by(self, arguments: JsonObject) -> frozenset[str] | None:
        """The same of arguments that were not checked: anything where the function refuses them."""
        try:
            return self.resources_of(arguments)
        except Exception:  # its own function takes only what was checked
            return None

    def but(self, **changes: object) -> Tool[P, R_co]:
        """This tool with some fields changed, such as ``name``.

        Raises:
            TypeError: It has no such field.
        """
        return replace(self, **cast("dict[str, JsonObject]", changes))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, without gates or a record."""
        # So that decorating a function takes nothing away from its other callers and tests.
        return cast("Callable[P, R_co]", self.body.function)(*args, **kwargs)

    @overload
    def __get__(self, owner: None, kind: type | None = None) -> Tool[P, R_co]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[S, Q], R_co], owner: S, kind: type | None = None
    ) -> Tool[Q, R_co]: ...
    def __get__(self, owner: object, kind: type | None = None) -> Tool[..., R_co]:
        """As a method: the tool with its ``self``."""
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
        """Make a tool of a JSON Schema.

        Args:
            name: What the model calls it by.
            description: What it does, for the model.
            parameters: JSON Schema of the arguments, an object schema; copied.
            call: A function, plain or async, that takes the arguments as one dict; with a
                first parameter annotated ``ToolContext`` it takes that before them.

        The others: see ``Tool``.

        Raises:
            Misuse: The name, the schema or the callable cannot be used, or an option is not of
                its type.
        """
        from upshot.tools.definition.body import read_body

        if isinstance(call, Tool):
            raise Misuse(f"{name!r}: call is the tool {call.name!r}; .but(...) changes a tool")
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
    """Make a tool of a function, plain or async: ``@tool`` or ``@tool(effect="read")``.

    The schema is made of the signature, the descriptions of the docstring. A first parameter
    annotated with ``ToolContext`` is given one and is not shown to the model. A plain function
    runs in a thread, with ``isolation="process"`` in a process of its own.

    Args:
        name: What the model calls it by; None is the function's name.
        description: What it does, for the model; None is the docstring.

    The others: see ``Tool``.

    Raises:
        Misuse: The function has no name, is a generator or a class, or has a parameter that
            JSON cannot give; or it shall run in a process, and none could import it; or there
            is no such option.
    """
    check_known(fields, _OPTIONS)

    def make(function: Callable[P, R_co]) -> Tool[P, R_co]:
        if not callable(function):
            raise Misuse(f"@tool takes a function, not {function!r}: options are keywords")
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
