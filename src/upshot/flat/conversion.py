"""Converts the flat structures, errors and rate limits to and from the contract.

Also ``FlatAgent``, and ``AgentResult(...)``, which creates a result from flat values.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import msgspec

from upshot.contract.base.checks import has_own_output
from upshot.contract.base.enums import FinishReason, Role, Status
from upshot.contract.base.structs import Json, Local
from upshot.contract.codec import encode
from upshot.contract.error import AgentError
from upshot.contract.forms.flat_form import from_contract
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.protocols import Model
from upshot.contract.result import FLAT_KEYS
from upshot.contract.result import AgentResult as Result
from upshot.contract.tool_calls import ToolCall as Call
from upshot.contract.usage import Cost, RateLimitState, RateLimitWindow, Usage
from upshot.flat.structures import AgentResponse, CostInfo, ErrorInfo, ToolCall, UsageInfo
from upshot.native.framework_messages import read_pi_message, read_smolagents_message
from upshot.native.objects import as_count, as_json, as_object, as_text, find_headers, look_up
from upshot.native.returned import coerce_result, to_contract_form
from upshot.wire.chat import CUSTOM_INPUT
from upshot.wire.decoding import parse_json
from upshot.wire.error_classification import classify_error
from upshot.wire.headers import Headers, normalize_headers, read_reset
from upshot.wire.rate_limits import RateLimitInfo
from upshot.wire.rate_limits import build_rate_limit_state as build_state

_COUNTS: Final = (
    "input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens"
)  # fmt: skip
_PARTS: Final = ("input", "output", "cache_read", "cache_write")


def to_agent_response(result: ModelResponse | Result[Any]) -> AgentResponse:
    """Convert *result* to the flat form, in which 0 means unknown.

    ``usage`` is always set, and ``rate_limit`` is set if there are headers or an error, so that
    code that reads them first need not check for None.
    """
    error = result.error
    output: object = result.output
    return AgentResponse(
        content=result.content,
        output=as_json(output) if has_own_output(output, result.content) else None,
        tool_calls=[_to_call(call) for call in _calls(result)] or None,
        raw_response=result.raw,
        usage=_to_usage(result.usage, result.cost),
        rate_limit=_to_rate_limit(result),
        finish_reason=result.finish_reason,
        error=None if error is None else _to_error_info(error),
    )


def from_agent_response(response: AgentResponse) -> Result[Json]:
    """Convert a flat *response* to a result.

    A cache count of 0 and a usage of zeros may mean unknown, and so become None. The status follows
    from the error. The only message has the text and the calls.
    """
    return coerce_result(response)


def from_smolagents(message: object) -> AgentResponse:
    """Convert a smolagents ``ChatMessage`` to the flat form.

    A message without a finish reason gets tool_use if it has calls, otherwise stop.
    """
    response = to_agent_response(read_smolagents_message(message))
    if response.finish_reason is None and response.success:
        calls = response.tool_calls
        response.finish_reason = FinishReason.TOOL_USE if calls else FinishReason.STOP
    return response


def from_pi_agent(message: object) -> AgentResponse:
    """Convert a pi-agent ``AssistantMessage``, given as JSON or as an object, to the flat form.

    pi counts cached tokens separately from the input; here the input includes them.
    """
    response = to_agent_response(read_pi_message(message))
    if response.error is not None:
        kind = as_text(look_up(message, "stopReason")) or response.error.error_type
        response.error = dataclasses.replace(response.error, error_type=kind)
    return response


def _calls(result: ModelResponse | Result[Any]) -> tuple[Call, ...]:
    if isinstance(result, ModelResponse):
        return result.tool_calls
    spoken = [message for message in result.messages if message.role is Role.ASSISTANT]
    return spoken[-1].tool_calls if spoken else ()


def _to_call(call: Call) -> ToolCall:
    arguments: object = call.arguments
    if isinstance(arguments, str):
        found = parse_json(arguments or "{}")
        arguments = found if isinstance(found, dict) else {CUSTOM_INPUT: arguments}
    return ToolCall(id=call.id, tool=call.name, arguments=as_object(arguments))


def _to_usage(usage: Usage, cost: Cost | None) -> UsageInfo:
    counts: dict[str, int] = {name: getattr(usage, name) or 0 for name in _COUNTS}
    return UsageInfo(**counts, cost=None if cost is None else _to_cost(cost))


def _to_cost(cost: Cost) -> CostInfo:
    parts = {name: float(getattr(cost, name) or 0) for name in _PARTS}
    return CostInfo(**parts, total=float(cost))


def _to_rate_limit(result: ModelResponse | Result[Any]) -> RateLimitInfo | None:
    headers = result.provider_data.get("raw_headers")
    state, error = result.rate_limit, result.error
    if state is None and error is None and not headers:
        return None
    fields = {name: as_text(text) for name, text in as_object(headers).items()}
    info = RateLimitInfo.from_state(state or RateLimitState(), fields)
    if info.retry_after is None and error is not None and error.retry_after_s is not None:
        info = dataclasses.replace(info, retry_after=math.ceil(error.retry_after_s))
    return info


def _to_error_info(error: AgentError) -> ErrorInfo:
    return ErrorInfo(
        error_type=error.type or error.provider_code or str(error.code),
        message=error.message,
        status_code=error.status_code,
        retryable=error.retryable,
        code=str(error.code),
    )


class FlatAgent:
    """A model behind one method: ``await FlatAgent(model).call(prompt="Hello")``.

    Attributes:
        provider: The provider, from the model's name; for a library such as LiteLLM, the provider
            behind it.
        model: The model's name without the provider.
    """

    def __init__(self, model: Model, *, system: str | None = None) -> None:
        """Create an agent.

        Args:
            model: The model, such as ``upshot.resolve("openai:gpt-5")``.
            system: Instructions for every call.
        """
        self._model = model
        self._system = system
        first, _, rest = model.name.partition(":")
        self.provider: str = as_text(look_up(model, "provider")) or first
        self.model: str = rest.removeprefix(f"{self.provider}:").removeprefix(f"{self.provider}/")

    async def call(self, prompt: str) -> AgentResponse:
        """Call the model with *prompt*.

        Returns:
            The response; an error is a value in it.
        """
        request = ModelRequest((Message("user", prompt),), system=self._system)
        return to_agent_response(await self._model.call(request))


_DIGITS: Final = re.compile("[0-9]{3}")
_NAMES: Final = ("status_code", "status", "http_status", "statusCode")


def extract_headers_from_response(response: object) -> dict[str, str]:
    """Find the headers that a client library keeps with *response*: lower case, no secrets."""
    return find_headers(response)


def extract_headers_from_error(error: BaseException) -> dict[str, str]:
    """Find the headers of the reply that caused *error*; its causes are searched too."""
    return find_headers(error)


def extract_status_code(error: BaseException) -> int | None:
    """Find the HTTP status of *error*, in its attributes or its text.

    Returns:
        The status; None if there is none. A number in the text counts only next to a word that
        makes it a status.
    """
    for source in (error, look_up(error, "response")):
        for name in _NAMES:
            value = look_up(source, name)
            text = value if isinstance(value, str) else ""
            status = int(text) if _DIGITS.fullmatch(text) else as_count(value)
            if status is not None and 100 <= status <= 599:
                return status
    return classify_error(exception=error).status_code


def is_retryable_error(error: BaseException, status_code: int | None = None) -> bool:
    """Return whether the same request may succeed later.

    Args:
        error: The exception.
        status_code: The HTTP status, if the caller knows it; None reads it from *error*.
    """
    status = extract_status_code(error) if status_code is None else status_code
    return classify_error(exception=error, status=status).retryable


V = TypeVar("V", bound=msgspec.Struct)


class StructView(dict[str, Json], Generic[V]):
    """A real dict of a struct's known fields, with the struct's attributes.

    Attributes:
        value: The struct itself, with all its fields.
    """

    __slots__ = ("value",)

    def __init__(self, value: V) -> None:
        super().__init__(cast("dict[str, Json]", msgspec.json.decode(encode(value))))
        self.value: V = value

    def __getattr__(self, name: str) -> object:
        if name == "value":
            # Missing only while a copy is being made.
            raise AttributeError(name)
        return getattr(self.value, name)

    def __reduce__(self) -> tuple[type[StructView[V]], tuple[V]]:
        return type(self), (self.value,)


def build_rate_limit_windows(
    headers: Headers, *, now: float | None = None
) -> list[StructView[RateLimitWindow]]:
    """Read the rate-limit windows in *headers*.

    Args:
        headers: A mapping, pairs, anything with ``items()``, or None; names in any letter case.
        now: When they were received, in unix seconds; None means now.

    Returns:
        A dict for each window: name, resource, and limit, remaining, resets_in, reset_at,
        estimated if known. Never raises.
    """
    return [StructView(window) for window in build_state(headers, now=now).windows]


def build_rate_limit_state(
    headers: Headers, retry_after: float | None = None, *, now: float | None = None
) -> StructView[RateLimitState]:
    """Read the rate-limit windows in *headers*, and what follows from them.

    Args:
        headers: As for :func:`build_rate_limit_windows`.
        retry_after: Seconds to wait, if the caller knows them; it overrides the headers.
        now: When they were received, in unix seconds; None means now.

    Returns:
        A dict with limited and windows, and with retry_after if there is one. Never raises.
    """
    view = StructView(build_state(headers, retry_after, now=now))
    view.setdefault("windows", [])
    return view


def extract_rate_limit_info(headers: Headers, *, now: float | None = None) -> RateLimitInfo:
    """Read one figure for requests and one for tokens.

    Args:
        headers: As for :func:`build_rate_limit_windows`.
        now: When they were received, in unix seconds; None means now.

    Returns:
        The figures; if there are several windows, of the one with the least left. Never raises.
    """
    moment = time.time() if now is None else now
    info = RateLimitInfo.from_headers(headers, now=moment)
    if info.reset_at is not None:
        return info
    # A reset header without a count is not a window, but it still says how long to wait.
    fields = normalize_headers(headers)
    read = (
        read_reset(text, now=moment)
        for name, text in fields.items()
        if "ratelimit" in name and "reset" in name
    )
    first = min((found[1] for found in read if found is not None), default=None)
    return dataclasses.replace(info, reset_at=first)


_FIELDS = frozenset(FLAT_KEYS)

if TYPE_CHECKING:
    # To a type checker it is a subclass with another constructor. At run time it creates results of
    # the contract, which are equal to others and encoded like others.
    class AgentResult(Result[Json], frozen=True):
        """A result, created from flat values.

        Args:
            output: The answer as data.
            content: The answer as text.
            raw: The native reply, in this process only.
            usage: Tokens, as a mapping or a structure.
            cost: A breakdown, or the total as a number.
            metadata: Free JSON.
            finish_reason: Why it stopped; an unknown word becomes stop and is stored in
                provider_data.
            error: A mapping, a structure or a text; None means success.
            rate_limit: A mapping or a structure.
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
        """A result, created from flat values: mappings, numbers, flat structures."""

        def __new__(cls, *, raw=None, status=None, **fields):
            if unknown := fields.keys() - _FIELDS:
                names = ", ".join(sorted(unknown))
                raise TypeError(f"AgentResult() got an unexpected keyword argument: {names}")
            return _make(fields, raw=raw, status=status)


def coerce_agent_result(value: object) -> Result[Json]:
    """Convert anything that an agent returned or raised to a result.

    Args:
        value: As for ``coerce_result``.

    Returns:
        The result; a result is returned unchanged. Never raises.
    """
    return coerce_result(value)


def _make(fields: dict[str, Any], *, raw: object, status: str | None) -> Result[Json]:
    result = from_contract(to_contract_form(fields))
    more: dict[str, Any] = {} if raw is None else {"local": Local(raw=raw)}
    if status is not None:
        more["status"] = Status(status)
    return msgspec.structs.replace(result, **more)
