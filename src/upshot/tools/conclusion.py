"""Conclusion: from how a body ended to the outcome of its call."""

from __future__ import annotations

from typing import cast, get_args

import msgspec

from ..contract import (
    Effect,
    ErrorCode,
    Json,
    JsonObject,
    Part,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
    UnserializableError,
    clean_text,
    to_free_json,
)
from .case import Case
from .definition import Tool
from .error import ToolError, seconds
from .executor import Died, Ending, Raised, Returned, Stopped, Unusable, discard
from .sentence import named, one_line, without_traceback

__all__ = [
    "CANCELLED",
    "INTERRUPTED",
    "UNSERIALIZABLE",
    "conclude",
    "conclude_defect",
    "effect_after",
]

CANCELLED = ErrorCode("cancelled")
INTERRUPTED = ErrorCode.INTERRUPTED
UNSERIALIZABLE = ErrorCode("unserializable_output")
# They stand under "result" with their kind, so that a reader knows what they are.
_PARTS = get_args(Part)


def conclude(
    case: Case, ending: Ending, *, elapsed_ms: int, timeout_s: float | None, deadline_s: float
) -> ToolOutcome:
    """The outcome of a call whose body ended.

    Args:
        case: The call; what could not be kept of its value is noted in ``lossy``.
        ending: How the body ended.
        elapsed_ms: How long it ran.
        timeout_s: How long it was allowed.
        deadline_s: When that was over, unix seconds.

    Returns:
        A result, a failure or a timeout; a large output is stored by somebody else.
    """
    tool = case.known_tool
    match ending:
        case Returned(value=value, lossy=lossy):
            outcome = _conclude_value(case, value, elapsed_ms)
            case.lossy += lossy
            return outcome
        case Unusable(message=message):
            return _unserializable(case, message, elapsed_ms)
        case Died():
            return _conclude_death(case, ending, elapsed_ms)
        case Raised(error=error):
            return _conclude_error(case, error, elapsed_ms)
        case Stopped(cancelled=True, started=started):
            effect = effect_after(tool, done=False) if started else Effect.NONE
            return ToolFailure(
                case.call_id,
                case.tool_name,
                error="The call was cancelled while it ran.",
                retryable=_may_repeat(tool, effect),
                elapsed_ms=elapsed_ms,
                effect=effect,
                code=CANCELLED,
            )
        case Stopped(started=started, ended=ended):
            effect = effect_after(tool, done=False) if started else Effect.NONE
            override = tool.retry_on_timeout
            return ToolTimeout(
                case.call_id,
                case.tool_name,
                deadline_s=deadline_s,
                timeout_s=timeout_s or 0.0,
                elapsed_ms=elapsed_ms,
                retryable=_may_repeat(tool, effect) if override is None else override,
                stopped=ended,
                effect=effect,
            )


def conclude_defect(case: Case, error: Exception, *, elapsed_ms: int) -> ToolFailure:
    """The outcome of a call at which we failed ourselves, once its body may have started."""
    return ToolFailure(
        case.call_id,
        case.tool_name,
        error=one_line(f"The call could not be brought to its end: {named(error)}"),
        retryable=False,
        elapsed_ms=elapsed_ms,
        effect=effect_after(case.known_tool, done=False),
        code=ErrorCode.INTERNAL,
    )


def effect_after(tool: Tool, *, done: bool) -> Effect:
    """What a body that ran did outside.

    Args:
        tool: Whose body.
        done: Whether it did its work; else what may write has done nobody knows what.
    """
    if not tool.may_write:
        return Effect.NONE
    return Effect.APPLIED if done else Effect.UNKNOWN


# An unknown effect may have happened: to do it again is safe only if twice is as good as once.
def _may_repeat(tool: Tool, effect: Effect) -> bool:
    return effect is not Effect.UNKNOWN or tool.idempotent


def _conclude_value(case: Case, value: object, elapsed_ms: int) -> ToolOutcome:
    tool = case.known_tool
    try:
        converted, case.lossy = to_free_json(value)
    except UnserializableError as error:
        discard(value)
        return _unserializable(case, str(error), elapsed_ms)
    except Exception as error:  # objects of a tool's own may fail at any of their methods
        return _unserializable(case, named(error), elapsed_ms)
    # A struct or dataclass that was returned is a mapping by now, and stays one.
    output: JsonObject = (
        converted
        if isinstance(converted, dict) and not isinstance(value, _PARTS)
        else {"result": converted}
    )
    if tool.error_key is not None and output.get(tool.error_key):
        return _returned_error(case, output, elapsed_ms)
    return ToolExecutionResult(
        case.call_id,
        case.tool_name,
        output=output,
        elapsed_ms=elapsed_ms,
        was_coerced=bool(case.coercions),
        effect=effect_after(tool, done=True),
    )


def _unserializable(case: Case, text: str, elapsed_ms: int) -> ToolFailure:
    return ToolFailure(
        case.call_id,
        case.tool_name,
        error=one_line(f"The tool ran, and its output cannot be used: {text}"),
        retryable=False,
        elapsed_ms=elapsed_ms,
        effect=effect_after(case.known_tool, done=True),
        code=UNSERIALIZABLE,
    )


def _returned_error(case: Case, output: JsonObject, elapsed_ms: int) -> ToolFailure:
    said = output[cast("str", case.known_tool.error_key)]
    code = output.get("code")
    return ToolFailure(
        case.call_id,
        case.tool_name,
        error=one_line(said if isinstance(said, str) else _told(said)),
        retryable=output.get("retryable") is not False,
        elapsed_ms=elapsed_ms,
        retry_after_s=seconds(output.get("retry_after_s")),
        effect=effect_after(case.known_tool, done=False),
        code=ErrorCode(clean_text(code)) if isinstance(code, str) and code else None,
    )


def _conclude_error(case: Case, error: BaseException, elapsed_ms: int) -> ToolFailure:
    effect = effect_after(case.known_tool, done=False)
    said = error if isinstance(error, ToolError) else None
    retryable, code = True, None
    if said is not None:
        retryable, code = said.retryable, said.code
        effect = effect if said.effect is None else said.effect
    elif not isinstance(error, Exception):
        # It ended itself, by a cancel or an exit: as unfinished as if it had been stopped.
        retryable, code = _may_repeat(case.known_tool, effect), CANCELLED
    return ToolFailure(
        case.call_id,
        case.tool_name,
        error=one_line(str(error) if said else named(error)),
        retryable=retryable,
        elapsed_ms=elapsed_ms,
        retry_after_s=None if said is None else said.retry_after_s,
        effect=effect,
        code=None if code is None else ErrorCode(clean_text(code)),
    )


# Cut off in the middle, it is as unfinished as if it had been stopped.
def _conclude_death(case: Case, death: Died, elapsed_ms: int) -> ToolFailure:
    effect = effect_after(case.known_tool, done=False) if death.started else Effect.NONE
    return ToolFailure(
        case.call_id,
        case.tool_name,
        error=one_line(death.message),
        retryable=_may_repeat(case.known_tool, effect),
        elapsed_ms=elapsed_ms,
        effect=effect,
        code=ErrorCode(death.code),
    )


def _told(said: Json) -> str:
    """What stands under the error key, tracebacks left out wherever they stand in it."""
    return msgspec.json.encode(_shortened(said)).decode()


def _shortened(said: Json) -> Json:
    match said:
        case str():
            return without_traceback(said)
        case list():
            return [_shortened(one) for one in said]
        case dict():
            return {name: _shortened(one) for name, one in said.items()}
        case _:
            return said
