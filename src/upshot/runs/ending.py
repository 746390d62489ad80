"""How an attempt ended: maps an exception or return value to a status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast

import msgspec

from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelResponse
from upshot.contract.pending import Pending, PendingApproval
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Interrupt
from upshot.errors import JournalError, RunFailed
from upshot.native.returned import read_result, reported_error
from upshot.runs.callbacks import kind_of, said_by, trail_of
from upshot.runs.engine_api.exceptions import (
    Aborted,
    Failed,
    Interrupted,
    Parked,
    Signal,
    signal_of,
)
from upshot.state.child_runs import pending_in, unique_pending

StopReason = Literal["", "interrupt", "cancel", "deadline", "working", "budget", "caller"]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt, or a whole run, ended.

    Attributes:
        status: The status of the result.
        error: Why; None exactly if the status is completed.
        interrupt: The interrupt that stopped it, None if it was not interrupted.
        pending: What it waits for.
        exception: What was raised, for the result's ``raw``; None if the engine returned.
    """

    status: Status = Status.COMPLETED
    error: AgentError | None = None
    interrupt: Interrupt | None = None
    pending: tuple[Pending, ...] = ()
    exception: BaseException | None = None


COMPLETED = Ending()

_UNASKED = (
    "The run was parked without a question: resume it to continue, or say what it waits for, with "
    "host.ask_user(...) or Parked(PendingQuestion(...))."
)


def classify(
    exception: BaseException | None,
    *,
    stop: StopReason,
    was_cut: bool,
    interrupt: Interrupt | None,
    limit: AgentError,
    questions: Iterable[Pending] = (),
) -> Ending:
    """Return how an attempt of the engine ended.

    Args:
        exception: What the engine raised; None if it returned.
        stop: Why upshot stopped it, "" if it did not.
        was_cut: Whether that cancelled the engine while it was running. Then only *stop* counts,
            whatever the engine raised while it cleaned up.
        interrupt: The request to stop, None without one.
        limit: The error for a run that is out of time or over budget.
        questions: The open questions that were asked through the host.

    Returns:
        The ending. An exception of an unknown kind becomes failed with code internal.
    """
    if exception is not None:
        exception = signal_of(exception) or exception
    if was_cut and not isinstance(exception, JournalError):
        return _stopped_ending(exception, stop, interrupt, limit)
    match exception:
        case None:
            return COMPLETED
        case Interrupted(interrupt=own):
            return _interrupted_ending(interrupt or own, exception)
        case Parked():
            return _parked_ending(exception, questions, interrupt)
        case Aborted(error=error):
            return Ending(status=Status.ABORTED, error=error, exception=exception)
        case Failed(error=error) if interrupt and _is_of_interrupted_run(error):
            # The same interrupt stopped a child run.
            return _interrupted_ending(interrupt, exception)
        case Failed(error=error, raised=raised):
            return Ending(status=Status.FAILED, error=error, exception=raised or exception)
        case JournalError():
            code = ErrorCode.TAKEN_OVER if exception.taken_over else ErrorCode.INTERNAL
            error = AgentError(code, str(exception), type="JournalError", origin=Origin.JOURNAL)
            return Ending(status=Status.FAILED, error=error, exception=exception)
        case _:
            return _stopped_ending(exception, stop, interrupt, limit)


def _stopped_ending(
    exception: BaseException | None,
    stop: StopReason,
    interrupt: Interrupt | None,
    limit: AgentError,
) -> Ending:
    """Return the ending for the reason *stop*, or for an exception that is not a signal."""
    match stop:
        case "deadline" | "working" | "budget":
            return Ending(status=Status.FAILED, error=limit, exception=exception)
        case "interrupt":
            return _interrupted_ending(interrupt or Interrupt(), exception)
        case "cancel" | "caller":
            message = "The run was canceled."
            error = AgentError(ErrorCode.CANCELED, message, origin=Origin.CALLER)
            return Ending(status=Status.CANCELED, error=error, exception=exception)
        case "":
            if exception is None:
                return COMPLETED
            error = error_of(exception, Origin.ENGINE)
            return Ending(status=Status.FAILED, error=error, exception=exception)


def error_of(exception: BaseException, origin: Origin) -> AgentError:
    """Return the error of a run in which code raised *exception*; details say where.

    If the exception reports a known failure, as exceptions of API clients do, it is that failure.
    Otherwise it is a bug of the code: code internal, with *origin*.
    """
    reported = reported_error(exception)
    if reported is not None:
        return msgspec.structs.replace(
            reported, details={**trail_of(exception), **reported.details}
        )
    return AgentError(
        ErrorCode.INTERNAL,
        said_by(exception),
        type=kind_of(exception),
        origin=origin,
        details=trail_of(exception),
    )


def _interrupted_ending(interrupt: Interrupt, exception: BaseException | None) -> Ending:
    why = ": ".join(filter(None, (str(interrupt.cause), interrupt.detail)))
    error = AgentError(
        ErrorCode.INTERRUPTED,
        f"The run was interrupted{f' ({why})' if why else ''}.",
        origin=Origin.HOST,
    )
    return Ending(status=Status.INTERRUPTED, error=error, interrupt=interrupt, exception=exception)


def _is_of_interrupted_run(error: AgentError) -> bool:
    """Whether *error* was made by ``_interrupted_ending``."""
    # A step with an unknown outcome has that code too, with another origin.
    return error.code is ErrorCode.INTERRUPTED and error.origin is Origin.HOST


def _parked_ending(
    parked: Parked, questions: Iterable[Pending], interrupt: Interrupt | None
) -> Ending:
    if interrupt is not None:
        # An engine that parks without looking for the request would wait on regardless.
        return _interrupted_ending(interrupt, parked)
    reason, pending = parked.reason, unique_pending((*parked.pending, *questions))
    waits = ", ".join(map(_describe, pending))
    unasked = f"The run was parked: {reason}" if reason else _UNASKED
    message = f"The run waits for people: {waits}." if waits else unasked
    error = AgentError(ErrorCode.INPUT_REQUIRED, message, origin=Origin.HOST)
    return Ending(status=Status.INPUT_REQUIRED, error=error, pending=pending)


def _describe(item: Pending) -> str:
    if isinstance(item, PendingApproval):
        return f"approval of {item.tool_name} ({item.id})"
    return f"{item.kind.removeprefix('pending_')} {item.id}"


class Returned(NamedTuple):
    """The contents of a result, or something like it, that code returned.

    Attributes:
        output: The typed answer, None if there is only text.
        content: The text, None for none.
        ending: The signal that ends the run in the same way; None if it completed.
    """

    output: object = None
    content: str | None = None
    ending: Signal | None = None

    @property
    def answer(self) -> object:
        """The typed answer, or the text if there is none."""
        return self.content if self.output is None else self.output


def read_returned(value: object) -> Returned | None:
    """Read a result, a model's reply, an error or an exception that code returned.

    Args:
        value: In any form that ``coerce_result`` accepts. A mapping without a failure may be plain
            data, so it counts only if it also has fields of a model call.

    Returns:
        None if it is none of these.
    """
    result = read_result(value, or_data=True)
    if result is None:
        return None
    returned = _from_result(result)
    # A reply has only text; it is parsed later as the wanted type.
    return returned._replace(output=None) if isinstance(value, ModelResponse) else returned


def read_raised(error: BaseException | None) -> Signal | None:
    """Read a RunFailed that an engine did not catch: its run ends as the failed run did.

    In an exception group, as a ``TaskGroup`` raises it, it is combined with the other signals.

    Returns:
        None if it is no RunFailed, or a group that contains other exceptions too.
    """
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return signal_of(group.derive([read_raised(leaf) or leaf for leaf in group.exceptions]))
    returned = read_returned(error.result) if isinstance(error, RunFailed) else None
    if returned is None or returned.ending is None:
        return None
    returned.ending.__cause__ = error
    return returned.ending


def _from_result(result: AgentResult[Any]) -> Returned:
    ending = _signal_for(result)
    if ending is not None:
        ending.result = result
        if isinstance(result.raw, BaseException):
            ending.__cause__ = result.raw
        if not isinstance(ending, Parked):
            ending.last_text = result.content or ""
    return Returned(result.output, result.content, ending)


def _signal_for(result: AgentResult[Any]) -> Signal | None:
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
            # The run itself was not cancelled, so a canceled child run is a failure.
            return Failed(error)
