"""What passes between the HTTP server, the provider and the two APIs.

A request comes in as `Received`; an API reads it as an `Ask`; the script answers with a `Turn`; the
API writes that as bytes, and the server plays them as a `Playback`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from upshot.sim.scenario import Tokens
from upshot.sim.token_buckets import BucketReading

Ending = Literal["whole", "cut", "reset", "hang"]


class Playback(Struct, frozen=True, kw_only=True):
    """One HTTP reply, and how it goes wrong if it does."""

    status: int = 200
    headers: Mapping[str, str] = {}
    chunks: tuple[bytes, ...] = ()
    streamed: bool = False
    length_bytes: int | None = None
    first_byte_s: float = 0.0
    between_s: float = 0.0
    ending: Ending = "whole"


_USUAL: Mapping[int, str] = {
    400: "The request is not valid.",
    401: "Incorrect API key provided.",
    403: "The key has no access to this.",
    404: "The model does not exist, or you have no access to it.",
    408: "The request took too long to arrive.",
    413: "The request is larger than allowed.",
    429: "Rate limit reached. Please try again later.",
    500: "The server had an error while processing your request.",
    503: "The service is temporarily unavailable.",
    529: "Overloaded",
}


class Problem(Struct, frozen=True):
    """An error reply."""

    status: int
    message: str
    code: str = ""
    param: str | None = None
    resource: str = ""
    retry_after_s: float | None = None
    headers: Mapping[str, str] = {}


def usual_message(status: int) -> str:
    """The message that providers send with *status*, if the scenario has none."""
    return _USUAL.get(status, _USUAL[400] if status < 500 else _USUAL[500])


SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)


@dataclass(frozen=True)
class Received:
    """A request as it came.

    Attributes:
        method: In upper case.
        path: Without the query.
        headers: By lower-case name; those that carry keys are left out.
        raw: The body's bytes.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @cached_property
    def body(self) -> object:
        """The body read as JSON at first use; None if it is not JSON."""
        return read_json(self.raw)


class Quotes(Struct, frozen=True):
    """What templates may quote of a request."""

    results: list[tuple[str, object]]
    text: str
    model: str


class Ask(Struct, frozen=True):
    """What a request asks for, whatever its API."""

    model: str
    index: int
    stream: bool
    include_usage: bool
    quotes: Callable[[], Quotes]


def read_json(data: bytes | str | msgspec.Raw) -> object:
    """Read JSON leniently: None if it is not JSON, or too deeply nested."""
    try:
        return cast("object", msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def read_result(content: object) -> object:
    """Read the content of a tool result: its value where its text is JSON, else its text."""
    # Both APIs carry results as text, so that it was JSON can only be seen by trying.
    text = content_text(content)
    value = read_json(text)
    return text if value is None and text.strip() != "null" else value


def content_text(content: object) -> str:
    """The text of a message's content, in either API: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    # Images and other parts have no text: they are left out, as a template could not show them.
    parts = cast("list[object]", content)
    texts = [
        cast("Mapping[str, object]", part).get("text", "")
        for part in parts
        if isinstance(part, Mapping)
    ]
    return "".join(text for text in texts if isinstance(text, str))


class Call(Struct, frozen=True):
    """One tool call as it is said; ``arguments`` is its text, usually JSON."""

    id: str
    name: str
    arguments: str


class Turn(Struct, frozen=True):
    """What the model says in one reply; hashable, so that its encoded form can be cached."""

    text: str
    reasoning: str
    refusal: str
    calls: tuple[Call, ...]
    finish: str
    chunk_chars: int


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
    """What a reply carries besides what the model says."""

    id: str
    model: str
    created: int
    counts: Counts | None


class Body(Struct, kw_only=True):
    """What both APIs have in a request."""

    model: str
    messages: list[Any]
    stream: bool | None = False


B = TypeVar("B", bound=Body)


class Surface(ABC, Generic[B]):
    """One API: how it is asked, and how it answers, fails and sends its limits.

    Attributes:
        id_prefix: What ids of tool calls begin with.
        request_id_header: The header that carries the id of a request.
        decoder: Reads a request. Only what decides the answer is decoded; contents stay raw
            bytes, however long the history is.
        limit_header: The form of the header for one figure of one resource.
    """

    id_prefix: str
    request_id_header: str
    decoder: msgspec.json.Decoder[B]
    limit_header: str

    def read(self, body: bytes, *, strict: bool) -> Ask | Problem:
        """Understand a request; with *strict*, refuse conversations that the real API refuses."""
        try:
            asked = self.decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Problem(400, f"The request body is not valid: {error}")
        if strict and (problem := self.find_fault(asked)):
            return problem
        return Ask(
            model=asked.model,
            # Not the number of user messages: one reply may be followed by many of them, or none.
            index=sum(message.role == "assistant" for message in asked.messages),
            stream=bool(asked.stream),
            include_usage=self.includes_usage(asked),
            quotes=lambda: self.quotes(asked),
        )

    @abstractmethod
    def find_fault(self, asked: B) -> Problem | None:
        """Why the API refuses a conversation: calls without results, results without calls."""

    @abstractmethod
    def includes_usage(self, asked: B) -> bool:
        """Whether a stream ends with its usage."""

    @abstractmethod
    def quotes(self, asked: B) -> Quotes:
        """What templates may quote."""

    @abstractmethod
    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """The whole reply as JSON."""

    @abstractmethod
    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> Sequence[bytes]:
        """The reply as stream events, each complete with its blank line."""

    @abstractmethod
    def problem(self, problem: Problem, request_id: str) -> bytes:
        """An error as JSON."""

    @abstractmethod
    def problem_event(self, problem: Problem) -> bytes:
        """An error as a stream event."""

    @abstractmethod
    def broken_event(self) -> bytes:
        """A stream event whose JSON breaks off."""

    def limit_headers(self, readings: Sequence[BucketReading], now: datetime) -> Mapping[str, str]:
        """Headers with the state of the buckets."""
        return {
            self.limit_header.format(figure=figure, resource=reading.resource): text
            for reading in readings
            for figure, text in (
                ("limit", str(reading.limit)),
                ("remaining", str(reading.remaining)),
                ("reset", self.reset_text(reading.reset_s, now)),
            )
        }

    @abstractmethod
    def reset_text(self, reset_s: float, now: datetime) -> str:
        """When a bucket is full again, as a header says it."""

    @abstractmethod
    def retry_headers(self, retry_after_s: float) -> Mapping[str, str]:
        """Headers that say when to try again."""


class Reception(Struct, frozen=True):
    """One request at one surface, with what every answer to it needs."""

    surface: Surface[Any]
    id: str
    limits: Mapping[str, str] = {}

    @property
    def request_id(self) -> str:
        """The id as it is sent."""
        return f"req_{self.id}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every answer to it."""
        return {self.surface.request_id_header: self.request_id, **self.limits}

    def with_headers(self, limits: Mapping[str, str]) -> Reception:
        """The same request with its limit headers."""
        return Reception(self.surface, self.id, limits)

    def refusal(self, problem: Problem) -> Playback:
        """The answer that reports *problem*."""
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


def count_tokens(turn: Turn, request_bytes: int, given: Tokens | None) -> Counts:
    """Estimate what the scenario does not say: about four bytes or characters make a token."""
    given = given or Tokens()
    said = (turn.text, turn.refusal, *(call.name + call.arguments for call in turn.calls))
    reasoning = _or_estimate(given.reasoning_tokens, len(turn.reasoning))
    # The parts are given, the whole may be estimated: it is never smaller than its parts.
    cached = given.cache_read_tokens + given.cache_write_tokens
    return Counts(
        input=max(_or_estimate(given.input_tokens, request_bytes), cached),
        output=max(
            _or_estimate(given.output_tokens, sum(map(len, said)) + len(turn.reasoning)),
            reasoning,
        ),
        cache_read=given.cache_read_tokens,
        cache_write=given.cache_write_tokens,
        reasoning=reasoning,
    )


def _or_estimate(count: int | None, characters: int) -> int:
    return math.ceil(characters / 4) if count is None else count
