"""Returned: what an engine returned, or raised, that says itself how it went."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ..contract import AgentError, AgentResult, ErrorCode, ModelResponse, Origin, Status
from ..errors import RunFailed
from .kin import pending_in
from .signals import Aborted, Failed, Interrupted, Parked, Signal, signal_of

__all__ = ["Returned", "read_raised", "read_returned"]


class Returned(NamedTuple):
    """What such a value holds.

    Attributes:
        output: The typed answer, None for none but the text.
        content: The text, None for none.
        ending: What ends the run as it ended; None where it completed.
    """

    output: object = None
    content: str | None = None
    ending: Signal | None = None


def read_returned(value: object) -> Returned | None:
    """Read a result, a reply of a model or an error that an engine returned.

    Returns:
        None where it is none of these.
    """
    match value:
        case AgentResult():
            return _of_result(cast("AgentResult[Any]", value))
        case ModelResponse():
            ending = None if value.error is None else Failed(value.error)
            return Returned(content=value.content, ending=ending)
        case AgentError():
            return Returned(ending=Failed(value))
        case _:
            return None


def read_raised(error: BaseException | None) -> Signal | None:
    """Read a RunFailed that an engine let through: its run ends as what was unwrapped ended.

    In a group, as a ``TaskGroup`` raises it, it is read beside what else ends or parks a run.

    Returns:
        None where it is none, or a group that holds a bug as well.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return signal_of(group.derive([read_raised(leaf) or leaf for leaf in group.exceptions]))
    told = read_returned(error.result) if isinstance(error, RunFailed) else None
    if told is None or told.ending is None:
        return None
    told.ending.__cause__ = error
    return told.ending


def _of_result(result: AgentResult[Any]) -> Returned:
    ending = _ending_of(result)
    raw = result.raw
    if ending is not None and isinstance(raw, BaseException):
        ending.__cause__ = raw
    if ending is not None and not isinstance(ending, Parked):
        ending.said = result.content or ""
    return Returned(result.output, result.content, ending)


def _ending_of(result: AgentResult[Any]) -> Signal | None:
    error = result.error or AgentError(
        ErrorCode.INTERNAL, f"it ended as {result.status}", origin=Origin.ENGINE
    )
    match result.status:
        case Status.COMPLETED:
            return None
        case Status.ABORTED:
            aborted = Aborted(error.message)
            aborted.error = error
            return aborted
        case Status.INTERRUPTED:
            return Interrupted(result.cause, result.detail)
        case Status.INPUT_REQUIRED:
            return Parked(*pending_in(result.run_id, result.pending))
        case _:
            # Nobody cancelled the run itself, so a canceled one inside it is a failure of it.
            return Failed(error)
