"""Digests of requests: equal for what is equal, hashed once, and lean in the log."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    Approve,
    Message,
    MessageList,
    ModelRequest,
    ModelSettings,
    ModelStarted,
    Request,
    RequestDigests,
    ScriptedModel,
    ToolCall,
    ToolSpec,
    resume,
    run,
    states,
    tool,
)
from upshot.contract.tool_calls import fence
from upshot.state.request_digests import RequestDigester, chained

TEXTS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=5)


def said(*texts: str) -> list[Message]:
    return [Message("user", text) for text in texts]


def digest_of(*messages: Message, is_named: bool = False, **parts: Any) -> Any:
    return RequestDigester(is_named=is_named).digests(ModelRequest(messages, **parts), ())


@given(requests=st.lists(st.tuples(TEXTS, st.booleans()), max_size=6))
def test_what_is_added_tells_each_conversation_whole(
    requests: list[tuple[list[str], bool]],
) -> None:
    digester, chain = RequestDigester(), list[str]()
    for texts, grows in requests:
        messages = said(*texts)
        given_as = MessageList(messages) if grows else messages
        made = digester.digests(ModelRequest(given_as), chain)
        chain[made.count - len(made.added) :] = made.added
        whole = [""]
        for message in messages:
            whole.append(chained(whole[-1], message, is_named=False))
        assert chain == whole[1:]
        assert (made.count, made.messages) == (len(messages), whole[-1])


def test_no_message_is_added_that_the_request_before_had() -> None:
    digester, messages = RequestDigester(), said("a", "b")
    first = digester.digests(ModelRequest(messages), ())
    other = digester.digests(ModelRequest(said("a", "c", "d")), first.added)
    assert (len(first.added), len(other.added)) == (2, 2)


def test_each_message_of_a_conversation_is_hashed_once() -> None:
    seen: list[Any] = []
    digester = RequestDigester(lambda value: seen.append(value) or value)
    conversation, chain = MessageList(), list[str]()
    for text in "abcdef":
        conversation.append(Message("user", text))
        made = digester.digests(ModelRequest(conversation.so_far()), chain)
        chain += made.added
    assert [one.text for one in seen] == [*"abcdef"]


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Be kind."},
        {"tools": (ToolSpec(name="add", description="Add two."),)},
        {"settings": ModelSettings(seed=2)},
        {"output_schema": {"type": "object"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_part_that_changes_between_two_requests_is_digested_anew(change: Any) -> None:
    base: dict[str, Any] = {
        "system": "Be brief.",
        "tools": (ToolSpec(name="add", description="Add."),),
        "settings": ModelSettings(seed=1),
    }
    digester = RequestDigester()
    digester.digests(ModelRequest(said("a"), **base), ())
    again = digester.digests(ModelRequest(said("a"), **{**base, **change}), ())
    assert again == digest_of(*said("a"), **{**base, **change})


def test_each_part_has_a_digest_of_its_own() -> None:
    base: dict[str, Any] = {
        "system": "Be brief.",
        "tools": (ToolSpec(name="add", description="Add."),),
        "settings": ModelSettings(seed=1),
    }
    changes: dict[str, dict[str, Any]] = {
        "instructions": {"system": "Be kind."},
        "tools": {"tools": (ToolSpec(name="add", description="Add two."),)},
        "settings": {"output_schema": {"type": "object"}},
        "messages": {},
    }
    first = digest_of(*said("a"), **base)
    for part, change in changes.items():
        messages = said("b") if part == "messages" else said("a")
        other = digest_of(*messages, **{**base, **change})
        differing = [name for name in changes if getattr(first, name) != getattr(other, name)]
        assert differing == [part]


def test_settings_that_are_no_json_have_a_digest_too() -> None:
    first, other = (digest_of(settings=ModelSettings(extra={"k": one})) for one in (object(), 2))
    assert first.settings != other.settings


def test_what_differs_from_run_to_run_counts_for_nothing() -> None:
    fenced = [Message("tool", fence("words", run_id=one, call_id="c")) for one in ("r", "s")]
    marked = [Message("user", f"<secret {one}.1.0>") for one in ("0a" * 6, "1b" * 6)]
    stored = [Message("user", f"read art-{one}") for one in ("0a" * 8, "1b" * 8)]
    for first, other in (fenced, marked, stored):
        assert first != other
        assert digest_of(first, is_named=True) == digest_of(other, is_named=True)
    assert digest_of(fenced[0]) == digest_of(fenced[1])
    assert digest_of(stored[0]) != digest_of(stored[1])
    first, other = (said(f"<secret 0a0a0a0a0a0a.{number}.0>") for number in (1, 2))
    assert digest_of(*first, is_named=True) != digest_of(*other, is_named=True)


@tool(effect="write", approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


def paying(times: int) -> Agent[Any]:
    turns: list[Any] = [
        measured(None, ToolCall(f"c{n}", "pay", {"cents": n})) for n in range(times)
    ]
    return Agent("p", instructions="Pay.", model=ScriptedModel([*turns, "done"]), tools=[pay])


async def test_the_log_has_of_each_request_only_what_is_new() -> None:
    journal = Ordered()
    result = await run(paying(3), Request("?", run_id="r"), journal=journal)
    for number in range(3):
        result = await resume("r", paying(3), journal=journal, answers=[Approve(f"c{number}")])
    assert result.success
    stored = [event.request for event in journal.order if isinstance(event, ModelStarted)]
    assert all(stored)
    first, *others = stored
    assert first is not None
    assert len(first.added) == 1
    assert first.instructions
    assert first.tools
    for request in others:
        assert request is not None
        assert request == RequestDigests(added=request.added)
        assert len(request.added) == 2
    whole = [
        event.request async for event, _ in states(journal.order) if type(event) is ModelStarted
    ]
    assert [request.count for request in whole if request] == [1, 3, 5, 7]
    assert {request.tools for request in whole if request} == {first.tools}
