"""The API surfaces, as one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..contract import JsonObject
from ..errors import Misuse
from .chat import ChatStream, read_chat
from .chat_transcript import ChatTranscript
from .converse import ConverseStream, read_converse
from .draft import Draft, SurfaceStream
from .generate import GenerateStream, read_generate
from .generate_transcript import GenerateTranscript
from .invoke import InvokeStream, read_invoke
from .messages import MessagesStream, read_messages
from .messages_transcript import MessagesTranscript
from .responses import ResponsesStream, read_responses
from .responses_transcript import ResponsesTranscript
from .transcript import Transcript

__all__ = ["SURFACES", "Surface", "find_surface", "make_transcript"]


@dataclass(frozen=True, slots=True)
class Surface:
    """One API surface.

    Attributes:
        read: Reads a whole reply into a draft.
        open_stream: Makes the reader of one streamed reply into a draft.
        make_transcript: Makes an empty conversation; takes ``provider``. None where none is
            written.
        done_mark: Data that ends the stream without being JSON, b"" where there is none.
        arrays: Whether a stream may also come as a JSON array of its chunks.
    """

    read: Callable[[JsonObject, Draft], None]
    open_stream: Callable[[Draft], SurfaceStream]
    make_transcript: Callable[..., Transcript] | None = None
    done_mark: bytes = b"[DONE]"
    arrays: bool = False


# The readers dispatch by this table alone: another surface is another line.
SURFACES: Final[dict[str, Surface]] = {
    "chat": Surface(read_chat, ChatStream, ChatTranscript),
    "messages": Surface(read_messages, MessagesStream, MessagesTranscript),
    "responses": Surface(read_responses, ResponsesStream, ResponsesTranscript),
    "generate": Surface(read_generate, GenerateStream, GenerateTranscript, arrays=True),
    "converse": Surface(read_converse, ConverseStream),
    "invoke": Surface(read_invoke, InvokeStream),
}


def find_surface(name: str) -> Surface:
    """The surface called *name*.

    Raises:
        Misuse: There is none of that name.
    """
    surface = SURFACES.get(name)
    if surface is None:
        known = ", ".join(sorted(SURFACES))
        raise Misuse(f"there is no surface {name!r}: the surfaces are {known}")
    return surface


def make_transcript(surface: str, *, provider: str = "") -> Transcript:
    """Make an empty conversation in the form of *surface*.

    Args:
        surface: "chat", "responses", "messages" or "generate".
        provider: Whose dialect is spoken, and whose reasoning signatures are sent back.

    Raises:
        Misuse: There is no such surface, or it is one that is only read.
    """
    make = find_surface(surface).make_transcript
    if make is None:
        raise Misuse(f"the surface {surface!r} is only read: no requests are written for it")
    return make(provider=provider)
