"""Hand-offs: the tool by which a model passes a request on."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import Agent, Handoff, handoff_tool_name
from upshot.errors import Misuse


@pytest.mark.parametrize(
    ("agent_id", "name"),
    [
        ("billing", "transfer_to_billing"),
        ("Billing-Desk 2", "transfer_to_billing_desk_2"),
        ("a.b/c", "transfer_to_a_b_c"),
        ("Ünï", "transfer_to__n_"),
        ("_", "transfer_to__"),
        ("", "transfer_to_unknown"),
    ],
)
def test_the_tool_is_named_after_the_agent(agent_id: str, name: str) -> None:
    assert handoff_tool_name(agent_id) == name


@given(st.text())
def test_any_id_makes_a_name_that_providers_take(agent_id: str) -> None:
    assert re.fullmatch(r"transfer_to_[a-z0-9_]+", handoff_tool_name(agent_id))


def test_a_handoff_passes_the_history_on_unless_told_otherwise() -> None:
    assert Handoff("billing").history
    assert Handoff("billing", "For bills.", history=False).description == "For bills."


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"to_agent_id": " "}, "a Handoff needs an agent's id, got ' '"),
        ({"to_agent_id": 5}, "a Handoff needs an agent's id, got 5"),
        ({"to_agent_id": Agent("b", tools=[])}, "got the Agent itself: Handoff('b')"),
        ({"to_agent_id": None}, "got None: Handoff('support')"),
        ({"to_agent_id": "b", "description": 5}, "description of the handoff to 'b'"),
        ({"to_agent_id": "b", "tool_name": 5}, "tool_name of the handoff to 'b'"),
        ({"to_agent_id": "b", "filter": True}, "filter of the handoff to 'b'"),
        ({"to_agent_id": "b", "on_invok": None}, "did you mean 'on_invoke'?"),
        ({}, "Handoff: missing a required argument: 'to_agent_id'"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_when_the_hand_off_is_made(fields: Any, said: str) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        Handoff(**fields)
