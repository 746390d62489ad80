"""Nothing that is registered shows up."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import ToolExecutionResult, ToolFailure, ToolRecord
from upshot.errors import Misuse
from upshot.tools.secrets import MASK, Secrets


def test_texts_are_masked_wherever_they_stand():
    secrets = Secrets(["hunter2"])
    assert secrets.mask_text("a hunter2 and hunter2") == f"a {MASK} and {MASK}"
    assert secrets.masked == 2


@pytest.mark.parametrize("texts", ["hunter2", [b"hunter2"], [None]], ids=str)
def test_what_is_no_list_of_strings_is_misuse(texts: Any):
    with pytest.raises(Misuse, match="list of strings"):
        Secrets(texts)


def test_the_longer_secret_wins_over_one_inside_it():
    assert Secrets(["ab", "abcd"]).mask_text("abcd") == MASK


def test_a_secret_is_masked_in_json_text_too():
    secret = 'a"b\\c\n'
    text = msgspec.json.encode({"k": secret}).decode()
    assert Secrets([secret]).mask_text(text) == f'{{"k":"{MASK}"}}'


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"k": ["1234"]}, {"k": [MASK]}),
        ({"1234": 1}, {MASK: 1}),
        ({"k": 1234}, {"k": MASK}),
        ({"k": 91234.5}, {"k": f"9{MASK}.5"}),
        ({"k": True, "n": None, "x": 5}, {"k": True, "n": None, "x": 5}),
    ],
)
def test_json_is_masked_in_depth(value: Any, masked: Any):
    assert Secrets(["1234"]).mask(value) == masked


def test_structs_are_masked_but_for_ids_and_measures():
    outcome = ToolExecutionResult("1234", "t1234", output={"a": "1234"}, elapsed_ms=1234)
    record = ToolRecord(
        call_id="1234", idempotency_key="ab1234", arguments_given="1234", outcome=outcome
    )
    masked = Secrets(["1234"]).mask(record)
    assert (masked.call_id, masked.idempotency_key) == ("1234", "ab1234")
    assert masked.arguments_given == MASK
    assert masked.outcome == msgspec.structs.replace(outcome, output={"a": MASK})


def test_without_secrets_values_are_passed_through():
    outcome = ToolFailure("1", "t", error="x")
    secrets = Secrets(["", ""])
    assert not secrets
    assert secrets.mask(outcome) is outcome


NO_MASK = st.text(st.characters(exclude_characters="*"), min_size=1)


@given(st.lists(NO_MASK), st.text())
def test_no_secret_is_left_in_any_text(texts: list[str], text: str):
    left = Secrets(texts).mask_text(text.join(texts)).split(MASK)
    assert not any(secret in part for secret in texts for part in left)
