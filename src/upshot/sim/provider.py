"""From a request to an answer, faults included."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from upshot.contract.protocols import Clock
from upshot.sim.chat_api import ChatSurface
from upshot.sim.exchange import (
    Ask,
    Counts,
    Envelope,
    Playback,
    Problem,
    Received,
    Reception,
    Surface,
    Turn,
    count_tokens,
    usual_message,
)
from upshot.sim.faults import (
    CutFault,
    ErrorFault,
    Fault,
    FaultBox,
    HangFault,
    MalformedFault,
    PageFault,
    ResetFault,
    SlowFault,
    StatusFault,
)
from upshot.sim.messages_api import MessagesSurface
from upshot.sim.reply_script import compile_scripts
from upshot.sim.scenario import Latency, Reply, Scenario
from upshot.sim.token_buckets import LimitGauge, Limits, OverLimit


def replaced(fault: Fault, reception: Reception) -> Playback | None:
    """What is played in place of the reply; None if the fault needs the reply itself."""
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
    """The reply after *fault*; unchanged by faults that do not touch its body."""
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
    event = reception.surface.problem_event(problem)
    return replace(playback, chunks=(*playback.chunks[: fault.after_events], event))


def _half(body: bytes) -> bytes:
    return body[: len(body) // 2]


_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON = {"content-type": "application/json"}
_CHAT = ChatSurface()
_MESSAGES = MessagesSurface()


class _Plan(Struct, frozen=True):
    """A reply that was chosen and filled in, before limits and faults."""

    position: int
    reply: Reply
    turn: Turn
    counts: Counts
    faults: FaultBox


class Provider:
    """A simulated account at a provider: its scripts, buckets and remaining faults."""

    def __init__(
        self,
        scenario: Scenario,
        where: str = "scenario",
        *,
        clock: Clock,
        limits: Limits | None = None,
        faults: Sequence[Fault] = (),
        api_key: str | None = None,
        strict: bool = True,
    ) -> None:
        self._scenario = scenario
        self._scripts = compile_scripts(scenario, where)
        self._clock = clock
        self._gauge = LimitGauge(limits or scenario.limits or Limits(), now=clock.monotonic())
        self._faults = FaultBox((*faults, *scenario.faults))
        self._api_key = api_key
        self._strict = strict
        # Ids differ between servers and between requests, without asking for randomness at each.
        self._id_seed = os.urandom(8).hex()
        self._served = 0

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """What goes back for *received*, which came with that API *key* ("" for none)."""
        # Counted before anything is decided: refusals have ids of their own too.
        self._served += 1
        reception = Reception(
            _MESSAGES if received.path.endswith("/messages") else _CHAT,
            f"{self._id_seed}{self._served:08x}",
        )
        ask = self._admit(reception.surface, received, key)
        if isinstance(ask, Problem):
            return reception.refusal(ask)
        plan = self._plan(reception.surface, ask, len(received.raw))
        if isinstance(plan, Problem):
            return reception.refusal(plan)
        return self._play(reception, ask, plan)

    def _admit(self, surface: Surface[Any], received: Received, key: str) -> Ask | Problem:
        # By its end only: clients differ in what they put before it (/v1, /openai/deployments/x).
        if not received.path.endswith(("/chat/completions", "/messages")):
            return Problem(
                404, f"Unknown request URL: {received.method} {received.path}.", code="unknown_url"
            )
        if received.method != "POST":
            return Problem(405, f"Not allowed to {received.method} on {received.path}: use POST.")
        if self._api_key is not None and key != self._api_key:
            return Problem(
                401, "Incorrect API key provided." if key else "You did not provide an API key."
            )
        return surface.read(received.raw, strict=self._strict)

    def _plan(self, surface: Surface[Any], ask: Ask, request_bytes: int) -> _Plan | Problem:
        script = self._scripts.get(ask.model) or self._scripts.get(None)
        if script is None:
            return Problem(
                404, f"The model `{ask.model}` does not exist or you do not have access to it."
            )
        position = script.position(ask.index)
        if isinstance(position, Problem):
            return position
        # Filled in before the limits are asked, since a request costs the tokens of its reply too.
        turn = script.turn(position, ask.quotes, index=ask.index, id_prefix=surface.id_prefix)
        if isinstance(turn, Problem):
            return turn
        reply = script.reply(position)
        return _Plan(
            position, reply, turn, count_tokens(turn, request_bytes, reply.usage), script.faults
        )

    def _play(self, reception: Reception, ask: Ask, plan: _Plan) -> Playback:
        now = self._clock.monotonic()
        refused = self._gauge.admit(tokens=plan.counts.total, now=now)
        # A 429 carries the state as well, so the headers are made for both ways out.
        limits = reception.surface.limit_headers(self._gauge.readings(now), self._clock.now())
        reception = reception.with_headers(limits)
        if refused is not None:
            return reception.refusal(_over_limit(ask.model, refused))
        # A refused request never reached the model, so it uses up no fault.
        fault = plan.faults.pick(plan.position) or self._faults.pick(ask.index)
        if fault is not None and (instead := replaced(fault, reception)) is not None:
            return instead
        playback = self._reply(reception, ask, plan, fault)
        return playback if fault is None else damaged(playback, fault, reception)

    def _reply(self, reception: Reception, ask: Ask, plan: _Plan, fault: Fault | None) -> Playback:
        latency = plan.reply.latency or self._scenario.latency
        envelope = Envelope(
            reception.id,
            ask.model,
            int(self._clock.now().timestamp()),
            None if plan.reply.omit_usage else plan.counts,
        )
        surface = reception.surface
        if ask.stream:
            chunks = tuple(surface.events(plan.turn, envelope, include_usage=ask.include_usage))
        else:
            chunks = (surface.reply(plan.turn, envelope),)
        return Playback(
            headers={
                **(_STREAM if ask.stream else _JSON),
                **reception.headers,
                **plan.reply.headers,
            },
            chunks=chunks,
            streamed=ask.stream,
            first_byte_s=_first_byte_s(latency, fault),
            between_s=latency.between_chunks_ms / 1000,
        )


def _first_byte_s(latency: Latency, fault: Fault | None) -> float:
    extra_ms = fault.first_byte_ms if isinstance(fault, SlowFault) else 0
    return (latency.first_byte_ms + extra_ms) / 1000


def _over_limit(model: str, refused: OverLimit) -> Problem:
    reading = refused.reading
    message = (
        f"Rate limit reached for {model} on {reading.resource} per min: Limit {reading.limit}, "
        f"Remaining {reading.remaining}, Requested {refused.needed}."
    )
    if refused.retry_after_s is not None:
        message += f" Please try again in {refused.retry_after_s:.3f}s."
    return Problem(429, message, resource=reading.resource, retry_after_s=refused.retry_after_s)
