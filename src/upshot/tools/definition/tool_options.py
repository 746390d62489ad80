"""Options of a tool: effect, limits, rate, isolation, verification."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, get_args

from upshot.contract.base.checks import (
    Allowed,
    check_amount,
    check_argument,
    check_whole,
    format_value,
    is_amount,
    is_whole,
    nearest,
    whole_number,
)
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.provenance import Record, ToolDeclaration, read_arguments
from upshot.errors import Misuse
from upshot.tools.definition.body import is_async
from upshot.tools.definition.identity import ON_REPEAT, SCOPES, is_span
from upshot.tools.definition.lookup import Lookup

if TYPE_CHECKING:
    from upshot.contract.tool_calls import ToolFailure, ToolTimeout
    from upshot.tools.definition.tool import Tool


Trust: TypeAlias = Literal["", "untrusted", "trusted"]


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """A call whose effect is unknown: it may have taken effect or not.

    Attributes:
        call_id: The model's id of the call.
        tool_name: The name of the tool.
        arguments: The arguments of the call, valid and with defaults.
        run_id: The run that made the call.
        idempotency_key: The key that the body was given to pass to a service.
        outcome: A timeout, or a failure such as ``interrupted``.
    """

    call_id: str
    tool_name: str
    arguments: JsonObject
    run_id: str
    idempotency_key: str
    outcome: ToolTimeout | ToolFailure


VerifyAnswer: TypeAlias = Effect | str | bool | None
VerifyHook: TypeAlias = Callable[[UnknownEffect], VerifyAnswer | Awaitable[VerifyAnswer]]
"""Says whether the call took effect: "applied" or True, "none" or False, None if unknown.

Plain functions run in a thread. A hook has five seconds, or what is left of the turn. If it
raises, takes longer or returns anything else, the effect stays unknown and a warning is logged.
"""


class Condition(Protocol):
    """A condition on arguments written as text, such as ``compile_condition`` returns."""

    @property
    def text(self) -> str:
        """The text of the condition."""
        ...

    def holds(self, values: JsonObject, /) -> bool:
        """Return whether the condition is true of these arguments."""
        ...


Predicate: TypeAlias = Callable[[JsonObject], bool] | Condition
"""A pure function of all arguments of a call, valid and with defaults, or a ``Condition``."""


def ask_predicate(predicate: Predicate, arguments: JsonObject) -> bool:
    """Return whether *predicate* is true of a call.

    Raises:
        TypeError: It returned neither True nor False.
        Exception: Whatever it raises.
    """
    answer: object = predicate(arguments) if callable(predicate) else predicate.holds(arguments)
    if not isinstance(answer, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # functions may be untyped
        raise TypeError(f"it returned {format_value(answer)}; it must return True or False")
    return answer


def predicate_text(predicate: Predicate) -> str:
    """Return the name of *predicate* in a log: its text, or the function's name."""
    text = getattr(predicate, "text", None)
    if isinstance(text, str):
        return text
    return str(getattr(predicate, "__name__", type(predicate).__name__))


def _is_predicate(value: object) -> bool:
    if callable(getattr(value, "holds", None)):
        return not isinstance(value, type)
    return callable(value) and not is_async(value)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits for a tool with ``isolation="process"``, and for each process that it starts.

    Attributes:
        cpu_s: Seconds of processor time, rounded up to whole seconds; None means no limit.
        memory_bytes: Size of the address space, including the interpreter (about 100 MB);
            None means no limit. Linux enforces it; not every system does.
    """

    cpu_s: float | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        none, whose = "no limit", "ProcessLimits"
        check_amount(f"{whose}.cpu_s", self.cpu_s, above=0, is_endless=False, none=none)
        check_whole(f"{whose}.memory_bytes", self.memory_bytes, least=1, none=none)


@dataclass(frozen=True, slots=True)
class Address:
    """Where another process finds a function.

    Attributes:
        module: Its module, "" for the main script.
        file: The file of the module, "" if it has none.
        name: Its name in the module, dotted if it is in a class.
    """

    module: str
    file: str
    name: str


def address_of(function: Callable[..., object], tool_name: str) -> Address:
    """Return where another process finds *function*.

    Raises:
        Misuse: It has no such place, for instance because it is defined inside a function;
            or this system does not support isolation.
    """
    if os.name != "posix":
        raise Misuse(f"tool {tool_name!r}: isolation='process' needs a POSIX system")
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "")
    if not isinstance(module, str) or not name or "<" in name or hasattr(function, "__self__"):
        raise Misuse(
            f"tool {tool_name!r}: isolation='process' needs a function at the top of a module, "
            "because another process has to import it by name"
        )
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        module = "" if spec is None else spec.name
        if not module and not os.path.isfile(file):
            raise Misuse(
                f"tool {tool_name!r}: isolation='process' needs a module or a script file; code "
                "typed at a prompt has neither"
            )
    return Address(module, os.path.abspath(file) if file else "", name)


# Some providers allow no dots; names are translated for those when a request is sent.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DECLARABLE = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)
# What other libraries call them, and fields that are set by another option.
_SYNONYMS = {"about": "description", "timeout": "timeout_s", "doc": "description"}


def check_known(options: Iterable[str], known: Iterable[str]) -> None:
    """Check that all options exist.

    Raises:
        Misuse: An option does not exist; the message suggests a similar one.
    """
    names = list(known)
    for option in options:
        if option in names:
            continue
        near = [_SYNONYMS[option]] if option in _SYNONYMS else nearest(option, names)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise Misuse(f"@tool has no option {option!r}{hint}")


def check_tool(fields: Mapping[str, object]) -> None:
    """Check the fields of a tool.

    Args:
        fields: Its fields by name.

    Raises:
        Misuse: A value has the wrong type or is out of range.
    """
    name = fields["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Misuse(
            f"{name!r:.100} cannot be the name of a tool: give name= with 1 to 64 of "
            "a-z, A-Z, 0-9, _, - and dots"
        )
    for option, allowed in _ALLOWED.items():
        shown_name = _SYNONYMS["about"] if option == "about" else option
        check_argument(f"tool {name!r}: {shown_name}", fields[option], allowed)
    for option in ("limits", "env"):
        if fields[option] is not None and fields["isolation"] is None:
            raise Misuse(f"tool {name!r}: {option}= is only for a tool with isolation='process'")
    if fields["on_unknown"] is not None and fields["effect"] == Effect.READ:
        raise Misuse(
            f"tool {name!r}: on_unknown= is only for a tool that writes, but this one only reads"
        )
    if fields["approvals"] != 1 and (fields["approval"] is False or fields["ask"] == "user"):
        other = "approval=False" if fields["approval"] is False else "ask='user'"
        raise Misuse(
            f"tool {name!r}: approvals={fields['approvals']} means that so many of your staff must "
            f"approve a call, which {other} contradicts: leave one of them out"
        )
    if not _is_environment(fields["env"]):
        # The value is not shown, because it may contain keys.
        raise Misuse(f"tool {name!r}: env is not a mapping of names to texts: give one, or None")


def read_resources(
    name: str, resources: object
) -> tuple[str, ...] | Callable[..., Iterable[str]] | None:
    """Return *resources* as a tool stores them; an iterable is read into a tuple.

    Raises:
        Misuse: They are neither names nor a function that returns names.
    """
    if resources is None or callable(resources):
        return cast("Callable[..., Iterable[str]] | None", resources)
    wrong = Misuse(
        f"tool {name!r}: resources is {resources!r:.100}: give a list of names, or a function of "
        "the arguments"
    )
    if isinstance(resources, str | bytes | Mapping) or not isinstance(resources, Iterable):
        raise wrong
    names = tuple(cast("Iterable[object]", resources))
    if not all(isinstance(one, str) for one in names):
        raise wrong
    return cast("tuple[str, ...]", names)


def read_declaration(tool: Tool) -> ToolDeclaration:
    """Return what *tool* declares to a policy.

    Raises:
        Misuse: It names an unknown argument, or a value has the wrong type.
    """
    whose, given = f"tool {tool.name!r}: ", cast("object", tool.arguments or {})
    # The schema is built at first use, so it is read only if needed.
    properties = cast("JsonObject", tool.parameters.get("properties", {})) if given else {}
    records, asked_by = cast("object", tool.records), cast("object", tool.asked_by)
    kept = (records,) if isinstance(records, Record) else records
    words = (asked_by,) if isinstance(asked_by, str) else asked_by
    for name, items, kind in (("records", kept, Record), ("asked_by", words, str)):
        if not isinstance(items, list | tuple | set | frozenset) or not all(
            isinstance(one, kind) for one in cast("Iterable[object]", items)
        ):
            raise Misuse(f"{whose}{name} is {items!r:.60}: give a list of {kind.__name__}")
    return ToolDeclaration(
        arguments=read_arguments(given, properties, whose),
        records=tuple(cast("Iterable[Record]", kept)),
        trust=tool.trust,
        private=tool.private,
        asked_by=tuple(cast("Iterable[str]", words)),
    )


def to_effect(name: str, word: object) -> Effect:
    """Return the effect that a tool declares.

    Raises:
        Misuse: It cannot be declared.
    """
    if not isinstance(word, str) or word not in _DECLARABLE:
        raise Misuse(f"tool {name!r}: effect is {word!r}: give read, write or destructive")
    return Effect(word)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a tool may be called.

    Attributes:
        calls: How many calls may come at once, at least 1.
        per_s: Seconds until that many calls are available again, above 0.

    Raises:
        Misuse: A value is out of range.
    """

    calls: int
    per_s: float = 60.0

    def __post_init__(self) -> None:
        check_whole("Rate.calls", self.calls, least=1)
        check_amount("Rate.per_s", self.per_s, above=0)


@dataclass(frozen=True, slots=True)
class Circuit:
    """When a tool that keeps failing is not called for a while.

    Attributes:
        failures: How many timeouts and failures in a row open the circuit, at least 1.
        open_s: For how many seconds it stays open, above 0; then one trial call is allowed.

    Raises:
        Misuse: A value is out of range.
    """

    failures: int = 5
    open_s: float = 30.0

    def __post_init__(self) -> None:
        check_whole("Circuit.failures", self.failures, least=1)
        check_amount("Circuit.open_s", self.open_s, above=0)


def _is_environment(value: object) -> bool:
    if not isinstance(value, Mapping):
        return value is None
    pairs = cast("Mapping[object, object]", value).items()
    return all(isinstance(word, str) for pair in pairs for word in pair)


TRUSTS: tuple[str, ...] = get_args(Trust)
_NONE = (type(None),)
_FLAG = Allowed("True or False", (bool,))
_ANSWER = Allowed("True, False or None", (bool, *_NONE))
_TEXT = Allowed("a text or None", (str, *_NONE))
_RULE = "True, False, a plain function of the arguments, or a compiled condition"
_SECONDS = Allowed("seconds, at least 0, or None", _NONE, fits=is_amount)
_ALLOWED = {
    **dict.fromkeys(("idempotent", "plain_text", "repeatable", "network"), _FLAG),
    **dict.fromkeys(("repair", "private", "foreign"), _FLAG),
    "retry_on_timeout": _ANSWER,
    "approval": Allowed(f"{_RULE}, or None", (bool, *_NONE), fits=_is_predicate),
    "deny": Allowed(_RULE, (bool,), fits=_is_predicate),
    **dict.fromkeys(("about", "error_key"), _TEXT),
    **dict.fromkeys(("timeout_s", "approval_expires_s", "claim_wait_s"), _SECONDS),
    "min_useful_s": Allowed("seconds, at least 0", fits=is_amount),
    "retries": whole_number(0),
    "approvals": whole_number(1),
    "concurrency": Allowed(
        "a whole number of at least 1, or None", _NONE, fits=partial(is_whole, least=1)
    ),
    "verify": Allowed("a function, a Lookup or None", (Lookup, *_NONE), methods=("__call__",)),
    "effect_name": Allowed("a text", (str,)),
    "scope": Allowed("journal, tenant, conversation or run", fits=SCOPES.__contains__),
    "on_unknown": Allowed(
        '"tell", "ask", "stop" or None', _NONE, fits=("tell", "ask", "stop").__contains__
    ),
    "on_repeat": Allowed('"repeat" or "deny"', fits=ON_REPEAT.__contains__),
    "keep": Allowed("a timedelta above 0, or None", _NONE, fits=is_span),
    "ask": Allowed('"staff" or "user"', fits=("staff", "user").__contains__),
    "public": Allowed(
        "True, False, or a function of the arguments", (bool,), methods=("__call__",)
    ),
    "public_name": Allowed("a text", (str,)),
    "trust": Allowed('"untrusted", "trusted" or ""', fits=TRUSTS.__contains__),
    "block_scope": Allowed('"tool" or "key"', fits=("tool", "key").__contains__),
    "rate": Allowed("a Rate or None", (Rate, *_NONE)),
    "circuit": Allowed("a Circuit or None", (Circuit, *_NONE)),
    "limits": Allowed("ProcessLimits or None", (ProcessLimits, *_NONE)),
}
