"""Damage: what a fault makes of a reply."""

from __future__ import annotations

from msgspec.structs import replace

from .faults import (
    CutFault,
    ErrorFault,
    Fault,
    HangFault,
    MalformedFault,
    PageFault,
    ResetFault,
    StatusFault,
)
from .playback import Playback
from .problem import Problem, usual_message
from .surface import Reception

__all__ = ["damaged", "replaced"]


def replaced(fault: Fault, reception: Reception) -> Playback | None:
    """What is played in place of the reply; None where the fault needs the reply itself."""
    match fault:
        case StatusFault():
            return reception.refusal(_status_problem(fault))
        case PageFault():
            return Playback(
                status=fault.status,
                headers={"content-type": "text/html"},
                chunks=(fault.body.encode(),),
            )
        case ResetFault():
            return Playback(ending="reset")
        # With events before the silence it needs the reply, so only this form is decided here.
        case HangFault(after_events=0):
            return Playback(ending="hang")
        case _:
            return None


def damaged(playback: Playback, fault: Fault, reception: Reception) -> Playback:
    """What becomes of the reply; unchanged by faults that do not touch its body."""
    match fault:
        case CutFault():
            return _cut(playback, fault.after_events)
        case HangFault():
            return replace(_cut(playback, fault.after_events), ending="hang")
        case MalformedFault():
            return _broken(playback, fault.after_events, reception)
        case ErrorFault():
            return _error_inside(playback, fault, reception)
        case _:
            return playback


def _status_problem(fault: StatusFault) -> Problem:
    return Problem(
        fault.status,
        fault.message or usual_message(fault.status),
        code=fault.code,
        retry_after_s=fault.retry_after_s,
        headers=fault.headers,
    )


def _cut(playback: Playback, after_events: int) -> Playback:
    if playback.streamed:
        return replace(playback, chunks=playback.chunks[:after_events], ending="cut")
    # The full length is announced, so the client notices that the rest is missing.
    body = playback.chunks[0]
    return replace(playback, chunks=(_half(body),), length_bytes=len(body), ending="cut")


def _broken(playback: Playback, after_events: int, reception: Reception) -> Playback:
    # Here the length is true: the HTTP is sound, and only the JSON is not.
    if not playback.streamed:
        return replace(playback, chunks=(_half(playback.chunks[0]),))
    # One event is replaced, not added, so that a reader which skips it also loses its text.
    before, after = playback.chunks[:after_events], playback.chunks[after_events + 1 :]
    return replace(playback, chunks=(*before, reception.surface.broken_event(), *after))


def _error_inside(playback: Playback, fault: ErrorFault, reception: Reception) -> Playback:
    problem = Problem(fault.status, fault.message or usual_message(fault.status), code=fault.code)
    if not playback.streamed:
        return replace(playback, chunks=(reception.surface.problem(problem, reception.request_id),))
    event = reception.surface.problem_event(problem, reception.request_id)
    return replace(playback, chunks=(*playback.chunks[: fault.after_events], event))


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]
