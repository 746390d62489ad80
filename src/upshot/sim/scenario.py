"""Scenarios: what a simulated provider answers, as plain data.

A scenario is a mapping, in Python or in a JSON or YAML file (YAML with the extra ``machine``)::

    name: two steps
    latency: {first_byte_ms: 20, between_chunks_ms: 5}
    limits: {requests_per_minute: 600, tokens_per_minute: 100000}
    faults:
      - {kind: status, status: 429, retry_after_s: 1, at: 1}
    replies:
      - tool_calls:
          - {name: list_files, arguments: {pattern: "*.py"}}
      - text: "The first file is {{ results.list_files.files[0] }}."

The reply is chosen by the number of assistant messages in the request: without any, it is
``replies[0]``. So nothing is remembered between requests, and a client that was killed can continue
with another simulator of the same scenario. Texts and arguments are templates
(:mod:`upshot.sim.provider`); the keys are the attributes of :class:`Scenario`, :class:`Reply`,
:class:`ScriptedCall`, :class:`Latency`, :class:`Tokens`, ``Limits`` and the faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from upshot.contract.base.checks import check_whole, kind_of
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelResponse
from upshot.contract.tool_calls import ToolCall
from upshot.data_files import fit, read_data_file
from upshot.errors import Misuse
from upshot.sim.faults import Fault, StatusFault
from upshot.sim.token_buckets import Limits


class Latency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How slowly replies arrive.

    Attributes:
        first_byte_ms: Silence before the status line.
        between_chunks_ms: Pause before each stream event except the first.
    """

    first_byte_ms: int = 0
    between_chunks_ms: int = 0

    def __post_init__(self) -> None:
        check_whole("first_byte_ms", self.first_byte_ms)
        check_whole("between_chunks_ms", self.between_chunks_ms)


class Tokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token counts of one reply; None means estimated.

    Attributes:
        input_tokens: All prompt tokens, including cached ones; estimated as a quarter of the
            request's bytes.
        output_tokens: All generated tokens, including reasoning; estimated as a quarter of the
            reply's characters.
        cache_read_tokens: Prompt tokens read from a cache.
        cache_write_tokens: Prompt tokens written to a cache.
        reasoning_tokens: The part of the output that was reasoning; estimated from the reasoning
            text.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            is_part = name.startswith("cache")
            check_whole(name, getattr(self, name), none="" if is_part else "an estimate")


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool call of a reply.

    Attributes:
        name: The tool.
        arguments: An object whose strings, at any depth, are templates (a string that is exactly
            one expression becomes the quoted JSON value); or a text template that is sent
            unchanged, so that broken JSON can be sent too.
        id: Its id; "" for one made from the place of the reply and of the call.
    """

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""


class Reply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reply of the model.

    Attributes:
        text: A template; "" for no text.
        reasoning: A template for its thoughts; "" for none.
        refusal: A template for why it refuses; "" if it does not.
        tool_calls: The tool calls that it requests.
        finish_reason: stop, length, tool_use or content_filter (translated for each API), any
            other word unchanged; "" for the reason that fits the reply.
        usage: Token counts; None estimates all of them.
        omit_usage: Whether to send no usage at all, as some servers do.
        latency: None is the scenario's.
        chunk_chars: Characters in a stream event; None is the scenario's.
        headers: Further response headers.
        faults: Faults of this reply only, so without ``at``.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str = ""
    usage: Tokens | None = None
    omit_usage: bool = False
    latency: Latency | None = None
    chunk_chars: int | None = None
    headers: dict[str, str] = {}
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if any(fault.at is not None for fault in self.faults):
            raise Misuse("a fault inside a reply applies to that reply: leave out `at`")
        check_whole("chunk_chars", self.chunk_chars, least=1, none="the scenario's")


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario.

    Attributes:
        name: A description for the user.
        replies: In order; a plain text is a reply with that text.
        models: Separate replies for some models, by the name in the request; without
            ``replies``, any other model is answered with 404.
        when_spent: The answer to a request with more assistant messages than there are replies:
            ``error`` (400), the ``last`` reply again, or the replies in a ``cycle``.
        latency: The latency of replies without their own.
        chunk_chars: Characters in a stream event, at least 1.
        limits: Rate limits; None for none.
        faults: Faults of any reply, by their selectors.
    """

    name: str = ""
    replies: tuple[Reply | str, ...] = ()
    models: dict[str, tuple[Reply | str, ...]] = {}
    when_spent: Literal["error", "last", "cycle"] = "error"
    latency: Latency = Latency()
    chunk_chars: int = 24
    limits: Limits | None = None
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if not self.replies and not self.models:
            raise Misuse("a scenario needs `replies` (or `models` with replies)")
        if not all(self.models.values()):
            raise Misuse("each of `models` needs at least one reply")
        check_whole("chunk_chars", self.chunk_chars, least=1)


ScriptItem: TypeAlias = (
    str | Reply | Mapping[str, object] | ToolCall | Sequence[ToolCall] | ModelResponse | AgentError
)
"""One reply in a Python script."""

ScenarioSource: TypeAlias = str | Path | Scenario | Mapping[str, object] | Sequence[ScriptItem]
"""A file name, a scenario, a mapping of that form, or a list of replies."""


def read_scenario(source: ScenarioSource) -> Scenario:
    """Read a scenario from any of its forms.

    Args:
        source: A file's path (``.yaml`` and ``.yml`` are YAML, anything else JSON), a scenario, a
            mapping, or a list of replies.

    Raises:
        Misuse: There is no such file, or it is not valid; the message names the file, the place and
            what was expected.
    """
    if isinstance(source, Scenario):
        return source
    if isinstance(source, (str, Path)):
        path = Path(source)
        return fit(read_data_file(path, f"the scenario file {path}"), Scenario, str(path))
    if isinstance(source, Mapping):
        return fit(source, Scenario, "scenario")
    if not isinstance(source, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(
            f"a script is a list of replies, a mapping, a Scenario or a file's path, not "
            f"{kind_of(source)}"
        )
    replies = tuple(_to_reply(item, f"script: item {place}") for place, item in enumerate(source))
    return fit({"replies": replies}, Scenario, "script")


def _to_reply(item: object, place: str) -> object:
    given_type = type(item).__name__
    match item:
        case str() | Reply() | Mapping():
            return cast("object", item)
        case ToolCall():
            return Reply(tool_calls=(_to_call(item),))
        case ModelResponse():
            return _from_response(item) if item.error is None else _from_error(item.error)
        case AgentError():
            return _from_error(item)
        case list() | tuple():
            given = cast("Sequence[object]", item)
            calls = [call for call in given if isinstance(call, ToolCall)]
            if calls and len(calls) == len(given):
                return Reply(tool_calls=tuple(_to_call(call) for call in calls))
        case _:
            pass
    raise Misuse(
        f"{place}: expected a text, a mapping, a Reply, a ToolCall, a list of them, "
        f"a ModelResponse or an AgentError, got {given_type}"
    )


def _to_call(call: ToolCall) -> ScriptedCall:
    arguments = call.arguments if isinstance(call.arguments, str) else dict(call.arguments)
    return ScriptedCall(id=call.id, name=call.name, arguments=arguments)


def _from_response(response: ModelResponse) -> Reply:
    usage = response.usage
    return Reply(
        text=response.content or "",
        reasoning="".join(part.text or "" for part in response.reasoning),
        refusal=response.refusal or "",
        tool_calls=tuple(_to_call(call) for call in response.tool_calls),
        finish_reason=str(response.finish_reason or ""),
        usage=Tokens(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens or 0,
            cache_write_tokens=usage.cache_write_tokens or 0,
            reasoning_tokens=usage.reasoning_tokens,
        ),
    )


def _from_error(error: AgentError) -> Reply:
    fault = StatusFault(
        # A connection error has no status; the nearest one that can be played is a 500.
        status=error.status_code or 500,
        message=error.message,
        code=error.provider_code,
        retry_after_s=error.retry_after_s,
        times=None,
    )
    return Reply(faults=(fault,))
