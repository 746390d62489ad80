"""Finish words of all providers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import FinishReason
from upshot.wire import parse_finish_reason
from upshot.wire.accumulator import settle_finish


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("stop end_turn stop_sequence eos STOP", "stop"),
        ("length max_tokens max_output_tokens model_length MAX_TOKENS", "length"),
        ("tool_calls tool_use function_call toolUse UNEXPECTED_TOOL_CALL", "tool_use"),
        (
            "content_filter refusal SAFETY recitation blocklist prohibited_content guardrail"
            " guardrail_intervened",
            "content_filter",
        ),
        ("error failed MALFORMED_FUNCTION_CALL", "error"),
        ("aborted cancelled canceled", "aborted"),
        ("banana", "stop"),
    ],
)
def test_words_mean_what_they_mean(words, reason):
    assert {parse_finish_reason(word) for word in words.split()} == {FinishReason(reason)}


@pytest.mark.parametrize("word", ["queued", "in_progress", "pause_turn", "", " "])
def test_a_word_for_not_over_is_no_reason(word):
    assert parse_finish_reason(word) is None


@given(st.text())
def test_any_word_gives_a_reason_or_none(word):
    assert parse_finish_reason(word) in (*FinishReason, None)


@pytest.mark.parametrize("reason", [*FinishReason, None])
def test_calls_change_only_a_stop(reason):
    wanted = FinishReason.TOOL_USE if reason is FinishReason.STOP else reason
    assert settle_finish(reason, calls=True) is wanted
    assert settle_finish(reason, calls=False) is reason
