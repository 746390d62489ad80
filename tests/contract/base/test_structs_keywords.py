"""Structs that people write by hand."""

import copy
import pickle

import msgspec
import pytest

from upshot.contract import Budget, Policy


@pytest.mark.parametrize(
    "value", [Budget(max_turns=3), Policy(deny=("a",))], ids=["budget", "policy"]
)
def test_they_are_copied_pickled_replaced_and_decoded_like_any_other(
    value: Budget | Policy,
) -> None:
    assert copy.copy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert msgspec.structs.replace(value) == value
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
