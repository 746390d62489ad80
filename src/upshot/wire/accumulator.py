"""``ReplyAccumulator``, which collects a reply while it is read, and finish reasons."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Protocol, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import ErrorCode, FinishReason, Origin
from upshot.contract.base.structs import Json, JsonObject, Local, unchecked
from upshot.contract.error import AgentError
from upshot.contract.message import Part, ServerToolBlock, Text
from upshot.contract.model_calls import (
    ModelResponse,
    PartDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.tool_calls import ToolCall
from upshot.contract.usage import Cost, RateLimitState, Usage, measured
from upshot.errors import Misuse
from upshot.wire.decoding import NOT_JSON, as_object, parse_json
from upshot.wire.error_classification import classify_error_object
from upshot.wire.headers import read_request_id, to_raw_headers
from upshot.wire.rate_limits import find_rate_limit_state

_WORDS: dict[FinishReason, str] = {
    FinishReason.STOP: "stop end_turn stop_sequence eos eos_token completed complete done finish",
    FinishReason.LENGTH: (
        "length max_tokens max_output_tokens model_length max_length max_new_tokens token_limit "
        "model_context_window_exceeded context_window_exceeded"
    ),
    FinishReason.TOOL_USE: (
        "tool_calls tool_call tool_use tooluse function_call unexpected_tool_call"
    ),
    FinishReason.CONTENT_FILTER: (
        "content_filter content_filtered refusal safety recitation blocklist prohibited_content "
        "guardrail guardrail_intervened guardrails spii image_safety image_prohibited_content "
        "image_recitation language model_armor error_toxic sensitive"
    ),
    FinishReason.ERROR: (
        "error failed malformed_function_call malformed_tool_use malformed_model_output "
        "malformed_tool_call malformed_response missing_thought_signature too_many_tool_calls "
        "network_error insufficient_system_resource"
    ),
    FinishReason.ABORTED: "aborted abort cancelled canceled user_cancelled",
}
# Grouped by reason above for readability; looked up by word.
_REASON_OF = {word: reason for reason, words in _WORDS.items() for word in words.split()}

UNFINISHED = frozenset(
    {"queued", "in_progress", "pause_turn", "incomplete", "finish_reason_unspecified", "null", ""}
)
"""Words that mean "not finished"."""

PAUSED: Final = "pause_turn"
"""Anthropic ends a paused turn of its built-in tools with this, and continues it if sent back."""
# Looked up once: accessing an enum member is slow in Python 3.11.
_ABORTED = FinishReason.ABORTED
_ERROR = FinishReason.ERROR
_STOP = FinishReason.STOP
_TOOL_USE = FinishReason.TOOL_USE
# The readers collect only values of the right types.
_make_response = unchecked(ModelResponse())


def parse_finish_reason(text: str) -> FinishReason | None:
    """Read a provider's word for why the model stopped.

    Letter case does not matter, and "-" counts as "_". An unknown word means stop: the reply ended
    without a sign of failure.

    Returns:
        The reason; None for an empty word or one that means "not finished".
    """
    if text in _REASON_OF:
        return _REASON_OF[text]
    word = text.strip().lower().replace("-", "_")
    if word in UNFINISHED:
        return None
    return _REASON_OF.get(word, FinishReason.STOP)


def settle_finish(reason: FinishReason | None, *, calls: bool) -> FinishReason | None:
    """Correct *reason*: a stop in a reply with *calls* for the client is tool_use."""
    return _TOOL_USE if calls and reason is _STOP else reason


def mark_cut(parts: tuple[Part, ...], *, fails: bool) -> tuple[Part, ...]:
    """Mark the calls that a reply did not complete; they are not made.

    Args:
        parts: The parts of the reply.
        fails: Whether the reply failed, so that none of its calls is made. Otherwise it was cut off
            in its last part, and only a call there with incomplete arguments is marked.
    """
    if fails:
        return tuple(map(_mark_call, parts))
    last = parts[-1] if parts else None
    if not isinstance(last, ToolCall) or _is_whole(last.arguments):
        return parts
    return (*parts[:-1], _mark_call(last))


def _mark_call(part: Part) -> Part:
    return msgspec.structs.replace(part, cut=True) if isinstance(part, ToolCall) else part


def _is_whole(arguments: str | JsonObject) -> bool:
    # A call without arguments may have been cut off before them.
    return bool(arguments) and not (
        isinstance(arguments, str) and parse_json(arguments) is NOT_JSON
    )


StreamEvent: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | PartDelta
"""What a stream yields before its end."""

# One xAI tick is a ten-billionth of a dollar.
_TICK_DIGITS: Final = -10


class SurfaceStream(Protocol):
    """One surface's reader of stream events; it writes into the accumulator it was made with."""

    def read(self, name: str, document: JsonObject) -> list[StreamEvent]:
        """Read one event and return the deltas in it."""
        ...

    def finish(self) -> None:
        """Put what was collected into the accumulator."""
        ...


class ReplyAccumulator(msgspec.Struct):
    """What has been read of one reply.

    Attributes:
        provider: The provider.
        fields: Normalised headers.
        now: When it was received, in unix seconds.
        id: The provider's id of the reply.
        model: The model that the reply names.
        parts: The parts of the reply, in their original order.
        refusal: Pieces of a refusal.
        calls: How many of the parts are calls for the client.
        settled_calls: How many of them need no answer any longer.
        server_tools: The blocks of the provider's built-in tools, by type.
        searches: How many web searches the provider charges for.
        cites: Whether it names sources that the provider read for it.
        container: The container in which the provider ran code, with id and expiry; empty if none.
        service_tier: The tier that served the call; the price depends on it.
        finish_raw: The provider's word for why it stopped.
        blocked: Whether the prompt was blocked; then finish_raw is the reason.
        usage: Tokens, None if none were reported.
        usage_raw: The usage as received.
        total_tokens_reported: The provider's own sum.
        cost: The cost that the provider reported.
        error: What went wrong.
        done: Whether the stream reported its end; None if the reply is not a stream.
        raw: The document, if the reply was one.
    """

    provider: str
    fields: Mapping[str, str]
    now: float
    id: str = ""
    model: str = ""
    parts: list[Part] = []
    refusal: list[str] = []
    calls: int = 0
    settled_calls: int = 0
    server_tools: list[Json] = []
    searches: int = 0
    cites: bool = False
    container: JsonObject = {}
    service_tier: str = ""
    finish_raw: str = ""
    blocked: bool = False
    usage: Usage | None = None
    usage_raw: JsonObject | None = None
    total_tokens_reported: int | None = None
    cost: Cost | None = None
    error: AgentError | None = None
    done: bool | None = None
    raw: Json = None

    def add_text(self, text: str) -> None:
        """Add a text part, unless it is empty."""
        if text:
            self.parts.append(Text(text))

    def add_call(self, call: ToolCall) -> None:
        """Add a call for the client."""
        self.parts.append(call)
        self.calls += 1

    def add_server_block(self, kind: str, raw: JsonObject) -> None:
        """Add a block of the provider's built-in tools, of the type *kind*."""
        self.parts.append(ServerToolBlock(raw, self.provider))
        self.server_tools.append(kind)

    def next_call_id(self) -> str:
        """Return an id for a call without one; outcomes refer to calls by their ids."""
        return f"call_{self.id or 'reply'}_{self.calls}"

    def fail(self, error: Json) -> None:
        """Record an error object inside the reply, unless there is one already."""
        if self.error is None:
            read = classify_error_object(
                error, fields=self.fields, provider=self.provider, now=self.now
            )
            # Whatever status it has, the request itself was accepted.
            self.error = replace(read, details={**read.details, "charged": True})

    def fail_unreadable(self, message: str) -> None:
        """Record that the reply does not have the form of the surface."""
        if self.error is None:
            self.error = AgentError(
                ErrorCode.SERVER_ERROR, message, retryable=True, origin=Origin.MODEL
            )

    def to_response(self) -> ModelResponse:
        """Make the response from everything that was read."""
        finish = self._finish()
        error = self.error or self._error_of_finish(finish)
        usage = measured(self.usage)
        return _make_response(
            parts=tuple(self.parts),
            refusal="".join(self.refusal) or None,
            usage=usage,
            # A reported cost of zero without any tokens is as unknown as the tokens.
            cost=self.cost if usage or (self.cost is not None and self.cost.total) else None,
            finish_reason=finish if error is None or finish is _ABORTED else _ERROR,
            paused=error is None and self.finish_raw == PAUSED,
            error=error,
            rate_limit=self._rate_limit(error),
            provider_data=self._provider_data(error),
            local=None if self.raw is None else Local(raw=self.raw),
        )

    def _finish(self) -> FinishReason | None:
        if not self.finish_raw:
            return None
        if self.blocked:
            return FinishReason.CONTENT_FILTER
        reason = parse_finish_reason(self.finish_raw)
        return settle_finish(reason, calls=self.calls > self.settled_calls)

    def _error_of_finish(self, finish: FinishReason | None) -> AgentError | None:
        if finish is _ABORTED:
            text = "the provider canceled the reply"
            return AgentError(ErrorCode.CANCELED, text, type=self.finish_raw, origin=Origin.MODEL)
        if finish is not _ERROR:
            return None
        malformed = "malformed" in self.finish_raw.lower()
        return AgentError(
            ErrorCode.INVALID_OUTPUT if malformed else ErrorCode.SERVER_ERROR,
            f"the model stopped with {self.finish_raw}",
            type=self.finish_raw,
            retryable=True,
            origin=Origin.MODEL,
        )

    def _rate_limit(self, error: AgentError | None) -> RateLimitState | None:
        # A refused request is limited even if no window is exhausted.
        return find_rate_limit_state(
            self.fields,
            now=self.now,
            retry_after=error.retry_after_s if error is not None else None,
            limited=error is not None and error.code == ErrorCode.RATE_LIMIT,
        )

    def _provider_data(self, error: AgentError | None) -> JsonObject:
        reported: JsonObject = {
            "provider": self.provider,
            "model": self.model,
            # The body has the id in case a gateway dropped the header.
            "request_id": read_request_id(self.fields) or _request_id(self.raw),
            "raw_headers": cast("JsonObject", to_raw_headers(self.fields)),
            "finish_raw": self.finish_raw,
            "usage_raw": self.usage_raw,
            "server_tools": self.server_tools,
            "web_searches": self.searches,
            "cites": self.cites,
            "container": self.container,
            "service_tier": self.service_tier,
        }
        # Unknown facts are missing, not empty.
        data: JsonObject = {name: value for name, value in reported.items() if value}
        if self.total_tokens_reported is not None:
            data["total_tokens_reported"] = self.total_tokens_reported
        if error is not None:
            facts = {
                "error_message": error.message,
                "error_type_raw": error.type,
                "error_code_raw": error.provider_code,
            }
            data.update({name: fact for name, fact in facts.items() if fact})
        if self.done is not None:
            data["stream_done"] = self.done
        return data


def to_reported_cost(usage: JsonObject) -> Cost | None:
    """Return the cost that a usage object reports, in any provider's form; None for none."""
    ticks, cost = usage.get("cost_in_usd_ticks"), usage.get("cost")
    if ticks is None and cost is None:
        return None
    if isinstance(ticks, int) and not isinstance(ticks, bool) and ticks >= 0:
        return _make_reported(Decimal(ticks).scaleb(_TICK_DIGITS))
    amount = as_object(cost).get("total_cost") if isinstance(cost, dict) else cost
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
        return None
    # A float counts as the digits it is printed with.
    return _make_reported(Decimal(str(amount)))


def _make_reported(amount: Decimal) -> Cost | None:
    try:
        return Cost(total=amount, estimated=False, source="reported")
    except Misuse:
        # NaN, or absurdly large or small.
        return None


def _request_id(document: Json) -> str | None:
    found = as_object(document).get("request_id")
    return found if isinstance(found, str) else None
