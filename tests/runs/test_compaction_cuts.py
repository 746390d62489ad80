"""A run that was cut or parked anywhere sends on what it would have sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.searching import examples
from upshot import (
    Agent,
    AgentError,
    Compacted,
    Compaction,
    ErrorCode,
    Message,
    ModelResponse,
    PendingApproval,
    Request,
    ToolCall,
    Usage,
    fork,
    resume,
    run,
    states,
    tool,
)
from upshot.contract.protocols import StreamItem
from upshot.journal import MemoryJournal
from upshot.state.board import Board
from upshot.state.compaction import find_cut, replaced

TOKENS = 10


@tool(effect="read")
def look(room: int) -> str:
    """Look."""
    return f"{room}"


@tool(effect="read", approval=True)
def ask(room: int) -> str:
    """Look, if the user agrees."""
    return f"{room}"


class Walker:
    """A model that goes from room to room by the last outcome alone; a message has 10 tokens."""

    name = "test:walker"

    def __init__(self, rooms: int, *, asks: Sequence[int] = (), window: int = 10_000) -> None:
        self.sent: list[list[Message]] = []
        self._rooms, self._asks, self._window = rooms, asks, window

    async def call(self, request: Any) -> ModelResponse:
        said = list(request.messages)
        self.sent.append(said)
        if len(said) * TOKENS > self._window:
            return ModelResponse(error=AgentError(ErrorCode.CONTEXT_LENGTH, "too long"))
        usage = Usage(input_tokens=len(said) * TOKENS, output_tokens=1)
        last = next((one.text for one in reversed(said) if one.role == "tool"), "0")
        room = int(last) + 1
        if room > self._rooms:
            return ModelResponse(content="Done.", usage=usage)
        name = "ask" if room in self._asks else "look"
        call = ToolCall(f"c{room}", name, {"room": room})
        return ModelResponse(parts=(call,), usage=usage)

    async def stream(self, request: Any) -> AsyncIterator[StreamItem]:
        yield await self.call(request)


class Counter:
    """A summariser whose words are those of what it was given."""

    name = "test:counter"

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, request: Any) -> ModelResponse:
        self.calls += 1
        text = request.messages[0].text
        return ModelResponse(
            content=f"{len(text)} letters", usage=Usage(input_tokens=5, api_calls=1)
        )


def walker(model: Walker, summariser: Any = None, **fields: Any) -> Agent[Any]:
    given: Any = {"at_tokens": 60, "keep_last": 3, "summarise": summariser, **fields}
    return Agent("walker", model=model, tools=[look, ask], compaction=Compaction(**given))


@pytest.mark.slow("*-when*", "False-by*")
@pytest.mark.parametrize("window", [10_000, 60], ids=["by the count", "when it is too long"])
@pytest.mark.parametrize("summarised", [False, True])
async def test_a_run_cut_after_any_event_sends_the_rest(window: int, summarised: bool) -> None:
    at_tokens = 60 if window > 60 else 1_000
    whole = Walker(7, window=window)
    summariser = Counter() if summarised else None
    journal = MemoryJournal()
    agent = walker(whole, summariser, at_tokens=at_tokens)
    done = await run(agent, Request("Go.", run_id="r"), journal=journal)
    assert done.content == "Done."
    events = [event async for event in journal.events("r")]
    assert sum(isinstance(event, Compacted) for event in events) > 1
    for at in range(1, len(events)):
        rest, counter = Walker(7, window=window), Counter() if summarised else None
        again = await fork("r", at=at, journal=journal)
        agent = walker(rest, counter, at_tokens=at_tokens)
        result = await resume(again, agent, journal=journal)
        assert result.content == "Done.", (at, result.error)
        assert rest.sent == whole.sent[len(whole.sent) - len(rest.sent) :], at
        replied = sum(event.kind == "model_replied" for event in events[:at])
        asked = len(rest.sent) + (0 if counter is None else counter.calls)
        # Neither a reply nor a summary that is in the log is asked for again.
        assert asked == done.usage.api_calls - replied, at


@examples(40)
@given(
    rooms=st.integers(1, 12),
    asks=st.sets(st.integers(1, 12)),
    at_tokens=st.integers(1, 150),
    keep_last=st.integers(1, 12),
    summarised=st.booleans(),
)
async def test_a_run_that_is_parked_anywhere_sends_the_same(
    rooms: int, asks: set[int], at_tokens: int, keep_last: int, summarised: bool
) -> None:
    fields: Any = {"at_tokens": at_tokens, "keep_last": keep_last}
    whole, parts = Walker(rooms, asks=[*asks]), Walker(rooms, asks=[*asks])
    one = walker(whole, Counter() if summarised else None, **fields)
    await run(one, "Go.", approve=lambda _: True)
    journal = MemoryJournal()
    agent = walker(parts, Counter() if summarised else None, **fields)
    result = await run(agent, "Go.", journal=journal)
    while result.pending:
        answers = [wait.approve() for wait in result.pending if isinstance(wait, PendingApproval)]
        result = await resume(result.run_id, agent, journal=journal, answers=answers)
    assert result.content == "Done."
    assert parts.sent == whole.sent
    assert all(map(is_whole, parts.sent))


def is_whole(messages: Sequence[Message]) -> bool:
    """Whether a provider takes them: the user begins, and each outcome follows its call."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(str(message.tool_call_id))
        elif waiting:
            return False
        waiting += [call.id for call in message.tool_calls]
    said = [message for message in messages if message.role != "system"]
    return not waiting and (not said or said[0].role == "user")


def user(text: str) -> list[Message]:
    return [Message("user", text)]


def reply(text: str) -> list[Message]:
    return [Message("assistant", text)]


def calls(ids: list[str]) -> list[Message]:
    made = [ToolCall(id, "look", {}) for id in ids]
    outcomes = [Message("tool", f"of {id}", tool_call_id=id, name="look") for id in ids]
    return [Message("assistant", tool_calls=made), *outcomes]


def joined(parts: Sequence[list[Message]]) -> list[Message]:
    return [message for part in parts for message in part]


IDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
TEXT = st.text("xyz", min_size=1, max_size=3)
TURN = st.tuples(
    st.one_of(TEXT.map(user), st.tuples(TEXT, TEXT).map(lambda two: user(two[0]) + user(two[1]))),
    st.lists(IDS.map(calls), max_size=3).map(joined),
    TEXT.map(reply),
).map(joined)


@st.composite
def boards(draw: Any) -> tuple[list[Message], int, Message]:
    """Messages of a channel, how many of them are the seed, and the request."""
    system = draw(st.lists(st.just(Message("system", "Be kind.")), max_size=1))
    before = [*system, *joined(draw(st.lists(TURN, max_size=5)))]
    request = Message("user", draw(TEXT))
    produced = joined([calls(ids) for ids in draw(st.lists(IDS, max_size=6))])
    return [*before, request, *produced], len(before) + 1, request


@given(boards(), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_a_cut_anywhere_leaves_a_conversation(
    board: tuple[list[Message], int, Message], keeps: list[int]
) -> None:
    messages, seeded, request = board
    past: Compacted | None = None
    summed: list[Message] = []
    for keep_last in keeps:
        cut = find_cut(messages, seeded=seeded, request=request, keep_last=keep_last, past=past)
        if cut is None:
            continue
        gone = replaced(messages, cut, past)
        assert gone
        summed += [one for one in gone if past is None or one is not past.summary]
        past = Compacted(end=cut.end, kept=cut.kept, summary=Message("user", "Summary."))
        sent = past.sent(messages)
        assert is_whole(sent)
        assert sent[len(sent) - keep_last :] == messages[len(messages) - keep_last :]
        assert request in sent
        # Each message is sent as it is, or was summed up, once.
        left = sum(any(one is other for other in sent) for one in messages)
        assert left + len(summed) == len(messages)


def test_a_board_goes_on_from_its_snapshot() -> None:
    board = Board()
    board.extend([*user("a"), *reply("b"), *user("c")])
    board.compacted = Compacted(end=2, kept=())
    assert Board.restore(board.snapshot()).sent() == user("c")
    assert board.hand_over().sent() == user("c")


async def test_the_state_of_a_log_says_what_is_sent() -> None:
    journal = MemoryJournal()
    model = Walker(7)
    result = await run(walker(model), "Go.", journal=journal)
    sent: list[list[Message]] = []
    async for event, state in states(journal.events(result.run_id)):
        if event.kind == "model_started":
            sent.append([*state.board.sent()])
    assert sent == model.sent
