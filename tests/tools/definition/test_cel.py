"""A condition in CEL: compiled once, true or false of JSON, and clear about what is wrong."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from upshot import Misuse
from upshot.tools.definition.cel import ConditionError, compile_condition


@pytest.mark.parametrize(
    ("text", "values", "holds"),
    [
        ("cents > 5000", {"cents": 5001}, True),
        ("cents > 5000", {"cents": 5000}, False),
        ("cents > 1000000 || cents <= 0", {"cents": -1}, True),
        ("all.exists(r, r.order == id)", {"all": [{"order": "7"}], "id": "7"}, True),
        ("all.exists(r, r.order == id)", {"all": [], "id": "7"}, False),
        ("has(shop.note) && shop.note.startsWith('x')", {"shop": {"note": "xy"}}, True),
        ("size(name) == 2", {"name": "ßä"}, True),
        ("note == null", {"note": None}, True),
        ("true", {}, True),
    ],
)  # fmt: skip
def test_a_condition_holds_or_not(text: str, values: dict[str, Any], holds: bool) -> None:
    condition = compile_condition(text)
    assert condition.holds(values) is holds
    assert condition.text == text


def test_values_that_it_does_not_read_may_be_anything() -> None:
    assert compile_condition("cents > 5").holds({"cents": 6, "other": 2**90})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cents >", "it ends too soon"),
        ("cents = 5", "the condition 'cents = 5' is broken"),
        ("cents.len() > 5", "did you mean 'size'"),
        ("x" * 3_000, "at most 2000"),
    ],
)
def test_what_cannot_be_parsed_is_a_misuse(text: str, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        compile_condition(text)


def test_what_is_no_text_is_a_misuse() -> None:
    with pytest.raises(Misuse, match="must be a string in CEL, got"):
        compile_condition(5)  # pyright: ignore[reportArgumentType]


def test_a_name_that_is_not_there_is_a_misuse() -> None:
    with pytest.raises(Misuse, match="did you mean 'cents'"):
        compile_condition("cent > 5", names=["cents"])
    compile_condition("cents > 5 && [1].exists(one, one == cents)", names=["cents"])


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("cents > 5000", {}, "'cents > 5000' has no answer.*cents"),
        ("cents > 5000", {"cents": "many"}, "has no answer"),
        ("cents", {"cents": 5}, "it gives the number 5, not true or false"),
        ("shop.note == 'x'", {"shop": {}}, "note"),
        ("all.exists(a, all.exists(b, a != a))", {"all": [0] * 1000}, "more than 50000 items"),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated_is_said(text: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConditionError, match=said):
        compile_condition(text).holds(values)


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['cel'] = None\n"
        "from upshot.tools.definition.cel import compile_condition\n"
        "try: compile_condition('a > 1')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    said = (
        "Misuse a condition in CEL needs an extra: pip install 'upshot-agents[cel]', or in a clone"
    )
    assert done.stdout.startswith(said)
