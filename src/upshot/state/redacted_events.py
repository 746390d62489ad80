"""Defines which parts of a log are content, and removes them from events.

Content is every text, JSON value and byte string except the facts named here: what a run cost and
did, with which tool and outcome, and who approved what and when. A new field is content until it is
added to the facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from upshot.contract.base.structs import JsonObject, Local
from upshot.contract.call_counts import CallCount
from upshot.contract.effects import EffectClaim
from upshot.contract.events import (
    REDACTED,
    BoardChanged,
    Event,
    Redacted,
    RunStarted,
    SeedReference,
    StepSettled,
)
from upshot.contract.message import Artifact, File, Message, Unknown
from upshot.contract.model_calls import Request, RequestDigests
from upshot.contract.provenance import Doubt, Voucher
from upshot.contract.result import RunEffect
from upshot.contract.tool_calls import Coercion
from upshot.contract.usage import Cost
from upshot.errors import Misuse
from upshot.state.child_runs import (
    CHAIN_OPTION,
    FORKED_FROM,
    TURN_OPTION,
    child_of,
    read_settled_usage,
)
from upshot.state.request_digests import digest_of_messages
from upshot.state.stored_events import Seeds
from upshot.state.summary import OWNERS
from upshot.state.turns import turn_of

# Who and which; by which means; with which outcome.
_FACTS = """
    run_id parent_run_id agent_id to_agent_id task_id context_id id by edited_by call_id
    tool_call_id interrupted_calls artifact_id idempotency_key key step channel path literal head
    digest sha256
    tool_version effect_id
    name tool tool_name tools handoffs model engine provider media_type tool_choice gate decider
    purpose mode trust
    code type provider_code verdict decision scope rule
"""
FACTS: frozenset[str] = frozenset(_FACTS.split())
"""Fields that are kept, in any type."""
_CONTENT = frozenset(
    (
        *((kind, "path") for kind in (Coercion, Voucher, Doubt)),
        *((kind, "name") for kind in (Message, File, Artifact)),
        *((kind, "key") for kind in (EffectClaim, RunEffect)),
    )
)
"""Exceptions that are content: argument names, names of speakers and files, effect keys."""
_WHOLE = frozenset[type]((CallCount, Cost, RequestDigests))
"""Types whose texts are all facts."""
_OPTIONS = (CHAIN_OPTION, FORKED_FROM)
_HEAD = ("kind", "schema_version", "run_id", "seq", "time")

T = TypeVar("T")


def redacted(event: Event, by: str, at: datetime) -> Event:
    """Return a stored *event* without content. The first event says who redacted it and when."""
    if isinstance(event, Unknown):
        return Unknown(raw={name: event.raw[name] for name in _HEAD if name in event.raw})
    less = without_content(event)
    if isinstance(less, StepSettled) and child_of(less.key) is not None:
        # What a child run used and did is a fact.
        spent = read_settled_usage(cast("StepSettled", event).value)
        return (
            less if spent is None else replace(less, value=_to_json_object(without_content(spent)))
        )
    return (
        _redact_start(cast("RunStarted", event), less, by, at)
        if isinstance(less, RunStarted)
        else less
    )


def _redact_start(event: RunStarted, less: RunStarted, by: str, at: datetime) -> RunStarted:
    options: JsonObject = {name: event.options[name] for name in _OPTIONS if name in event.options}
    if (turn := turn_of(event.options)) is not None:
        options[TURN_OPTION] = _to_json_object(without_content(turn))
    return replace(
        less,
        request=bare_request(less.request),
        options=options,
        attributes={name: event.attributes[name] for name in OWNERS if name in event.attributes},
        redacted=event.redacted or Redacted(by=by, at=at),
    )


def bare_request(request: Request) -> Request:
    """Return *request* without content; the list of runs shows that it was redacted."""
    return replace(without_content(request), message=REDACTED)


def redacted_words(done: Redacted) -> str:
    """Say who redacted a run, and when."""
    by = f" by {done.by}" if done.by else ""
    at = f" at {done.at:%Y-%m-%d %H:%M} UTC" if done.at else ""
    return f"{by}{at}: its content is gone".lstrip()


def redaction_error(run_id: str, done: Redacted) -> Misuse:
    """Return the exception for a run that cannot continue because its content was redacted."""
    return Misuse(
        f"run {run_id} was redacted {redacted_words(done)}, so it cannot be resumed, replayed, "
        "forked or continued: start another one"
    )


async def with_seed_of(event: Event, seeds: Seeds) -> Event:
    """Return *event* with a new digest of the conversation messages that it refers to."""
    if not isinstance(event, BoardChanged) or event.seed is None:
        return event
    return with_digest(event, event.seed, await seeds(event.seed))


def with_digest(
    event: BoardChanged, seed: SeedReference, messages: Iterable[Message]
) -> BoardChanged:
    """Return *event*, which refers to a conversation by *seed*, with the digest of *messages*."""
    return replace(event, seed=replace(seed, digest=digest_of_messages(messages)))


def _to_json_object(value: object) -> JsonObject:
    return cast("JsonObject", msgspec.to_builtins(value))


def without_content(value: T) -> T:
    """Return a value of the contract with its facts and without its content."""
    if not isinstance(value, msgspec.Struct) or type(value) in _WHOLE:
        return value
    changes = {
        field.name: _erase_field(held, field)
        for field in _fields_of(type(value))
        if (held := getattr(value, field.name)) is not None
    }
    return replace(value, **changes)


class _Field(NamedTuple):
    """A field whose name does not make it a fact.

    Attributes:
        name: Its name.
        is_free: Whether it may contain any JSON value.
        is_word: Whether its texts come from a closed list.
    """

    name: str
    is_free: bool
    is_word: bool


def _erase_field(value: Any, field: _Field) -> Any:
    match value:
        case dict():
            held = cast("dict[str, Any]", value).items()
            return {key: _erase(one) for key, one in held if isinstance(one, msgspec.Struct)}
        case _ if field.is_free:
            return REDACTED
        case tuple():
            items = cast("tuple[Any, ...]", value)
            return tuple(_erase(one) for one in items if not isinstance(one, str | bytes | dict))
        case str() if not field.is_word:
            return _erase(value)
        case _:
            return value if isinstance(value, str) else _erase(value)


def _erase(value: Any) -> Any:
    match value:
        case Enum():
            return value
        case str():
            return REDACTED if value else value
        case bytes():
            return b""
        case Local():
            return None
        case _:
            return without_content(value)


@cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[_Field, ...]:
    found: list[_Field] = []
    for field in msgspec.structs.fields(kind):
        if field.name not in FACTS or (kind, field.name) in _CONTENT:
            is_choice = get_origin(field.type) in (Union, UnionType)
            options = {*(get_args(field.type) if is_choice else (field.type,))}
            is_free = any(one is Any or isinstance(one, TypeVar) for one in options)
            found.append(_Field(field.name, is_free, is_word=str not in options))
    return tuple(found)
