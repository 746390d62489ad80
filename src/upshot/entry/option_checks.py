"""Arguments: what is plainly wrong in the call of a door, before anything is opened."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.checks import check_whole, engine_hint, kind_of, with_article
from upshot.contract.base.enums import Origin, Role
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json
from upshot.contract.error import RunWarning
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.settings import Budget, ModelSettings, Policy, Retry
from upshot.errors import Misuse
from upshot.runs.plan import RunOptions

__all__ = [
    "RESUME_NAMES",
    "check_hooks",
    "check_options",
    "check_run_id",
    "items_of",
    "losses_of",
    "object_of",
    "to_request",
]

RESUME_NAMES = ("answers", "journal", "take_over")
"""What ``resume`` and ``reopen`` take by name beside the options."""

_USER = Role.USER
_OPTIONS = RunOptions.__optional_keys__
# What only a command line gives, and a list for people leaves out.
_UNTOLD = frozenset({"launch"})
_KINDS: dict[str, type] = {
    "budget": Budget,
    "max_attempts": int,
    "parent_run_id": str,
    "policy": Policy,
    "resume_from": Checkpoint,
    "retry": Retry,
    "settings": ModelSettings,
}
_LISTS = ("artifacts", "committers", "deciders", "observers", "secrets", "tools")
_TEXTS = ("artifacts", "secrets")
_METHODS = {
    "artifact_store": ("put", "read"),
    "clock": ("monotonic", "now", "sleep"),
    "engine": ("execute",),
}
_JUDGED = frozenset({*_KINDS, *_LISTS, *_METHODS, "approve", "host", "prepare"})
# A host may lack every method, but none of these is meant as one.
_NO_HOSTS = frozenset({bool, bytes, dict, float, frozenset, int, list, set, str, tuple})


def check_options(options: Mapping[str, object], *, also: Collection[str] = ()) -> None:
    """Check the names of the options, and that each is of its kind.

    A list that can be read only once, such as a generator, is made one that can be read again.

    Args:
        options: What was given.
        also: What else the door takes by name, to be told of where a name is wrong.

    Raises:
        Misuse: One is not; the message names it and what to give.
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            known = _OPTIONS.union(also)
            near = difflib.get_close_matches(name, known, n=1)
            told = ", ".join(sorted(known - _UNTOLD))
            hint = f"did you mean {near[0]!r}?" if near else f"there are {told}"
            raise Misuse(f"a run has no option {name!r}: {hint}")
        if value is not None and name in _JUDGED:
            if name == "max_attempts":
                check_whole(name, value, least=1)
            _check_kind(name, value)
            if isinstance(value, Iterator) and name in _LISTS:
                kept = tuple(cast("Iterator[object]", value))
                cast("dict[str, object]", options)[name] = kept
                _check_items(name, kept)


def check_run_id(run_id: object) -> None:
    """Check that a door that goes on with a run was given the id of one.

    Raises:
        Misuse: It is no string; the message says what to give.
    """
    if isinstance(run_id, str):
        return
    hint = "give its id first"
    if isinstance(run_id, AgentResult):
        hint = "give its run_id"
    elif isinstance(run_id, Agent | AgentSpec):
        hint = "give the run's id first, then the agent"
    raise Misuse(f"the run to go on with is {kind_of(cast('object', run_id))}: {hint}")


def items_of(options: Mapping[str, object], name: str) -> tuple[Any, ...]:
    """The items of a list among the options, empty where it is not given."""
    items = options.get(name)
    return tuple(cast("Iterable[Any]", items)) if items else ()


def object_of(options: Mapping[str, object], name: str) -> dict[str, Json]:
    """A mapping among the options as JSON, empty where it is not given."""
    value = options.get(name)
    return _as_object(name, value) if value else {}


def to_request(request: object) -> Request:
    """The request that a door was given, made JSON.

    Raises:
        Misuse: It is neither a Request nor a Message nor a string, or holds no JSON.
    """
    if isinstance(request, str):
        return Request(Message(_USER, clean_text(request)))
    if isinstance(request, Message):
        request = Request(request)
    if not isinstance(request, Request):
        raise Misuse(f"a request is a string, a Message or a Request, not {kind_of(request)}")
    for name in ("run_id", "task_id", "context_id"):
        if clean_text(text := getattr(request, name)) is not text:
            raise Misuse(f"{name} is {text!r}, which is no text: it holds lone surrogates")
    if not request.inputs and not request.metadata:
        return request
    return replace(
        request,
        inputs=_as_object("inputs of the request", request.inputs),
        metadata=_as_object("metadata of the request", request.metadata),
    )


def check_hooks(what: str, items: Iterable[object], methods: Collection[str]) -> None:
    """Check that each item has one of these methods at least; a mistyped one is never called.

    Args:
        what: What they are, "observers" or "deciders".
        items: They themselves.
        methods: What may be called of them.

    Raises:
        Misuse: One has none of them, or is a class.
    """
    for item in items:
        if isinstance(item, type):
            raise Misuse(f"{what} hold the class {item.__name__}: make one: {item.__name__}(...)")
        if not any(callable(getattr(item, name, None)) for name in methods):
            raise Misuse(f"{what} hold {kind_of(item)}, which has none of {', '.join(methods)}")


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


def _check_kind(name: str, value: object) -> None:
    kind = _KINDS.get(name)
    if kind is not None and not isinstance(value, kind):
        raise Misuse(f"{name} is {kind_of(value)}: give {with_article(kind.__name__)}")
    if name in _LISTS and not _is_list(value):
        raise Misuse(f"{name} is {kind_of(value)}: give a list: {name}=[...]")
    if name in _METHODS or name == "host":
        _check_methods(name, value)
    if name in ("approve", "prepare") and not callable(value):
        raise Misuse(f"{name} is {kind_of(value)}: give a function")
    if name in _LISTS and isinstance(value, Sequence):
        _check_items(name, cast("Sequence[object]", value))


def _check_methods(name: str, value: object) -> None:
    wanted = _METHODS.get(name, ())
    lacking = next((one for one in wanted if not callable(getattr(value, one, None))), "")
    is_class = isinstance(value, type)
    if name == "engine" and (is_class or lacking):
        raise Misuse(f"engine is {engine_hint(value)}")
    if is_class:
        raise Misuse(f"{name} is the class {value.__name__}: make one: {value.__name__}(...)")
    if name == "host" and type(value) in _NO_HOSTS:
        raise Misuse(f"host is {kind_of(value)}: give an object with some of Host's methods")
    if lacking:
        raise Misuse(f"{name} is {kind_of(value)}, which has no {lacking}(...)")


def _check_items(name: str, items: Sequence[object]) -> None:
    for item in items:
        if name in _TEXTS and not isinstance(item, str):
            raise Misuse(f"{name} hold {kind_of(item)}: give strings")
        if name == "committers" and not callable(item):
            raise Misuse(f"{name} hold {kind_of(item)}: give functions")


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | Mapping)


def _as_object(what: str, value: object) -> dict[str, Json]:
    try:
        form, _ = to_free_json(value)
    except UnserializableError as error:
        raise Misuse(f"{what}: {error}") from error
    if not isinstance(form, dict):
        raise Misuse(f"{what}: give a mapping from names to JSON values, not {kind_of(value)}")
    return form
