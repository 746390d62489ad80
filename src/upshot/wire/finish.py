"""Finish reasons: the words of all providers, as one table."""

from __future__ import annotations

from ..contract import FinishReason

__all__ = ["UNFINISHED", "parse_finish_reason", "settle_finish"]

_WORDS: dict[FinishReason, str] = {
    FinishReason.STOP: "stop end_turn stop_sequence eos eos_token completed complete done finish",
    FinishReason.LENGTH: (
        "length max_tokens max_output_tokens model_length max_length max_new_tokens token_limit "
        "model_context_window_exceeded context_window_exceeded"
    ),
    FinishReason.TOOL_USE: (
        "tool_calls tool_call tool_use tooluse function_call unexpected_tool_call"
    ),
    FinishReason.CONTENT_FILTER: (
        "content_filter content_filtered refusal safety recitation blocklist prohibited_content "
        "guardrail guardrail_intervened guardrails spii image_safety image_prohibited_content "
        "image_recitation language model_armor error_toxic sensitive"
    ),
    FinishReason.ERROR: (
        "error failed malformed_function_call malformed_tool_use malformed_model_output "
        "malformed_tool_call malformed_response missing_thought_signature too_many_tool_calls "
        "network_error insufficient_system_resource"
    ),
    FinishReason.ABORTED: "aborted abort cancelled canceled user_cancelled",
}
# Written by reason above, since that is how they are read; looked up by word here.
_REASON_OF = {word: reason for reason, words in _WORDS.items() for word in words.split()}

UNFINISHED = frozenset(
    {"queued", "in_progress", "pause_turn", "incomplete", "finish_reason_unspecified", "null", ""}
)
"""Words that say: not over."""


def parse_finish_reason(text: str) -> FinishReason | None:
    """Read a provider's word for why the model stopped.

    Letter case does not matter, and "-" counts as "_". An unknown word means stop: something
    ended, and nothing says that it went badly.

    Returns:
        The reason; None for a word that says that it is not over, or for none at all.
    """
    if text in _REASON_OF:
        return _REASON_OF[text]
    word = text.strip().lower().replace("-", "_")
    if word in UNFINISHED:
        return None
    return _REASON_OF.get(word, FinishReason.STOP)


def settle_finish(reason: FinishReason | None, *, calls: bool) -> FinishReason | None:
    """Weigh the word against what came: calls beside a stop were the reason to stop.

    Args:
        reason: What the word says.
        calls: Whether the reply has calls that the client shall carry out.
    """
    return FinishReason.TOOL_USE if calls and reason is FinishReason.STOP else reason
