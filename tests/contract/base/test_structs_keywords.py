"""Structs that people write by hand."""

import copy
import pickle
from typing import Any

import msgspec
import pytest

from upshot.contract import (
    Agent,
    AgentCapabilities,
    AgentCard,
    AgentError,
    Budget,
    ModelResponse,
    PendingApproval,
    PendingQuestion,
    Policy,
    Skill,
)
from upshot.errors import Misuse


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


@pytest.mark.parametrize(
    ("kind", "first"),
    [(AgentCard, "name"), (AgentCapabilities, "streaming"), (Skill, "id"), (Budget, "deadline_s")],
)
def test_they_say_how_they_are_made(kind: Any, first: str) -> None:
    with pytest.raises(Misuse, match=f"takes keywords only, such as {first}="):
        kind("x")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ModelResponse(usage={"input_tokens": 3}), "expected Usage, got dict"),  # pyright: ignore[reportArgumentType]
        (lambda: ModelResponse(usage=3), "ModelResponse(usage=3)"),  # pyright: ignore[reportArgumentType]
        (lambda: PendingQuestion(asked_at="2026-01-01T00:00:00Z"), "expected datetime, got str"),  # pyright: ignore[reportArgumentType]
        (lambda: PendingApproval(expires_at=5), "PendingApproval(expires_at=5)"),  # pyright: ignore[reportArgumentType]
        (lambda: AgentError(message=5), "AgentError(message=5)"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_is_no_value_of_its_type_is_named_with_its_field(make: Any, said: str) -> None:
    with pytest.raises(Misuse) as caught:
        make()
    assert said in str(caught.value)


def test_a_field_of_a_part_is_named_with_its_place():
    with pytest.raises(Misuse, match=r"no field 'max_turns': give budget=Budget\(max_turns=...\)"):
        Agent("a", max_turns=1)  # type: ignore[call-arg]
