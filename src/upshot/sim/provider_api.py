"""Surface: one provider API as the simulator speaks it; what both APIs share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from upshot.sim.exchange import Ask, Playback, Problem
from upshot.sim.reply_script import Turn
from upshot.sim.scenario import Tokens
from upshot.sim.token_buckets import BucketReading

__all__ = ["Counts", "Envelope", "Reception", "Surface", "count_tokens", "split_text"]


class Counts(Struct, frozen=True):
    """Token counts of one reply: ``input`` with cached ones, ``output`` with reasoning."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class Envelope(Struct, frozen=True):
    """What a reply carries besides what the model says.

    Attributes:
        id: Distinguishes the reply from all others; without an API's prefix.
        model: The model's name as the request had it.
        created: Unix seconds.
        counts: Token counts; None tells none.
    """

    id: str
    model: str
    created: int
    counts: Counts | None


class Surface(Protocol):
    """One API: how it is asked, and how it answers, errs and tells its limits.

    Attributes:
        name: For messages: ``chat`` or ``messages``.
        id_prefix: How its ids of tool calls begin.
        request_id_header: Where it tells the request's id.
    """

    name: str
    id_prefix: str
    request_id_header: str

    def read(self, body: bytes, *, strict: bool) -> Ask | Problem:
        """Understand a request; with *strict*, refuse conversations that the real API refuses."""
        ...

    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """The whole reply as JSON."""
        ...

    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> Sequence[bytes]:
        """The reply as stream events, each complete with its blank line."""
        ...

    def problem(self, problem: Problem, request_id: str) -> bytes:
        """An error as JSON."""
        ...

    def problem_event(self, problem: Problem, request_id: str) -> bytes:
        """An error as a stream event."""
        ...

    def broken_event(self) -> bytes:
        """A stream event whose JSON breaks off."""
        ...

    def limit_headers(self, readings: Sequence[BucketReading], now: datetime) -> Mapping[str, str]:
        """Headers that tell the state of the buckets."""
        ...

    def retry_headers(self, retry_after_s: float) -> Mapping[str, str]:
        """Headers that tell when to come again."""
        ...


class Reception(Struct, frozen=True):
    """One request at one surface, as far as every answer to it needs to know.

    Attributes:
        surface: The API it came to.
        id: Distinguishes it from all others.
        limits: The limit headers that the answer carries.
    """

    surface: Surface
    id: str
    limits: Mapping[str, str] = {}

    @property
    def request_id(self) -> str:
        """The id as it is told."""
        return f"req_{self.id}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every answer to it."""
        return {self.surface.request_id_header: self.request_id, **self.limits}

    def with_headers(self, limits: Mapping[str, str]) -> Reception:
        """The same with the limit headers known."""
        return Reception(self.surface, self.id, limits)

    def refusal(self, problem: Problem) -> Playback:
        """The answer that tells *problem*."""
        headers = {"content-type": "application/json", **self.headers}
        if problem.retry_after_s is not None:
            headers |= self.surface.retry_headers(problem.retry_after_s)
        return Playback(
            status=problem.status,
            headers={**headers, **problem.headers},
            chunks=(self.surface.problem(problem, self.request_id),),
        )


def split_text(text: str, size: int) -> list[str]:
    """Cut *text* into pieces of *size* characters, the last one shorter; none for an empty text."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def count_tokens(turn: Turn, request_bytes: int, told: Tokens | None) -> Counts:
    """Estimate what the scenario does not tell: about four bytes or characters make a token."""
    told = told or Tokens()
    said = (turn.text, turn.refusal, *(call.name + call.arguments for call in turn.calls))
    reasoning = _told(told.reasoning_tokens, len(turn.reasoning))
    # The parts are told, the whole may be estimated: it is never told smaller than its parts.
    cached = told.cache_read_tokens + told.cache_write_tokens
    return Counts(
        input=max(_told(told.input_tokens, request_bytes), cached),
        output=max(_told(told.output_tokens, sum(map(len, said)) + len(turn.reasoning)), reasoning),
        cache_read=told.cache_read_tokens,
        cache_write=told.cache_write_tokens,
        reasoning=reasoning,
    )


def _told(count: int | None, characters: int) -> int:
    return math.ceil(characters / 4) if count is None else count
