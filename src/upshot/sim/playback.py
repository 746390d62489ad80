"""Playback: exactly what goes back over the connection, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

__all__ = ["Ending", "Playback"]

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
