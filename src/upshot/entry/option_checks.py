"""Checks what ``run``, ``resume`` and their kin were given, before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.checks import (
    ANYTHING,
    Allowed,
    check_argument,
    did_you_mean,
    engine_hint,
    shown,
    whole_number,
)
from upshot.contract.base.enums import Origin, Role
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json
from upshot.contract.error import RunWarning
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.settings import Budget, ModelSettings, Policy, Quota, Retry
from upshot.errors import Misuse
from upshot.runs.limits.pacer import Pacer
from upshot.runs.limits.quotas import BoundQuota
from upshot.runs.plan import RunOptions

RESUME_NAMES = ("answers", "continue_stopped", "journal", "take_over")
"""What ``resume`` and ``reopen`` take by name beside the options."""

_USER = Role.USER
_OPTIONS = RunOptions.__optional_keys__
# What only a command line gives; the list of options leaves it out.
_UNTOLD = frozenset({"launch"})
# A host may lack every method, but none of these is meant as one.
_PLAIN = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)
_FUNCTION = Allowed("a function", methods=("__call__",))
_STRING = Allowed("a string", (str,))
_MAPPING = Allowed("a mapping from names to JSON values", (Mapping,))


def _list_of(words: str, item: Allowed = ANYTHING) -> Allowed:
    return Allowed(f"a list of {words}", items=item)


def _one_of(*words: str) -> Allowed:
    said = " or ".join(map(repr, words))
    return Allowed(said, fits=words.__contains__)


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
        "a list of gates, or a function of the standard ones that gives all",
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
    # What opens it says more of what is wrong.
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
}
"""What each option of ``run`` and ``resume`` may be; every option has a row."""


def check_options(options: Mapping[str, object], *, also: Collection[str] = ()) -> None:
    """Check the names of the options, and that each is what its row in ``OPTIONS`` allows.

    A list that can be read only once, such as a generator, is made one that can be read again.
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            known = _OPTIONS.union(also)
            told = ", ".join(sorted(known - _UNTOLD))
            hint = _home_of(name) or did_you_mean(name, known, f"there are {told}")
            raise Misuse(f"a run has no option {name!r}: {hint}")
        allowed, kept = OPTIONS[name], value
        if isinstance(value, Iterator) and allowed.items is not None:
            kept = tuple(cast("Iterator[object]", value))
            cast("dict[str, object]", options)[name] = kept
        if kept is not None:
            check_argument(name, kept, allowed)


def _home_of(name: str) -> str:
    """Where *name* is given that is no option, but a field of one; "" for any other name."""
    homes = (("budget=", Budget), ("settings=", ModelSettings), ("policy=", Policy), ("", Request))
    for option, kind in homes:
        if name in kind.__struct_fields__:
            return f"give {option}{kind.__name__}({name}=...)"
    return ""


def check_run_id(run_id: object) -> None:
    """Check that the run to go on with is given by its id."""
    check_argument("run_id", run_id, _RUN_ID)


def _run_id_hint(value: object) -> str:
    if isinstance(value, AgentResult):
        return "give its run_id"
    return "give the run's id first, then the agent" if isinstance(value, Agent | AgentSpec) else ""


_FITS_RUN_ID = re.compile(r"[^\s/\x00-\x1f\x7f]*").fullmatch
_RUN_ID = Allowed("the id of a run, a string", (str,), hint=_run_id_hint)


def items_of(options: Mapping[str, object], name: str) -> tuple[Any, ...]:
    """The items of a list among the options, empty where it is not given."""
    items = options.get(name)
    return tuple(cast("Iterable[Any]", items)) if items else ()


def object_of(options: Mapping[str, object], name: str) -> dict[str, Json]:
    """A mapping among the options as JSON, empty where it is not given."""
    value = options.get(name)
    return _as_object(name, value) if value else {}


def check_encodable(name: str, text: str) -> None:
    """Refuse a name that UTF-8 cannot hold."""
    if clean_text(text) is not text:
        raise Misuse(f"{name} must be text that can be encoded, got lone surrogates: {text!r}")


def to_request(request: object) -> Request:
    """The request that an API function was given, made JSON."""
    if isinstance(request, str):
        return Request(Message(_USER, clean_text(request)))
    if isinstance(request, Message):
        request = Request(request)
    if not isinstance(request, Request):
        raise Misuse(f"request must be a string, a Message or a Request, got {shown(request)}")
    for name in ("run_id", "task_id", "context_id"):
        check_encodable(name, getattr(request, name))
    if not _FITS_RUN_ID(request.run_id):
        # A run is named in commands and, before a slash, in answers.
        given = shown(request.run_id)
        raise Misuse(f"a run_id has no blanks, slashes or control characters, got {given}")
    if not request.inputs and not request.metadata:
        return request
    return replace(
        request,
        inputs=_as_object("inputs of the request", request.inputs),
        metadata=_as_object("metadata of the request", request.metadata),
    )


def check_hooks(what: str, items: Iterable[object], methods: Collection[str]) -> None:
    """Check that each item has one of these methods at least; a mistyped one is never called."""
    for item in items:
        if isinstance(item, type):
            raise Misuse(f"{what} must be objects, got {shown(item)}")
        if not any(callable(getattr(item, name, None)) for name in methods):
            wanted = f"objects with one of {', '.join(methods)}"
            raise Misuse(f"{what} must be {wanted}, got {shown(item)}")


def losses_of(request: object, options: Mapping[str, object]) -> tuple[RunWarning, ...]:
    """A warning for each value of the caller's that JSON cannot hold and that was replaced."""
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
            message=f"{place} holds what JSON cannot: it was replaced",
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
        raise Misuse(f"{what} must be a mapping from names to JSON values, got {shown(value)}")
    return form
