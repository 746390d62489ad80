"""The words of Google's enumerations, by the numbers that some clients ask for instead.

Source:
    The protocol buffers of the Gemini API (v1beta) and of Vertex AI (v1beta1), as published with
    google-ai-generativelanguage 0.12 and google-cloud-aiplatform 2.7.
"""

from __future__ import annotations

from typing import Final

from ..contract import Json
from .document import as_count, as_text

__all__ = ["AUDIO", "NOT_BLOCKED", "parse_block_reason", "parse_finish"]

AUDIO: Final = ("AUDIO", 4)
"""How a modality says that it is sound."""

NOT_BLOCKED: Final = frozenset({"", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
"""Words that give no reason why a prompt was not answered."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Up to 5 the two services number them alike.
_GEMINI: Final = _words(
    "FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION OTHER LANGUAGE BLOCKLIST "
    "PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL IMAGE_SAFETY UNEXPECTED_TOOL_CALL "
    "TOO_MANY_TOOL_CALLS IMAGE_PROHIBITED_CONTENT IMAGE_OTHER NO_IMAGE IMAGE_RECITATION"
)
_VERTEX: Final = _words(
    "FINISH_REASON_UNSPECIFIED STOP MAX_TOKENS SAFETY RECITATION OTHER BLOCKLIST "
    "PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL MODEL_ARMOR"
)
_BLOCKS: Final = _words(
    "BLOCK_REASON_UNSPECIFIED SAFETY OTHER BLOCKLIST PROHIBITED_CONTENT IMAGE_SAFETY"
)
_VERTEX_BLOCKS: Final = (*_BLOCKS[:-1], "MODEL_ARMOR")


def parse_finish(value: Json, *, provider: str) -> str:
    """Why the model stopped, as a word; "" where *value* is none.

    Args:
        value: The word, or its number.
        provider: Whose number it is.
    """
    return _parse(value, _VERTEX if "vertex" in provider else _GEMINI)


def parse_block_reason(value: Json, *, provider: str) -> str:
    """Why the prompt was not answered, as a word; see :func:`parse_finish`."""
    return _parse(value, _VERTEX_BLOCKS if "vertex" in provider else _BLOCKS)


def _parse(value: Json, words: tuple[str, ...]) -> str:
    number = as_count(value)
    if number is None:
        return as_text(value)
    return words[number] if number < len(words) else str(number)
