"""The result as flat code makes it, from mappings, numbers and the flat structures."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import msgspec

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Json, Local
from upshot.contract.error import AgentError
from upshot.contract.forms.flat_form import coerce_result, from_contract
from upshot.contract.result import FLAT_KEYS
from upshot.contract.result import AgentResult as Result
from upshot.contract.usage import Cost, RateLimitState, Usage
from upshot.flat.conversion import from_agent_response, to_cost, to_error, to_state, to_usage
from upshot.flat.structures import AgentResponse, CostInfo, ErrorInfo, UsageInfo
from upshot.wire.rate_limits import RateLimitInfo

_FIELDS = frozenset(FLAT_KEYS)

if TYPE_CHECKING:
    # To a type checker it is a subclass with another constructor. At run time it makes
    # results of the contract, which are equal to others and encoded like others.
    class AgentResult(Result[Json], frozen=True):
        """A result, made from what flat code has.

        Args:
            output: The answer as data.
            content: The answer as text.
            raw: The native reply, in this process only.
            usage: Tokens, as a mapping or a structure.
            cost: A breakdown, or the total as a number.
            metadata: Free JSON.
            finish_reason: Why it stopped; an unknown word becomes stop and is kept in
                provider_data.
            error: As a mapping, a structure or a text; None means success.
            rate_limit: As a mapping or a structure.
            provider_data: provider, model, request_id, raw_headers and further facts.
            status: How it ended; None derives it from the error.

        Raises:
            Misuse: *status* and *error* contradict each other (also a ValueError), or an argument
                has another form; the message names it.
        """

        def __init__(
            self,
            *,
            output: object = None,
            content: str | None = None,
            raw: object = None,
            usage: Usage | UsageInfo | Mapping[str, object] | None = None,
            cost: Cost | CostInfo | Mapping[str, object] | Decimal | float | None = None,
            metadata: Mapping[str, object] | None = None,
            finish_reason: str | None = None,
            error: AgentError | ErrorInfo | Mapping[str, object] | str | None = None,
            rate_limit: RateLimitState | RateLimitInfo | Mapping[str, object] | None = None,
            provider_data: Mapping[str, object] | None = None,
            status: str | None = None,
        ) -> None: ...
else:

    class _ResultType(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, Result)

    class AgentResult(metaclass=_ResultType):
        """A result, made from what flat code has: mappings, numbers, flat structures."""

        def __new__(cls, *, raw=None, status=None, **fields):
            if unknown := fields.keys() - _FIELDS:
                names = ", ".join(sorted(unknown))
                raise TypeError(f"AgentResult() got an unexpected keyword argument: {names}")
            return _make(fields, raw=raw, status=status)


def coerce_agent_result(value: object) -> Result[Json]:
    """Make a result of anything that an agent returned or raised.

    Args:
        value: As for ``coerce_result``; an ``AgentResponse``, and a flat contract dict with
            ``raw`` as a further key, are accepted too.

    Returns:
        The result; a result is returned as it is. Never raises.
    """
    if isinstance(value, AgentResponse):
        return from_agent_response(value)
    fields = dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}
    raw = fields.pop("raw", None)
    if raw is not None and fields and _FIELDS.issuperset(fields):
        return msgspec.structs.replace(coerce_result(fields), local=Local(raw=raw))
    return coerce_result(cast("object", value))


def _make(fields: dict[str, Any], *, raw: object, status: str | None) -> Result[Json]:
    usage = fields.get("usage")
    if isinstance(usage, UsageInfo) and fields.get("cost") is None:
        fields["cost"] = usage.cost
    form = {name: _plain(value) for name, value in fields.items()}
    result = from_contract(form)
    more: dict[str, Any] = {} if raw is None else {"local": Local(raw=raw)}
    if status is not None:
        more["status"] = Status(status)
    return msgspec.structs.replace(result, **more)


def _plain(value: object) -> object:
    """The contract's form of *value* if it is one of the flat structures."""
    match value:
        case ErrorInfo():
            return to_error(value)
        case RateLimitInfo():
            return to_state(value)
        case UsageInfo():
            return to_usage(value)
        case CostInfo():
            return to_cost(value)
        case _:
            return value
