"""The values that pass between the HTTP server, the provider and the two APIs.

A request comes in as `Received`; an API reads it as an `Ask`; the script answers with a `Turn`; the
API encodes that as bytes, and the server plays them as a `Playback`.
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
    """One HTTP reply, and how it fails if it does."""

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
    """Return the usual message of providers for *status*, if the scenario has none."""
    return _USUAL.get(status, _USUAL[400] if status < 500 else _USUAL[500])


SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)


@dataclass(frozen=True)
class Received:
    """A request as received.

    Attributes:
        method: In upper case.
        path: Without the query.
        headers: By lower-case name, without those that contain keys.
        raw: The body's bytes.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @cached_property
    def body(self) -> object:
        """The body as JSON, parsed at first use; None if it is not JSON."""
        return read_json(self.raw)


class Quotes(Struct, frozen=True):
    """The parts of a request that templates may quote."""

    results: list[tuple[str, object]]
    text: str
    model: str


class Ask(Struct, frozen=True):
    """What a request asks for, in either API."""

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
    """Read the content of a tool result: its value if its text is JSON, else its text."""
    # Both APIs send results as text, so parsing it is the only way to know whether it is JSON.
    text = content_text(content)
    value = read_json(text)
    return text if value is None and text.strip() != "null" else value


def content_text(content: object) -> str:
    """Return the text of a message's content, in either API: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    # Images and other parts have no text: they are omitted, as a template could not show them.
    parts = cast("list[object]", content)
    texts = [
        cast("Mapping[str, object]", part).get("text", "")
        for part in parts
        if isinstance(part, Mapping)
    ]
    return "".join(text for text in texts if isinstance(text, str))


class Call(Struct, frozen=True):
    """One tool call of a turn; ``arguments`` is text, usually JSON."""

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
    """Token counts of one reply: ``input`` includes cached tokens, ``output`` reasoning."""

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
    """The metadata of a reply, besides what the model says."""

    id: str
    model: str
    created: int
    counts: Counts | None


class Body(Struct, kw_only=True):
    """The fields of a request that both APIs share."""

    model: str
    messages: list[Any]
    stream: bool | None = False


B = TypeVar("B", bound=Body)


class Surface(ABC, Generic[B]):
    """One API: how it reads requests, and how it answers, fails and reports its limits.

    Attributes:
        id_prefix: The prefix of ids of tool calls.
        request_id_header: The header with the id of a request.
        decoder: Reads a request. Only what decides the answer is decoded; contents stay raw
            bytes, however long the history is.
        limit_header: The form of the header for one figure of one resource.
    """

    id_prefix: str
    request_id_header: str
    decoder: msgspec.json.Decoder[B]
    limit_header: str

    def read(self, body: bytes, *, strict: bool) -> Ask | Problem:
        """Parse a request; with *strict*, refuse conversations that the real API refuses."""
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
        """Return why the API refuses a conversation, such as calls without results."""

    @abstractmethod
    def includes_usage(self, asked: B) -> bool:
        """Whether a stream ends with its usage."""

    @abstractmethod
    def quotes(self, asked: B) -> Quotes:
        """Return what templates may quote."""

    @abstractmethod
    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """Return the whole reply as JSON."""

    @abstractmethod
    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> Sequence[bytes]:
        """Return the reply as stream events, each complete with its blank line."""

    @abstractmethod
    def problem(self, problem: Problem, request_id: str) -> bytes:
        """Return an error as JSON."""

    @abstractmethod
    def problem_event(self, problem: Problem) -> bytes:
        """Return an error as a stream event."""

    @abstractmethod
    def broken_event(self) -> bytes:
        """Return a stream event whose JSON breaks off."""

    def limit_headers(self, readings: Sequence[BucketReading], now: datetime) -> Mapping[str, str]:
        """Return headers with the state of the buckets."""
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
        """Return when a bucket is full again, in the form of the header."""

    @abstractmethod
    def retry_headers(self, retry_after_s: float) -> Mapping[str, str]:
        """Return headers that say when to retry."""


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
        """The headers of every answer to it."""
        return {self.surface.request_id_header: self.request_id, **self.limits}

    def with_headers(self, limits: Mapping[str, str]) -> Reception:
        """Return the same request with its limit headers."""
        return Reception(self.surface, self.id, limits)

    def refusal(self, problem: Problem) -> Playback:
        """Return the answer that reports *problem*."""
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
    """Count a reply's tokens; unknown counts are estimated at four bytes or characters each."""
    given = given or Tokens()
    texts = (turn.text, turn.refusal, *(call.name + call.arguments for call in turn.calls))
    reasoning = _or_estimate(given.reasoning_tokens, len(turn.reasoning))
    # The parts are given, the whole may be estimated: it is never smaller than its parts.
    cached = given.cache_read_tokens + given.cache_write_tokens
    return Counts(
        input=max(_or_estimate(given.input_tokens, request_bytes), cached),
        output=max(
            _or_estimate(given.output_tokens, sum(map(len, texts)) + len(turn.reasoning)),
            reasoning,
        ),
        cache_read=given.cache_read_tokens,
        cache_write=given.cache_write_tokens,
        reasoning=reasoning,
    )


def _or_estimate(count: int | None, characters: int) -> int:
    return math.ceil(characters / 4) if count is None else count
