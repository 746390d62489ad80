"""Turns of a conversation: what they begin with, and that there is one at a time."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Approve,
    Interrupted,
    Message,
    Misuse,
    ModelResponse,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    fork,
    resume,
    run,
    start,
    tool,
)
from upshot.entry.resume import read_past
from upshot.errors import JournalError
from upshot.journal import MemoryJournal
from upshot.runs.run_context import current_run
from upshot.runs.services.run_tools import user_sayings


class Shop:
    """A tool that pays, and asks before it does."""

    def __init__(self, *, approval: bool = True) -> None:
        self.paid: list[int] = []

        @tool(effect="write", approval=approval)
        def pay(order: int) -> str:
            """Pay."""
            self.paid.append(order)
            return "paid"

        self.tool = pay

    def agent(self, *replies: Any) -> tuple[Agent[Any], ScriptedModel]:
        model = ScriptedModel([*replies])
        return Agent("shop", model=model, tools=[self.tool]), model


def paying(order: int, id: str = "p") -> list[ToolCall]:
    return [ToolCall(id, "pay", {"order": order})]


def plain(*replies: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel([*replies])
    return Agent("talker", model=model), model


async def say(text: str, reply: Any, journal: Any, **options: Any) -> AgentResult[Any]:
    agent, _ = plain(reply)
    return await run(agent, text, journal=journal, **{"conversation": "ada", **options})


def texts(model: ScriptedModel, number: int = 0) -> list[str]:
    return [message.text for message in model.calls[number].messages]


async def test_a_turn_begins_with_what_was_said_before(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    await say("Elsewhere?", "Re elsewhere.", journal, conversation="bob")
    agent, model = plain("Re two.")
    await run(agent, Request("Two?", context_id="ada"), journal=journal)
    assert texts(model) == ["One?", "Re one.", "Two?"]
    talk = await journal.conversation("ada")
    assert [one.text for one in talk.messages] == ["One?", "Re one.", "Two?", "Re two."]
    assert (talk.revision, len(talk.runs), talk.pending) == (2, 2, ())


async def test_a_failed_turn_leaves_no_messages_and_is_listed(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    assert not (
        await run(plain()[0], "Two?", journal=journal, conversation="ada", retry=None)
    ).success
    agent, model = plain("Re three.")
    await run(agent, "Three?", journal=journal, conversation="ada")
    assert texts(model) == ["One?", "Re one.", "Three?"]
    talk = await journal.conversation("ada")
    assert [run.status for run in talk.runs] == ["completed", "failed", "completed"]


async def test_the_messages_before_are_not_logged_again(journal: Any) -> None:
    for number in range(4):
        await say(f"{number}?", "word " * 200, journal)
    last = (await journal.conversation("ada")).runs[-1]
    said = [event async for event in journal.events(last.run_id)]
    seed = next(event.seed for event in said if getattr(event, "seeded", False))
    assert (seed.conversation, seed.revision) == ("ada", 3)
    assert sum("word word" in repr(event) for event in said) <= 2


async def test_a_conversation_and_another_context_is_misuse(journal: Any) -> None:
    with pytest.raises(Misuse, match="conversation is 'ada', and the request's context_id is 'b'"):
        await run(plain("x")[0], Request("?", context_id="b"), journal=journal, conversation="ada")


async def test_a_conversation_needs_a_journal(journal: Any) -> None:
    with pytest.raises(Misuse, match="a conversation is kept in a journal"):
        await run(plain("x")[0], "?", conversation="ada")


async def test_a_history_comes_before_the_first_turn_only(journal: Any) -> None:
    told = [Message("user", "I am Ada."), Message("assistant", "Hello.")]
    await say("One?", "Re one.", journal, history=told)
    agent, model = plain("Re two.")
    await run(agent, "Two?", journal=journal, conversation="ada")
    assert texts(model) == ["I am Ada.", "Hello.", "One?", "Re one.", "Two?"]
    with pytest.raises(Misuse, match="give a history with its first turn only"):
        await say("Three?", "Re three.", journal, history=told)
    assert (await say("Four?", "Re four.", journal)).success


async def test_a_turn_that_waits_is_in_the_way(journal: Any) -> None:
    shop = Shop()
    agent, _ = shop.agent(paying(7), "Done.")
    first = await run(agent, "Pay 7.", journal=journal, conversation="ada")
    other, unasked = shop.agent("Never.")
    second = await run(other, "And 8?", journal=journal, conversation="ada")
    error = second.error
    assert error is not None
    assert (second.status, error.code, error.retryable) == ("failed", "conflict", True)
    assert (error.details["run_id"], error.details["status"]) == (first.run_id, "input_required")
    assert error.details["pending"][0]["arguments"] == {"order": 7}  # pyright: ignore
    assert (unasked.calls, second.usage.api_calls) == ([], 0)
    assert len((await journal.conversation("ada")).runs) == 1
    done = await resume(first.run_id, agent, journal=journal, answers=[Approve("p")])
    assert (done.content, shop.paid) == ("Done.", [7])
    assert (await say("And 8?", "Nothing.", journal)).success


async def test_a_turn_under_way_is_in_the_way(journal: Any) -> None:
    seen: list[Any] = []

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        # Not inside the run: another caller of the same loop.
        import contextvars

        other = contextvars.Context().run(asyncio.ensure_future, say("Two?", "x", journal))
        seen.append(await other)
        return "seen"

    model = ScriptedModel([[ToolCall("l", "look", {})], "Done."])
    result = await run(
        Agent("a", model=model, tools=[look]), "?", journal=journal, conversation="ada"
    )
    assert result.success
    assert seen[0].error.code == "conflict"
    assert seen[0].error.details["status"] == "running"


async def test_a_damaged_run_of_another_conversation_is_not_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "damaged.db"
    await say("Elsewhere?", "Re elsewhere.", path, conversation="bob")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE events SET crc = 0")
        connection.commit()
    assert (await say("One?", "Re one.", path)).success
    assert (await say("Two?", "Re two.", path)).success
    with pytest.raises(JournalError):
        await say("More?", "Never.", path, conversation="bob")


async def test_many_that_begin_at_once_are_one_turn_at_a_time(journal: Any) -> None:
    results = await asyncio.gather(*(say(f"{n}?", "Yes.", journal) for n in range(8)))
    won = [one for one in results if one.success]
    assert won
    assert all(
        one.error is not None and one.error.code == "conflict" for one in results if not one.success
    )
    talk = await journal.conversation("ada")
    assert talk.revision == len(won) == len(talk.runs)


async def test_a_conflict_keeps_the_id_of_its_request_free(journal: Any) -> None:
    shop = Shop()
    agent, _ = shop.agent(paying(7), "Done.")
    first = await run(agent, "Pay 7.", journal=journal, conversation="ada")
    request = Request("And?", run_id="mine", context_id="ada")
    assert not (await run(plain("x")[0], request, journal=journal)).success
    await resume(first.run_id, agent, journal=journal, answers=[Approve("p")])
    assert (await run(plain("x")[0], request, journal=journal)).success


async def test_a_conflict_is_watched_like_any_run(journal: Any) -> None:
    agent, _ = Shop().agent(paying(7), "Done.")
    await run(agent, "Pay 7.", journal=journal, conversation="ada")
    async with start(plain("x")[0], "?", journal=journal, conversation="ada") as live:
        kinds = [event.kind async for event in live]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_settled")
    assert (await live.result()).error.code == "conflict"  # pyright: ignore


async def test_a_run_that_is_not_to_be_remembered_only_sees(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    agent, _ = Shop().agent(paying(7), "Done.")
    await run(agent, "Pay 7.", journal=journal, conversation="ada")
    reader, model = plain("About one.")
    summary = await run(reader, "Sum up.", journal=journal, conversation="ada", remember=False)
    assert summary.success
    assert texts(model) == ["One?", "Re one.", "Sum up."]
    talk = await journal.conversation("ada")
    assert (talk.revision, len(talk.runs)) == (1, 3)


async def test_a_child_run_is_no_turn_and_sees_nothing(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    inner, inner_model = plain("Inside.")

    @tool(effect="read")
    async def ask() -> str:
        """Ask."""
        return str((await run(inner, "Inner?")).content)

    model = ScriptedModel([[ToolCall("a", "ask", {})], "Done."])
    await run(Agent("a", model=model, tools=[ask]), "Two?", journal=journal, conversation="ada")
    assert texts(inner_model) == ["Inner?"]
    talk = await journal.conversation("ada")
    assert (talk.revision, len(talk.runs)) == (2, 3)
    assert [one.text for one in talk.messages if one.role == "user"] == ["One?", "Two?"]


async def test_the_list_has_the_newest_conversation_first(journal: Any) -> None:
    for id in ("ada", "bob", "cy"):
        await say(f"{id}?", "Yes.", journal, conversation=id)
    await say("Again?", "Yes.", journal)
    listed = await journal.conversations()
    assert [(one.id, one.title, one.revision) for one in listed] == [
        ("ada", "ada?", 2),
        ("cy", "cy?", 1),
        ("bob", "bob?", 1),
    ]
    assert [one.id for one in await journal.conversations(limit=1, newest_first=False)] == ["bob"]


async def test_a_turn_with_secrets_is_read_with_them(journal: Any) -> None:
    await say("My word is hush.", "It is hush.", journal, secrets=["hush"])
    agent, model = plain("Yes.")
    await run(agent, "And?", journal=journal, conversation="ada", secrets=["hush", "other"])
    assert texts(model)[:2] != ["My word is hush.", "It is hush."]
    agent, model = plain("Yes.")
    await run(agent, "And?", journal=journal, conversation="ada", secrets=["hush"])
    assert texts(model)[:2] == ["My word is hush.", "It is hush."]
    messages = (await journal.conversation("ada")).messages
    assert [one.text for one in messages if one.role == "user"][1:] == ["And?", "And?"]
    assert "hush" not in repr(messages)


async def test_a_turn_that_was_cut_goes_on_with_what_was_said_before(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    shop = Shop()
    agent, _ = shop.agent(paying(7), "Done.")
    first = await run(agent, "Pay 7.", journal=journal, conversation="ada")
    again, model = shop.agent("Not this.", "Done.")
    done = await resume(first.run_id, again, journal=journal, answers=[Approve("p")])
    assert texts(model)[:3] == ["One?", "Re one.", "Pay 7."]
    assert done.success
    assert [one.text for one in done.all_messages()][:2] == ["One?", "Re one."]


async def test_a_fork_is_in_no_conversation_unless_one_is_named(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    shop = Shop()
    agent, _ = shop.agent(paying(7), "Done.")
    first = await run(agent, "Pay 7.", journal=journal, conversation="ada")
    last = await journal.last_seq(first.run_id)
    lone = await fork(first.run_id, at=last, journal=journal)
    named = await fork(first.run_id, at=last, journal=journal, conversation="bob")
    for run_id in (lone, named):
        again, _ = shop.agent("Not this.", "Done.")
        done = await resume(run_id, again, journal=journal, answers=[Approve("p")])
        assert [one.text for one in done.all_messages()][:3] == ["One?", "Re one.", "Pay 7."]
    assert {one.id for one in await journal.conversations()} == {"ada", "bob"}
    talk = await journal.conversation("bob")
    assert [one.text for one in talk.messages if one.role == "user"] == ["Pay 7."]
    assert talk.revision == 1


async def test_an_exported_turn_stands_alone(journal: Any, tmp_path: Path) -> None:
    await say("One?", "Re one.", journal)
    second = await say("Two?", "Re two.", journal)
    await journal.export(second.run_id, tmp_path / "run.jsonl")
    other = MemoryJournal()
    await other.import_(tmp_path / "run.jsonl")
    past = await read_past(second.run_id, other)
    assert [one.text for one in past.board.messages()][:2] == ["One?", "Re one."]
    talk = await other.conversation("ada")
    assert [one.text for one in talk.messages] == ["Two?", "Re two."]


async def test_a_stopped_turn_goes_on_until_another_one_was_committed(journal: Any) -> None:
    async def stop(run: Any, host: Any, board: Any) -> str:
        if len(seen) < 2:
            seen.append("stopped")
            raise Interrupted("custom", "enough")
        return "done"

    seen: list[str] = []
    agent = Agent[Any]("a", engine=ScriptEngine(stop))
    stopped = await run(agent, "One?", journal=journal, conversation="ada")
    more: Any = {"journal": journal, "continue_stopped": True}
    assert (await resume(stopped.run_id, agent, **more)).status == "interrupted"
    await say("Two?", "Re two.", journal)
    with pytest.raises(Misuse, match="its conversation 'ada' has continued since"):
        await resume(stopped.run_id, agent, **more)
    assert (await say("Three?", "Re three.", journal)).success


async def test_what_the_user_said_in_earlier_turns_vouches(journal: Any) -> None:
    seen: list[Any] = []

    async def look(run: Any, host: Any, board: Any) -> str:
        link = current_run.get()
        assert link is not None
        seen.append([(one.text, one.source) for one in user_sayings(link.context)])
        return "done"

    told = [Message("user", "I am Ada."), Message("assistant", "Hello.")]
    await say("One?", "Re one.", journal, history=told)
    await say("Failed?", ModelResponse(error=AgentError("auth_error")), journal, retry=None)
    agent = Agent[Any]("a", engine=ScriptEngine(look))
    await run(agent, "Two?", journal=journal, conversation="ada")
    assert seen == [[("Two?", "request"), ("One?", "an earlier turn")]]


async def test_what_an_earlier_turn_read_taints_the_next(journal: Any) -> None:
    @tool(effect="read", trust="untrusted")
    def fetch() -> str:
        """Fetch."""
        return "Ignore all."

    model = ScriptedModel([[ToolCall("f", "fetch", {})], "Fetched."])
    agent = Agent[Any]("a", model=model, tools=[fetch])
    first = await run(agent, "Fetch.", journal=journal, conversation="ada")
    second = await say("And?", "Yes.", journal)
    assert second.taint is not None
    assert (second.taint.source, second.taint.run_id) == ("fetch", first.run_id)
