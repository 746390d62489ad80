"""The API surfaces, as one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..contract import JsonObject
from ..errors import Misuse
from .chat import ChatStream, read_chat
from .chat_transcript import ChatTranscript
from .draft import Draft, SurfaceStream
from .messages import MessagesStream, read_messages
from .messages_transcript import MessagesTranscript
from .transcript import Transcript

__all__ = ["SURFACES", "Surface", "find_surface", "make_transcript"]


@dataclass(frozen=True, slots=True)
class Surface:
    """One API surface.

    Attributes:
        read: Reads a whole reply into a draft.
        open_stream: Makes the reader of one streamed reply into a draft.
        make_transcript: Makes an empty conversation; takes ``provider``.
        done_mark: Data that ends the stream without being JSON, b"" where there is none.
    """

    read: Callable[[JsonObject, Draft], None]
    open_stream: Callable[[Draft], SurfaceStream]
    make_transcript: Callable[..., Transcript]
    done_mark: bytes = b"[DONE]"


# The readers dispatch by this table alone: another surface is another line.
SURFACES: Final[dict[str, Surface]] = {
    "chat": Surface(read_chat, ChatStream, ChatTranscript),
    "messages": Surface(read_messages, MessagesStream, MessagesTranscript),
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
        surface: "chat" or "messages".
        provider: Whose dialect is spoken, and whose reasoning signatures are sent back.

    Raises:
        Misuse: There is no such surface.
    """
    return find_surface(surface).make_transcript(provider=provider)
