"""Answers are checked where they are written, before a run hears of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from upshot.contract import Answer, Approve, Deny, Edit, decode, encode
from upshot.errors import Misuse


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Approve("c1", always="run"), "Approve(always='run')"),
        (lambda: Approve("c1", always=True), "Approve(always=True)"),
        (lambda: Approve(1), "Approve(call_id=1)"),
        (lambda: Deny("c1", 5), "Deny(reason=5)"),
        (lambda: Edit("c1", None), "Edit(arguments=None)"),
        (lambda: Edit("c1", {"a": object()}), "Edit(arguments=)"),
        (lambda: Edit("c1", {"a": float("nan")}), "/a"),
        (lambda: Answer("q1", object()), "Answer(value=)"),
        (lambda: Answer(None, 1), "Answer(id=None)"),
    ],
)
def test_what_is_no_answer_is_refused_with_its_field(make: Callable[[], Any], said: str):
    with pytest.raises(Misuse) as refused:
        make()
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "answer",
    [Approve("c1", always="tool"), Deny("c1", "no"), Edit("c1", {"a": (1, 2)}), Answer("q", {1})],
)
def test_an_answer_is_json_from_the_start(answer: Any):
    assert decode(encode(answer), type(answer)) == answer
