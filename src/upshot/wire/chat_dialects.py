"""How the servers of the Chat Completions surface differ in what they take, as data.

What a server does not know it either ignores or refuses with a 400, so a field is only sent in the
form that its dialect names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["DIALECTS", "PLAIN", "ChatDialect", "find_dialect"]

# OpenAI refuses ids of more than 40 characters.
_ANY_ID: Final = re.compile(r".{1,40}", re.DOTALL)
_SHORT_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """What one server takes.

    Attributes:
        max_tokens: The field for the most tokens to generate.
        seed: The field for the seed.
        required: The word that makes the model call some tool.
        reasoning: How thinking is asked for: by ``reasoning_effort``; by a ``reasoning`` object;
            by ``thinking`` with an effort beside it; by ``enable_thinking``; or "" not at all.
        reasoning_back: How earlier thoughts are sent back: in ``reasoning_content``, as
            ``reasoning_details`` just as they came, as "thinking" parts, or "" not at all.
        usage_option: Whether a stream tells usage only when ``stream_options`` asks for it.
        schema: Whether the server takes a JSON Schema for the answer. Otherwise it is asked for a
            JSON object, and the schema is put into the instructions.
        call_id: What an id of a call must look like.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed: Literal["seed", "random_seed"] = "seed"
    required: Literal["required", "any"] = "required"
    reasoning: Literal["", "effort", "object", "thinking", "enable"] = "effort"
    reasoning_back: Literal["", "content", "details", "parts"] = ""
    usage_option: bool = True
    schema: bool = True
    call_id: re.Pattern[str] = _ANY_ID


PLAIN: Final = ChatDialect()
"""For a server of which nothing is known."""

_OPENAI = ChatDialect(max_tokens="max_completion_tokens")
_GATEWAY = ChatDialect(reasoning="object", reasoning_back="details")

DIALECTS: Final[dict[str, ChatDialect]] = {
    "openai": _OPENAI,
    "azure": _OPENAI,
    "groq": _OPENAI,
    "cerebras": _OPENAI,
    "xai": _OPENAI,
    "openrouter": _GATEWAY,
    "vercel-gateway": _GATEWAY,
    "deepseek": ChatDialect(reasoning="thinking", reasoning_back="content", schema=False),
    "zai": ChatDialect(reasoning="thinking", reasoning_back="content", schema=False),
    "moonshot": ChatDialect(reasoning="", reasoning_back="content"),
    "alibaba": ChatDialect(reasoning="enable", schema=False),
    "mistral": ChatDialect(
        seed="random_seed",
        required="any",
        reasoning_back="parts",
        usage_option=False,
        call_id=_SHORT_ID,
    ),
    "perplexity": ChatDialect(usage_option=False),
}


def find_dialect(provider: str) -> ChatDialect:
    """The dialect of *provider*, ``PLAIN`` for one that is not in the table."""
    return DIALECTS.get(provider, PLAIN)
