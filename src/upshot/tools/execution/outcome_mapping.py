"""From the end of a body to its outcome and stored output."""

from __future__ import annotations

import asyncio
from typing import TypeAlias, cast, get_args

import msgspec

from upshot.contract.base.enums import Effect, ErrorCode, Origin, worst_effect
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.message import File, Part
from upshot.contract.protocols import ArtifactStore
from upshot.contract.tool_calls import (
    TOOL_MESSAGE_MAX_CHARS,
    ToolArtifactReference,
    ToolExecutionResult,
    ToolFailure,
    ToolTimeout,
    outcome_to_model_content,
)
from upshot.native.unsent import Proof, find_proof
from upshot.tools.call_state import CallState
from upshot.tools.definition.tool_error import (
    ToolError,
    named,
    one_line,
    seconds,
    without_traceback,
)
from upshot.tools.execution.executor import (
    BodyEnd,
    BodyValue,
    Died,
    Raised,
    Stopped,
    Unusable,
    discard,
)
from upshot.tools.repetition import (
    CANCELLED,
    REFUSED,
    effect_after,
    may_repeat,
    may_repeat_timeout,
)

# Looked up once: enum members are slow to look up on Python 3.11.
_NONE = Effect.NONE
UNSERIALIZABLE = ErrorCode("unserializable_output")
# Wrapped under "result" with their kind, so that a reader knows what they are.
_PARTS = get_args(Part)
# The outcomes of a call whose body ended.
Ended: TypeAlias = ToolExecutionResult | ToolFailure | ToolTimeout


def conclude(
    call: CallState, ending: BodyEnd, *, elapsed_ms: int, timeout_s: float | None, deadline_s: float
) -> Ended:
    """Return the outcome of a call whose body ended, including effects of calls inside the body.

    Args:
        call: The call; paths of values that were lost in conversion are stored in ``lossy``.
        ending: How the body ended.
        elapsed_ms: How long it ran.
        timeout_s: How long it was allowed to run.
        deadline_s: When that time ended, unix seconds.

    Returns:
        A result, a failure or a timeout. ``store_output`` stores a large output later.
    """
    if isinstance(ending, BodyValue):
        outcome = _conclude_value(call, ending.value, elapsed_ms)
        call.lossy += ending.lossy
    else:
        outcome = _conclude_unfinished(
            call, ending, elapsed_ms=elapsed_ms, timeout_s=timeout_s, deadline_s=deadline_s
        )
    inside = call.inside
    if call.known_tool.runs_agent and isinstance(ending, Stopped) and not ending.ended:
        # The agent works on, and nobody reads its end.
        inside = Effect.UNKNOWN if ending.started else inside
    return outcome if inside is _NONE else with_effect(call, outcome, inside)


def with_effect(call: CallState, outcome: Ended, inside: Effect) -> Ended:
    """Return *outcome* with at least the effect of the calls inside the body."""
    effect = worst_effect((outcome.effect, inside))
    if effect is outcome.effect:
        return outcome
    if isinstance(outcome, ToolExecutionResult):
        return msgspec.structs.replace(outcome, effect=effect)
    again = outcome.retryable and may_repeat(call.known_tool, effect)
    return msgspec.structs.replace(outcome, effect=effect, retryable=again)


def _conclude_unfinished(
    call: CallState,
    ending: Unusable | Died | Raised | Stopped,
    *,
    elapsed_ms: int,
    timeout_s: float | None,
    deadline_s: float,
) -> Ended:
    """Return the outcome of a call whose body returned no usable value."""
    tool = call.known_tool
    match ending:
        case Unusable(message=message):
            return _unserializable(call, message, elapsed_ms)
        case Died(started=started):
            # Cut off in the middle, it is as unfinished as if it had been stopped.
            return _cut_off(
                call, ending.message, elapsed_ms, ErrorCode(ending.code), started=started
            )
        case Raised(error=error, proof=proof):
            proof = proof or (find_proof(error) if tool.may_write else None)
            if proof is not None and tool.may_write and not _declares_effect(error):
                return _conclude_unsent(call, error, proof, elapsed_ms)
            return _conclude_error(call, error, elapsed_ms)
        # Stopped at the turn's deadline, it has timed out, whichever was noticed first.
        case Stopped(cancelled=True, started=started) if not call.turn.is_over:
            reason = "The call was cancelled while it ran."
            cut_off = _cut_off(call, reason, elapsed_ms, CANCELLED, started=started)
            return msgspec.structs.replace(cut_off, stopped=ending.ended)
        case Stopped(started=started, ended=ended):
            effect = effect_after(tool, done=False) if started else Effect.NONE
            return ToolTimeout(
                call.call_id,
                call.tool_name,
                deadline_s=deadline_s,
                timeout_s=timeout_s or 0.0,
                elapsed_ms=elapsed_ms,
                retryable=may_repeat_timeout(tool, effect),
                stopped=ended,
                effect=effect,
            )


def conclude_defect(call: CallState, error: Exception, *, elapsed_ms: int) -> ToolFailure:
    """Return the outcome of a call that failed in our code, after its body may have started."""
    message = f"The call could not be brought to its end: {named(error)}"
    return _failure(call, message, elapsed_ms, retryable=False, code=ErrorCode.INTERNAL)


def _failure(
    call: CallState,
    error: str,
    elapsed_ms: int,
    *,
    retryable: bool,
    effect: Effect | None = None,
    code: ErrorCode | None = None,
    retry_after_s: float | None = None,
) -> ToolFailure:
    """Make a failure; without *effect*, the effect of an unfinished body is assumed."""
    return ToolFailure(
        call.call_id,
        call.tool_name,
        error=one_line(error),
        retryable=retryable,
        elapsed_ms=elapsed_ms,
        retry_after_s=retry_after_s,
        effect=effect_after(call.known_tool, done=False) if effect is None else effect,
        code=code,
    )


def _cut_off(
    call: CallState, message: str, elapsed_ms: int, code: ErrorCode, *, started: bool
) -> ToolFailure:
    effect = effect_after(call.known_tool, done=False) if started else Effect.NONE
    again = may_repeat(call.known_tool, effect)
    return _failure(call, message, elapsed_ms, retryable=again, effect=effect, code=code)


def _conclude_value(call: CallState, value: object, elapsed_ms: int) -> Ended:
    tool = call.known_tool
    try:
        # Converted once, here: from now on the model, the log and the caller see the same value.
        converted, call.lossy = to_free_json(value)
    except UnserializableError as error:
        discard(value)
        return _unserializable(call, str(error), elapsed_ms)
    except Exception as error:  # any method of a tool's own objects may fail
        return _unserializable(call, named(error), elapsed_ms)
    # A returned struct or dataclass has been converted to a mapping and stays one.
    output: JsonObject = (
        converted
        if isinstance(converted, dict) and not isinstance(value, _PARTS)
        else {"result": converted}
    )
    if tool.error_key is not None and output.get(tool.error_key):
        return _returned_error(call, output, elapsed_ms)
    return ToolExecutionResult(
        call.call_id,
        call.tool_name,
        output=output,
        elapsed_ms=elapsed_ms,
        was_coerced=bool(call.coercions),
        # The body finished, so a write is certainly applied, whatever happens to its output.
        effect=effect_after(tool, done=True),
    )


def _unserializable(call: CallState, text: str, elapsed_ms: int) -> ToolFailure:
    message = f"The tool ran, and its output cannot be used: {text}"
    effect = effect_after(call.known_tool, done=True)
    return _failure(call, message, elapsed_ms, retryable=False, effect=effect, code=UNSERIALIZABLE)


def _returned_error(call: CallState, output: JsonObject, elapsed_ms: int) -> ToolFailure:
    error = output[cast("str", call.known_tool.error_key)]
    return _failure(
        call,
        error if isinstance(error, str) else _encode_error(error),
        elapsed_ms,
        retryable=output.get("retryable") is not False,
        code=_code_of(output.get("code")),
        retry_after_s=seconds(output.get("retry_after_s")),
    )


def _declares_effect(error: BaseException) -> bool:
    return isinstance(error, ToolError) and error.effect is not None


def _conclude_unsent(
    call: CallState, error: BaseException, proof: Proof, elapsed_ms: int
) -> ToolFailure:
    """Return the outcome of a write whose exception proves that it did nothing."""
    # A tool that declares no effect keeps the default for exceptions.
    again = proof.retryable or call.known_tool.effect is None
    return _failure(
        call,
        str(error) if isinstance(error, ToolError) else named(error),
        elapsed_ms,
        retryable=again,
        effect=Effect.NONE,
        code=None if again else REFUSED,
    )


def _conclude_error(call: CallState, error: BaseException, elapsed_ms: int) -> ToolFailure:
    if isinstance(error, ToolError):
        return _failure(
            call,
            str(error),
            elapsed_ms,
            retryable=error.retryable,
            effect=error.effect,
            code=_code_of(error.code),
            retry_after_s=error.retry_after_s,
        )
    if isinstance(error, Exception):
        return _failure(call, named(error), elapsed_ms, retryable=True)
    # It ended itself by a cancel or an exit, so it is as unfinished as if it had been stopped.
    return _cut_off(call, named(error), elapsed_ms, CANCELLED, started=True)


def _code_of(word: object) -> ErrorCode | None:
    return ErrorCode(clean_text(word)) if isinstance(word, str) and word else None


def _encode_error(error: Json) -> str:
    """Return the value under the error key as JSON, without tracebacks at any depth."""
    return msgspec.json.encode(_strip_tracebacks(error)).decode()


def _strip_tracebacks(error: Json) -> Json:
    match error:
        case str():
            return without_traceback(error)
        case list():
            return [_strip_tracebacks(one) for one in error]
        case dict():
            return {name: _strip_tracebacks(one) for name, one in error.items()}
        case _:
            return error


_SUMMARY_CHARS = 200
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"


async def store_output(
    result: ToolExecutionResult, store: ArtifactStore, run_id: str, *, timeout_s: float
) -> tuple[ToolArtifactReference, File] | RunWarning:
    """Store a result whose text is longer than ``TOOL_MESSAGE_MAX_CHARS`` code points.

    A single string field is stored as it is, anything else as indented JSON.

    Args:
        result: What the tool returned, with secrets masked.
        store: Where to store it.
        run_id: The run that owns the artifact.
        timeout_s: A store that takes longer counts as refusing.

    Returns:
        What the model gets and where the output was stored, or a warning if the store refuses.
    """
    # A single text is stored as it is, so that it can be read and searched by line.
    text, media_type = _to_text(result.output)
    data = text.encode()
    try:
        async with asyncio.timeout(timeout_s):
            stored = await store.put(run_id, result.call_id, data, media_type)
    except Exception as error:  # a store is foreign code; its failure must not lose the result
        return RunWarning(
            code="artifact_refused",
            message=f"the output of {result.tool_name} could not be stored and was cut: "
            + named(error),
            origin=Origin.TOOL,
        )
    summary = _summarise(text, result.output, media_type)
    reference = ToolArtifactReference(
        result.call_id,
        result.tool_name,
        artifact_id=stored.id,
        summary=summary,
        size_bytes=stored.size_bytes or len(data),
        elapsed_ms=result.elapsed_ms,
        was_coerced=result.was_coerced,
        effect=result.effect,
        code=result.code,
    )
    return reference, msgspec.structs.replace(stored, summary=summary)


def cut_output(result: ToolExecutionResult) -> ToolExecutionResult:
    """Cut a result that does not fit into a message to its head and tail, with ``truncated``."""
    text, _ = _to_text(result.output)
    # Half for each end, minus the keys around them.
    kept = TOOL_MESSAGE_MAX_CHARS // 2 - 100
    while True:
        output: JsonObject = {
            "truncated": True,
            "total_chars": len(text),
            "head": text[:kept],
            "tail": text[-kept:],
        }
        cut = msgspec.structs.replace(result, output=output)
        if len(outcome_to_model_content(cut)) <= TOOL_MESSAGE_MAX_CHARS:
            return cut
        # Escapes made the text longer.
        kept = kept * 2 // 3


def _to_text(output: JsonObject) -> tuple[str, str]:
    values = list(output.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0], _TEXT
    return msgspec.json.format(msgspec.json.encode(output), indent=2).decode(), _JSON


def _summarise(text: str, output: JsonObject, media_type: str) -> str:
    lines = text.count("\n") + 1
    if media_type == _TEXT:
        summary = (
            f"{len(text):,} characters of text in {lines:,} line{'s' * (lines > 1)}, beginning: "
        )
        shown = " ".join(text[:_SUMMARY_CHARS].split())
    else:
        summary = f"{len(text):,} characters of JSON: "
        shown = "; ".join(f"{name}: {_shape(value)}" for name, value in output.items())
    whole = summary + shown
    return whole if len(whole) <= _SUMMARY_CHARS else whole[: _SUMMARY_CHARS - 3] + "..."


def _shape(value: Json) -> str:
    match value:
        case list():
            return f"{len(value):,} items"
        case dict():
            return f"{len(value):,} fields"
        case str():
            return f"{len(value):,} characters"
        case _:
            return msgspec.json.encode(value).decode()
