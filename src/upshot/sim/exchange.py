"""Received requests, problems, and what goes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

import msgspec
from msgspec import Struct

from upshot.sim.templates import Quotes

__all__ = [
    "Ask",
    "Ending",
    "Playback",
    "Problem",
    "Received",
    "ToolResult",
    "content_text",
    "gather_quotes",
    "read_json",
    "read_result",
    "usual_message",
]

Ending = Literal["whole", "cut", "reset", "hang"]


class Playback(Struct, frozen=True, kw_only=True):
    """One HTTP reply, or what becomes of it.

    Attributes:
        status: HTTP status.
        headers: With the content type.
        chunks: The body in the pieces to be written.
        streamed: True sends the body in HTTP chunks of unknown length, one a piece.
        length_bytes: What a reply that is not streamed says its length is; None for the true one.
        first_byte_s: Silence before the status line.
        between_s: Pause before each piece but the first.
        ending: ``whole`` ends the reply as it should; ``cut`` closes the connection after the
            pieces; ``hang`` falls silent after them; ``reset`` resets the connection instead of
            anything else.
    """

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
    """An error reply.

    Attributes:
        status: HTTP status, 400 to 599.
        message: What the client is told.
        code: The provider's code; "" for the usual one of the status.
        param: Which part of the request is meant; None for none.
        resource: For 429: what ran out, requests or tokens; "" where it is not known.
        retry_after_s: Seconds for ``retry-after``; None for no such header.
        headers: Further headers.
    """

    status: int
    message: str
    code: str = ""
    param: str | None = None
    resource: str = ""
    retry_after_s: float | None = None
    headers: Mapping[str, str] = {}


def usual_message(status: int) -> str:
    """What providers say with *status* where the scenario does not."""
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
        """The body read as JSON at first use; None where it is none."""
        return read_json(self.raw)


class Ask(Struct, frozen=True):
    """What a request asks for, whatever its API.

    Attributes:
        model: As the client named it.
        index: How many assistant messages it holds.
        stream: Whether the reply shall be a stream.
        include_usage: Whether the stream shall end with usage.
        quotes: Gives what templates may quote; costs time, so it is asked only when needed.
    """

    model: str
    index: int
    stream: bool
    include_usage: bool
    quotes: Callable[[], Quotes]


class ToolResult(Struct, frozen=True):
    """One tool result of a request: whose, and its value as :func:`read_result` gives it."""

    tool: str
    value: object


def read_json(data: bytes | str | msgspec.Raw) -> object:
    """Read JSON leniently: None where it is none, or nested beyond reason."""
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


def gather_quotes(results: Sequence[ToolResult], *, user_text: str, model: str) -> Quotes:
    """Arrange the tool results of a request so that paths find them."""
    every: dict[str, list[object]] = {}
    for result in results:
        every.setdefault(result.tool, []).append(result.value)
    return Quotes(
        named={tool: values[-1] for tool, values in every.items()},
        ordered=[result.value for result in results],
        every=every,
        request={"text": user_text, "model": model},
    )
