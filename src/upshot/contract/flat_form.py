"""The flat contract dict: nine keys, plain values, absent where unknown."""

from __future__ import annotations

from typing import Protocol

import msgspec

from .error import AgentError
from .free_json import to_json
from .own_output import has_own_output
from .rate_limit import RateLimitState
from .usage import Cost, Usage
from .value import Json, JsonObject
from .words import FinishReason

__all__ = ["FLAT_KEYS", "plain", "to_flat_form"]

FLAT_KEYS = (
    "output",
    "content",
    "usage",
    "cost",
    "metadata",
    "finish_reason",
    "error",
    "rate_limit",
    "provider_data",
)


class _Flat(Protocol):
    """The fields that the flat form is made of; named here, for the result imports this module."""

    @property
    def output(self) -> object: ...
    @property
    def content(self) -> str | None: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def cost(self) -> Cost | None: ...
    @property
    def metadata(self) -> JsonObject: ...
    @property
    def finish_reason(self) -> FinishReason | None: ...
    @property
    def error(self) -> AgentError | None: ...
    @property
    def rate_limit(self) -> RateLimitState | None: ...
    @property
    def provider_data(self) -> JsonObject: ...


def to_flat_form(result: _Flat) -> JsonObject:
    """Make plain dicts of *result*: money as floats, unknown keys missing."""
    form: JsonObject = {}
    output = plain(result.output)
    if has_own_output(output, result.content):
        form["output"] = output
    if result.content is not None:
        form["content"] = result.content
    if result.usage:
        form["usage"] = plain(result.usage)
    if result.cost is not None:
        form["cost"] = plain(result.cost)
    if result.finish_reason is not None:
        form["finish_reason"] = str(result.finish_reason)
    if result.error is not None:
        form["error"] = plain(result.error)
    if result.rate_limit is not None:
        form["rate_limit"] = plain(result.rate_limit)
    for key in ("metadata", "provider_data"):
        if value := getattr(result, key):
            form[key] = plain(value)
    return form


def plain(value: object) -> Json:
    """New builtins made of *value*: structs become dicts, money floats, tuples lists."""
    return msgspec.json.decode(to_json(value))
