"""What was replaced in a turn of a conversation stays so in the turns after it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from tests.runs.test_compaction_cuts import is_whole
from upshot import (
    Agent,
    AgentError,
    Approve,
    Compacted,
    Compaction,
    ErrorCode,
    Message,
    ModelResponse,
    ScriptedModel,
    ToolCall,
    Usage,
    open_journal,
    resume,
    run,
    run_with_handoffs,
    tool,
)
from upshot.contract.protocols import StreamItem
from upshot.entry.resume import read_past
from upshot.journal import MemoryJournal
from upshot.runs.run_context import current_run
from upshot.runs.services.run_tools import user_sayings


class Talker:
    """A model for which each message has ten tokens, and that answers what it is asked."""

    name = "test:talker"

    def __init__(self, **calls: ToolCall) -> None:
        self.sent: list[list[Message]] = []
        self._calls = calls

    async def call(self, request: Any) -> ModelResponse:
        said = list(request.messages)
        self.sent.append(said)
        usage = Usage(input_tokens=10 * len(said), output_tokens=1, api_calls=1)
        asked = said[-1].text
        if (call := self._calls.get(asked)) is not None:
            return ModelResponse(parts=(call,), usage=usage)
        if asked == "fail":
            return ModelResponse(error=AgentError(ErrorCode.SERVER_ERROR, "down"))
        return ModelResponse(content=f"Re {asked}", usage=usage)

    async def stream(self, request: Any) -> AsyncIterator[StreamItem]:
        yield await self.call(request)


def talker(model: Any, summarise: Any = None, **fields: Any) -> Agent[Any]:
    compaction = Compaction(at_tokens=90, keep_last=3, summarise=summarise)
    return Agent("talker", model=model, compaction=compaction, retry=None, **fields)


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


async def cuts_in(journal: Any, id: str) -> list[Compacted]:
    talk = await journal.conversation(id)
    events = [event for run in talk.runs async for event in journal.events(run.run_id)]
    return [event for event in events if isinstance(event, Compacted)]


def counted(messages: Any) -> str:
    return f"{len(messages)} messages, first {messages[0].text}"


async def test_forty_turns_begin_with_what_is_left(tmp_path: Path) -> None:
    model = Talker()
    for number in range(40):
        async with open_journal(tmp_path / "j.db") as journal:
            agent = talker(model, counted)
            result = await run(agent, f"{number}?", journal=journal, conversation="ada")
            assert result.success
            talk = await journal.conversation("ada")
            assert [*talk.messages] == [*model.sent[-1], result.messages[-1]]
    assert max(map(len, model.sent)) == 10
    assert all(map(is_whole, model.sent))
    async with open_journal(tmp_path / "j.db") as journal:
        cuts = await cuts_in(journal, "ada")
        talk = await journal.conversation("ada")
    # Between two cuts each request begins with the one before it.
    cut = [a for a, b in zip(model.sent, model.sent[1:], strict=False) if b[: len(a)] != a]
    assert len(cut) == len(cuts) > 5
    assert talk.revision == 40


async def test_the_messages_of_a_turn_before_a_cut_are_read_as_they_were() -> None:
    journal, model = MemoryJournal(), Talker()
    for number in range(8):
        await run(talker(model), f"{number}?", journal=journal, conversation="ada")
    talk = await journal.conversation("ada")
    for number, summary in enumerate(talk.runs):
        past = await read_past(summary.run_id, journal)
        assert [*past.board.sent()][:-1] == model.sent[number]


async def test_a_cut_in_a_turn_that_fails_does_not_hold() -> None:
    journal, model = MemoryJournal(), Talker()
    for number in range(5):
        await run(talker(model), f"{number}?", journal=journal, conversation="ada")
    before = (await journal.conversation("ada")).messages
    assert not (await run(talker(model), "fail", journal=journal, conversation="ada")).success
    assert len(model.sent[-1]) < len(before)
    assert (await journal.conversation("ada")).messages == before
    await run(talker(model), "again?", journal=journal, conversation="ada")
    assert texts(model.sent[-1]) == ["4?", "Re 4?", "again?"]


async def test_a_cut_in_a_turn_that_was_passed_does_not_hold() -> None:
    @tool(effect="write", approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    journal = MemoryJournal()
    model = Talker(pay=ToolCall("p", "pay", {}))
    agent = talker(model, tools=[pay])
    for number in range(5):
        await run(agent, f"{number}?", journal=journal, conversation="ada")
    waits = await run(agent, "pay", journal=journal, conversation="ada")
    assert waits.pending
    other = agent.but(compaction=None)
    options: Any = {"journal": journal, "conversation": "ada", "if_waiting": "tell"}
    assert (await run(other, "meanwhile?", **options)).success
    done = await resume(waits.run_id, agent, journal=journal, answers=[Approve("p")])
    assert done.success
    said = texts((await journal.conversation("ada")).messages)
    assert said[:2] == ["0?", "Re 0?"]
    assert "meanwhile?" in said


async def test_a_parked_turn_goes_on_with_what_is_left() -> None:
    @tool(effect="write", approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    journal = MemoryJournal()
    model = Talker(pay=ToolCall("p", "pay", {}))
    agent = talker(model, counted, tools=[pay])
    for number in range(5):
        await run(agent, f"{number}?", journal=journal, conversation="ada")
    waits = await run(agent, "pay", journal=journal, conversation="ada")
    assert len(model.sent[-1]) == 4
    await resume(waits.run_id, agent, journal=journal, answers=[Approve("p")])
    assert model.sent[-1][:4] == model.sent[-2]
    talk = await journal.conversation("ada")
    assert [*talk.messages[: len(model.sent[-1])]] == model.sent[-1]


async def test_what_the_user_said_vouches_after_it_was_replaced() -> None:
    journal, model, heard = MemoryJournal(), Talker(), list[str]()

    class Listener:
        def before_model(self, info: Any, request: Any) -> None:
            link = current_run.get()
            assert link is not None
            heard[:] = [saying.text for saying in user_sayings(link.context)]

    for number in range(8):
        agent = talker(model, counted, deciders=[Listener()])
        await run(agent, f"{number}?", journal=journal, conversation="ada")
    assert "0?" not in texts(model.sent[-1])
    assert "0?" in heard
    # The summary is a user's message, and nothing that the user said.
    assert not [text for text in heard if "messages, first" in text]


async def test_a_receiver_goes_on_from_what_is_left() -> None:
    journal, second = MemoryJournal(), Talker()
    first = Talker(help=ToolCall("h", "transfer_to_second", {"reason": "so"}))
    receiver = Agent("second", model=second, compaction=Compaction(at_tokens=1_000))
    agent = talker(first, counted, handoffs=[receiver])
    for number in range(5):
        await run(agent, f"{number}?", journal=journal, conversation="ada")
    agents: Any = [agent, receiver]
    result = await run_with_handoffs(agents, "help", journal=journal, conversation="ada")
    assert result.success
    # The call and its outcome, and the note.
    assert second.sent[0][: len(first.sent[-1])] == first.sent[-1]
    assert len(second.sent[0]) == len(first.sent[-1]) + 3
    talk = await journal.conversation("ada")
    assert [*talk.messages][:-1] == second.sent[0]


async def test_a_result_as_history_gives_what_is_left() -> None:
    model = Talker()
    result = await run(talker(model), "0?", history=[Message("user", "a")] * 8)
    result = await run(talker(model), "1?", history=result)
    # The count of the run before is not known here.
    assert len(model.sent[-1]) == 11

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "x"

    looking = Talker(look=ToolCall("l", "look", {}))
    history = [Message("user", "a"), Message("assistant", "b")] * 5
    first = await run(talker(looking, tools=[look]), "look", history=history)
    assert len(looking.sent[-1]) == 3
    await run(talker(looking, tools=[look]), "2?", history=first)
    assert len(looking.sent[-1]) == 5


PROGRAM = """
import os, signal, sys
from upshot import Agent, Compaction, ModelResponse, ScriptedModel, Usage, run_sync

journal, death = sys.argv[1:]

def said(text):
    return ModelResponse(content=text, usage=Usage(input_tokens=100, output_tokens=1))

def die(place):
    if place == death:
        os.kill(os.getpid(), signal.SIGKILL)

class Host:
    def publish(self, event):
        die(event.kind)

def last(messages):
    die("when asked")

agent = Agent("a", model=ScriptedModel([said("Well."), last]),
    compaction=Compaction(at_tokens=50, keep_last=1, summarise=ScriptedModel([said("Sum.")])))
for number in range(2):
    run_sync(agent, f"{number}?", journal=journal, conversation="ada", host=Host())
"""


@pytest.mark.parametrize("death", ["compacted", "when asked"])
async def test_a_turn_that_was_killed_after_a_cut_goes_on_from_it(
    tmp_path: Path, death: str
) -> None:
    place = tmp_path / "j.db"
    done = run_python("-c", PROGRAM, place, death)
    assert done.returncode == -signal.SIGKILL
    summariser, model = ScriptedModel(["Another."]), Talker()
    fields: Any = {"at_tokens": 50, "keep_last": 1, "summarise": summariser}
    agent = Agent("a", model=model, compaction=Compaction(**fields))
    async with open_journal(place) as journal:
        run_id = (await journal.conversation("ada")).runs[-1].run_id
        kinds = [event.kind async for event in journal.events(run_id)]
        assert (await resume(run_id, agent, journal=journal)).content == "Re 1?"
        talk = await journal.conversation("ada")
    is_known = "compacted" in kinds
    # An event that was not on disk yet never was; what a model is asked with is.
    assert is_known or death == "compacted"
    is_paid = is_known or kinds.count("model_replied") > 0
    assert len(summariser.calls) == (0 if is_paid else 1)
    assert texts(talk.messages)[0].endswith("Sum." if is_paid else "Another.")
    assert texts(talk.messages)[1:] == ["1?", "Re 1?"]
    assert [*talk.messages][:2] == model.sent[0]
