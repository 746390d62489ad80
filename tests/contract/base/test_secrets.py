"""Nothing that is registered shows up."""

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import ToolExecutionResult, ToolFailure, ToolRecord
from upshot.contract.base.secrets import MASK, Secrets
from upshot.errors import Misuse


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


def _all_escaped(text: str) -> str:
    """*text* with each character as JSON escapes of UTF-16."""
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


SPELLINGS = {
    "ascii": lambda text: json.dumps(text)[1:-1],
    "every character": _all_escaped,
    "upper hex": lambda text: _all_escaped(text).upper().replace("U", "u"),
    "slashes": lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("/", "\\/"),
    "within JSON text": lambda text: json.dumps(json.dumps(text))[3:-3],
    "three deep": lambda text: json.dumps(json.dumps(json.dumps(text)))[7:-7],
    "repr": lambda text: repr(text)[1:-1],
    "ascii()": lambda text: ascii(text)[1:-1],
    "percent": lambda text: quote(text, safe="", errors="replace"),
    "form": lambda text: quote_plus(text, errors="replace"),
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
@given(st.text(min_size=1))
def test_a_secret_is_masked_however_it_is_spelled(spell: Any, secret: str):
    assert Secrets([secret]).mask_text(spell(secret)) == MASK


@given(st.binary(), st.text(min_size=8), st.binary())
def test_a_secret_is_masked_inside_base64(before: bytes, secret: str, after: bytes):
    hidden = secret.encode("utf-8", "replace")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + hidden + after).decode()
        assert MASK in Secrets([secret]).mask_text(text)


# A secret of what escapes are written with is whole in a piece of its own spelling.
NO_ESCAPE = st.text(
    st.characters(exclude_characters="\\\\%+0123456789abcdefABCDEFuUxXnrt"), min_size=1
)


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
@given(NO_ESCAPE, st.data())
def test_no_piece_of_a_text_shows_a_secret_that_is_cut_in_two(
    spell: Any, secret: str, data: st.DataObject
):
    secrets, text = Secrets([secret]), spell(secret)
    cut = data.draw(st.integers(0, len(text)))
    piece = text[:cut]
    kept = secrets.open_end(piece)
    shown = secrets.mask_text(piece[: cut - kept]) + secrets.mask_text(text[cut - kept :])
    assert set(shown) == {"*"}


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3), st.sampled_from(sorted(SPELLINGS)))
def test_what_stands_for_a_secret_is_read_back_as_the_same_text(texts: list[str], name: str):
    marking = Secrets(texts, mark=lambda number, form: f"<secret x.{number}.{form}>")
    text = f"[{SPELLINGS[name](texts[0])}]"
    read = marking.lifted().mask_text(marking.mask_text(text))
    if "JSON" in name or name == "ascii":
        depth = 1 + ("JSON" in name)
        for _ in range(depth):
            read, text = (json.loads(f'"{one}"', strict=False) for one in (read, text))
        assert read == text


def test_what_no_secret_is_stays_as_it_is():
    text = r"C:\users\name %41 \u0041 \\ aGVsbG8="
    assert Secrets(["hunter2", "p\u00e4ss/w\u00f6rd"]).mask_text(text) == text


def test_a_text_of_backslashes_is_read_in_time_that_grows_with_its_length():
    # Ten times as long as a text that takes a power of its length would take minutes.
    text = "\\" * 200_000
    assert Secrets(['\\"\\\n\\' * 3]).mask_text(text) == text
