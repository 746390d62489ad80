"""Hypothesis strategies for every value of the contract.

A struct's strategy is made of its annotations, so that a new field or struct needs no line
here; ``FIXED`` has what its annotations do not say. Only a few fields are set at a time, for
values with all of them are too large to be drawn often.
"""

import enum
import types
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from upshot import contract
from upshot.contract import (
    AgentError,
    AgentResult,
    Event,
    Json,
    JsonObject,
    Local,
    Message,
    ModelResponse,
    OpenWord,
    Part,
    Retry,
    Status,
    ToolOutcome,
    ToolRecord,
    Unknown,
    Usage,
)

__all__ = [
    "STRUCTS",
    "TAGGED",
    "events",
    "json_objects",
    "json_values",
    "kinds",
    "messages",
    "moments",
    "money",
    "outcomes",
    "parts",
    "records",
    "responses",
    "results",
    "structs",
    "texts",
    "unknown_kinds",
    "unknowns",
    "usages",
]

MAX_FIELDS = 5

STRUCTS: tuple[Any, ...] = tuple(
    value
    for name in contract.__all__
    if isinstance(value := getattr(contract, name), type)
    and issubclass(value, msgspec.Struct)
    # The base of events is none itself, and a model request is never written.
    and name not in ("RunEvent", "ModelRequest")
)
TAGGED: tuple[Any, ...] = tuple(s for s in STRUCTS if s.__struct_config__.tag is not None)
KNOWN_KINDS = frozenset(s.__struct_config__.tag for s in TAGGED)


def texts() -> SearchStrategy[str]:
    """Any text that UTF-8 can hold."""
    return st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


def json_values(*, max_leaves: int = 5) -> SearchStrategy[Json]:
    """Any JSON value, also with keys and integers that readers stumble over."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**66), 2**66),
        st.floats(allow_nan=False, allow_infinity=False),
        texts(),
        st.sampled_from(["text", "unknown", "?"]),
    )
    keys = st.one_of(texts(), st.sampled_from(["kind", "raw", "a.b[0]"]))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=max_leaves,
    )


def json_objects() -> SearchStrategy[JsonObject]:
    """Any JSON object."""
    return st.dictionaries(texts(), json_values(max_leaves=3), max_size=3)


def moments() -> SearchStrategy[datetime]:
    """Moments in UTC, far enough from the ends of time to add a duration."""
    return st.integers(0, 10**10).map(lambda seconds: datetime.fromtimestamp(seconds / 8, UTC))


def money() -> SearchStrategy[Decimal]:
    """Amounts as prices make them: many digits, never negative."""
    return st.decimals(0, 10**9, allow_nan=False, allow_infinity=False, places=12)


def kinds() -> SearchStrategy[str]:
    """Words that are a kind now."""
    return st.sampled_from(sorted(KNOWN_KINDS - {Unknown.__struct_config__.tag}))


def unknown_kinds() -> SearchStrategy[str]:
    """Words that may become a kind, and absurd ones."""
    words = st.from_regex(r"[a-z][a-z0-9]{0,8}(_[a-z0-9]{1,8}){0,2}", fullmatch=True)
    odd = st.sampled_from(["unknown", "", "' - at `$.kind`", "a'b", "Text", "\n"])
    return st.one_of(words, odd, texts()).filter(lambda word: word not in KNOWN_KINDS)


def unknowns() -> SearchStrategy[Unknown]:
    """Parts or events of a kind that this version does not know."""
    return st.builds(
        lambda kind, fields: Unknown(raw={**fields, "kind": kind}), unknown_kinds(), json_objects()
    )


@cache
def of(hint: Any) -> SearchStrategy[Any]:
    """Values that the annotation *hint* allows."""
    origin = get_origin(hint)
    if hint in LEAVES:
        return LEAVES[hint]()
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    if origin in (Union, types.UnionType):
        return st.one_of([of(part) for part in get_args(hint)])
    if origin is tuple:
        return st.lists(of(get_args(hint)[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(texts(), of(get_args(hint)[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, OpenWord):
        return st.one_of(st.sampled_from(list(hint)), texts().map(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(list(hint))
    return structs(origin or hint)


def structs(kind: Any) -> SearchStrategy[Any]:
    """Values of the struct *kind*."""
    return unknowns() if kind is Unknown else st.deferred(lambda: _filled(kind))


@st.composite
def _filled(draw: st.DrawFn, kind: Any) -> Any:
    hints = {**get_type_hints(kind), **FIXED.get(kind, {})}
    required = [f.name for f in msgspec.structs.fields(kind) if f.required]
    free = [name for name in kind.__struct_fields__ if name not in (*required, "schema_version")]
    chosen = draw(st.lists(st.sampled_from(free), max_size=MAX_FIELDS, unique=True)) if free else []
    values = {name: draw(_strategy(hints[name])) for name in (*required, *chosen)}
    if kind is AgentResult:
        values["status"] = draw(st.sampled_from(Status))
        bad = values["status"] is not Status.COMPLETED
        values["error"] = draw(structs(AgentError)) if bad else None
    return kind(**values)


def _strategy(hint: Any) -> SearchStrategy[Any]:
    return hint if isinstance(hint, SearchStrategy) else of(hint)


COUNTS = st.integers(0, 10**12)
# A step of one binary digit of 2**-10: no text of it is long.
SECONDS = st.integers(0, 10**9).map(lambda ticks: ticks / 1024)
RULES = st.lists(st.sampled_from(["mail_*", "effect:write", "network:on"]), max_size=2).map(tuple)

LEAVES: dict[Any, Callable[[], SearchStrategy[Any]]] = {
    Any: json_values,
    str: texts,
    int: lambda: COUNTS,
    float: lambda: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans,
    bytes: lambda: st.binary(max_size=8),
    date: st.dates,
    datetime: moments,
    Decimal: money,
    Local: lambda: st.builds(lambda raw: Local(raw=raw), st.just(object())),
    types.NoneType: st.none,
}
FIXED: dict[Any, dict[str, SearchStrategy[Any]]] = {
    AgentResult: {"output": json_values()},
    Retry: {"max_tries": st.integers(1, 99), "max_wait_s": SECONDS, "base_s": SECONDS},
    contract.EffectClaim: {"id": st.binary(min_size=16, max_size=16).map(bytes.hex)},
    contract.Budget: {"deadline_s": SECONDS, "working_s": SECONDS, "tool_timeout_s": SECONDS},
    contract.Policy: {"allow": RULES, "deny": RULES, "ask": RULES, "approval_expires_s": SECONDS},
}


def results() -> SearchStrategy[AgentResult[Json]]:
    """Results of any status."""
    return structs(AgentResult)


def responses() -> SearchStrategy[ModelResponse]:
    """Replies of models, good and bad."""
    return structs(ModelResponse)


def messages() -> SearchStrategy[Message]:
    """Messages of any role, with parts known and unknown."""
    return structs(Message)


def parts() -> SearchStrategy[Part]:
    """Parts of messages, known and unknown."""
    return of(Part)


def records() -> SearchStrategy[ToolRecord]:
    """Records of tool calls with any outcome."""
    return structs(ToolRecord)


def outcomes() -> SearchStrategy[ToolOutcome]:
    """The five outcomes."""
    return of(ToolOutcome)


def events() -> SearchStrategy[Event]:
    """Events of runs, known and unknown."""
    return of(Event)


def usages() -> SearchStrategy[Usage]:
    """Tokens of any number of calls."""
    return structs(Usage)
