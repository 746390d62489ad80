"""Images, sound and files in the replies of models, as parts of a message.

A provider sends bytes in base64, whole or in pieces. What is not base64 is no part: the reply is
read without it.

Source:
    https://platform.openai.com/docs/guides/audio and .../guides/image-generation,
    https://openrouter.ai/docs/guides/overview/multimodal/image-generation and
    https://ai.google.dev/gemini-api/docs/image-generation, read November 2026.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

from upshot.contract.message import Audio, File, Image

_DATA_URL: Final = re.compile(r"data:([\w.+/-]*)[^,]*;base64,", re.ASCII)
# The first bytes of a sound whose type is not said.
_SOUNDS: Final = (
    (b"RIFF", "audio/wav"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
)


def decode_media(text: str) -> bytes | None:
    """Return the bytes of base64 *text*, None if it is empty or not base64."""
    try:
        return b64decode(text, validate=True) or None
    except ValueError:
        return None


def to_media_part(
    data: bytes, media_type: str, *, provider: str = "", signature: str | None = None
) -> Image | Audio | File:
    """Return *data* as the part of its type.

    Args:
        data: The bytes.
        media_type: Such as "image/png".
        provider: The sender.
        signature: What has to be sent back to the sender with an image; None for nothing.
    """
    family = media_type.partition("/")[0]
    if family == "image":
        owner = provider if signature else ""
        return Image(data=data, media_type=media_type, signature=signature, provider=owner)
    if family == "audio":
        return Audio(data=data, media_type=media_type)
    return File(data=data, media_type=media_type)


def to_sound(data: bytes, ident: str) -> Audio:
    """Return a sound whose type the provider does not name.

    Args:
        data: The bytes.
        ident: The provider's id of it.
    """
    kind = next((kind for start, kind in _SOUNDS if data.startswith(start)), "")
    return Audio(data=data, media_type=kind, id=ident)


def to_image(url: str) -> Image | None:
    """Return the image at *url*, which may be a ``data:`` address; None if there is none."""
    found = _DATA_URL.match(url)
    if found is None:
        return Image(url=url) if url.startswith(("https:", "http:")) else None
    data = decode_media(url[found.end() :])
    return None if data is None else Image(data=data, media_type=found[1] or "image/png")
