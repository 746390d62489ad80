"""Words: closed lists refuse, open lists keep what they do not know."""

import copy
import enum
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import texts
from upshot.contract import (
    AgentError,
    DeniedReason,
    Effect,
    ErrorCode,
    FinishReason,
    InterruptCause,
    Message,
    OpenWord,
    Origin,
    RateLimitWindow,
    Resource,
    Role,
    Status,
    ToolDenied,
    ToolFailure,
    decode,
    encode,
)
from upshot.contract.base.enums import worst_effect
from upshot.errors import Misuse

OPEN: list[Any] = [ErrorCode, Origin, Resource, DeniedReason, InterruptCause]
CLOSED: list[Any] = [Status, FinishReason, Effect, Role]


def by_name(words: Any) -> str:
    return getattr(words, "__name__", "")


@pytest.mark.parametrize("words", [*OPEN, *CLOSED], ids=by_name)
def test_members_are_upper_case_and_equal_their_strings(words: Any) -> None:
    assert issubclass(words, enum.StrEnum)
    for word in words:
        assert word.name == (word.value.upper() or "NONE")
        assert word == word.value == str(word) == f"{word}"


@pytest.mark.parametrize("words", OPEN, ids=by_name)
@given(text=texts())
def test_an_open_list_takes_any_word_as_it_is(words: Any, text: str) -> None:
    word = words(text)
    assert isinstance(word, words)
    assert (word, str(word), word.value) == (text, text, text)
    assert hash(word) == hash(text)


@pytest.mark.parametrize("words", OPEN, ids=by_name)
@given(text=texts())
def test_an_unknown_word_survives_pickle_and_copy(words: Any, text: str) -> None:
    word = words(text)
    for other in (pickle.loads(pickle.dumps(word)), copy.copy(word), copy.deepcopy(word)):
        assert isinstance(other, words)
        assert other == word
        assert {other: 1}[text] == 1


def test_an_unknown_word_does_not_join_its_list() -> None:
    before = list(ErrorCode)
    assert ErrorCode("tomorrow") == "tomorrow"
    assert list(ErrorCode) == before


def test_a_known_word_is_its_member() -> None:
    assert ErrorCode("timeout") is ErrorCode.TIMEOUT


def test_no_word_is_made_of_what_is_no_text() -> None:
    with pytest.raises(ValueError):
        ErrorCode(5)


@pytest.mark.parametrize("words", CLOSED, ids=by_name)
@given(text=st.text(max_size=12))
def test_a_closed_list_refuses_any_other_word_and_says_which_there_are(
    words: Any, text: str
) -> None:
    if text in list(words):
        return
    with pytest.raises(Misuse, match=words.__name__.lower()) as caught:
        words(text)
    assert next(iter(words)) in str(caught.value)


@given(texts())
def test_open_words_are_written_back_unchanged(text: str) -> None:
    error = decode(encode(AgentError(ErrorCode(text))), AgentError)
    denied = decode(encode(ToolDenied("c", "t", reason=DeniedReason(text))), ToolDenied)
    window = decode(encode(RateLimitWindow(resource=Resource(text))), RateLimitWindow)
    failure = decode(encode(ToolFailure("c", "t", code=ErrorCode(text))), ToolFailure)
    assert error.code == denied.reason == window.resource == failure.code == text
    assert isinstance(error.code, OpenWord)


@pytest.mark.parametrize(
    "data",
    [
        b'{"kind":"agent_result","status":"exploded"}',
        b'{"kind":"model_response","finish_reason":"end_turn"}',
        b'{"kind":"tool_failure","call_id":"c","tool_name":"t","effect":"some"}',
        b'{"kind":"message","role":"robot"}',
    ],
)
def test_closed_words_are_refused_when_read(data: bytes) -> None:
    with pytest.raises(Misuse, match="Invalid enum value"):
        decode(data)


def test_words_given_as_text_become_members() -> None:
    error: Any = AgentError("rate_limit", origin="limit")
    denied: Any = ToolDenied("c", "t", reason="policy", effect="none")
    assert error.code is ErrorCode.RATE_LIMIT
    assert error.origin is Origin.LIMIT
    assert denied.reason is DeniedReason.POLICY
    assert denied.effect is Effect.NONE
    assert Message("tool", "").role is Role.TOOL


CONTRACT_CODES = (
    "rate_limit timeout server_error invalid_request auth_error content_filter context_length "
    "model_unavailable invalid_output budget_exceeded max_turns no_progress dead_end interrupted "
    "canceled input_required hook_failed internal not_found conflict policy_denied not_available "
    "empty_reply worker_lost taken_over refusal effect_unknown"
)
REASONS = (
    "duplicate blocked pre_hook validation deadline write_denied cancelled budget unknown_tool "
    "policy rate_limited circuit_open superseded effect_unknown conflict deny_condition"
)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (ErrorCode, CONTRACT_CODES),
        (DeniedReason, REASONS),
        (Status, "completed interrupted canceled failed aborted input_required"),
        (FinishReason, "stop length tool_use error content_filter aborted refusal"),
        (Effect, "read write destructive none applied unknown"),
    ],
    ids=by_name,
)
def test_the_lists_hold_the_words_of_the_contract(words: Any, told: str) -> None:
    assert set(words) == set(told.split())


@pytest.mark.parametrize(
    ("effects", "worst"),
    [
        ([], Effect.NONE),
        ([Effect.APPLIED, Effect.NONE], Effect.APPLIED),
        ([Effect.APPLIED, Effect.UNKNOWN], Effect.UNKNOWN),
        ([Effect.READ], Effect.NONE),
        ([Effect.WRITE, Effect.APPLIED], Effect.UNKNOWN),
        ([Effect.DESTRUCTIVE], Effect.UNKNOWN),
    ],
)
def test_the_worst_effect_is_known_for_every_word(effects: list[Effect], worst: Effect) -> None:
    assert worst_effect(effects) is worst
