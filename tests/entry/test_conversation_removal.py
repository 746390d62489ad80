"""What may be removed of a conversation: nothing on which later turns stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from upshot import Agent, AgentResult, Misuse, ScriptedModel, run


async def say(text: str, reply: str, journal: Any, **options: Any) -> AgentResult[Any]:
    agent = Agent("talker", model=ScriptedModel([reply]))
    return await run(agent, text, journal=journal, **{"conversation": "ada", **options})


async def texts(journal: Any) -> list[str]:
    return [one.text for one in (await journal.conversation("ada")).messages]


async def test_a_turn_stays_while_a_later_one_stands_on_it(journal: Any) -> None:
    first, second = await say("One?", "Re one.", journal), await say("Two?", "Re two.", journal)
    with pytest.raises(Misuse, match=f"run {second.run_id} of conversation 'ada' started later"):
        await journal.remove_runs([first.run_id])
    assert await texts(journal) == ["One?", "Re one.", "Two?", "Re two."]
    await journal.remove_runs([second.run_id])
    assert await texts(journal) == ["One?", "Re one."]
    await say("Two again?", "Re two again.", journal)
    assert await texts(journal) == ["One?", "Re one.", "Two again?", "Re two again."]


async def test_a_turn_stays_while_a_run_that_only_saw_it_stays(journal: Any) -> None:
    first = await say("One?", "Re one.", journal)
    seer = await say("Sum up.", "One.", journal, remember=False)
    with pytest.raises(Misuse, match=f"run {seer.run_id} of"):
        await journal.remove_runs([first.run_id])
    assert (await journal.remove_runs([seer.run_id])).run_ids == (seer.run_id,)


async def test_old_turns_stay_with_a_reason_while_their_conversation_goes_on(journal: Any) -> None:
    first = await say("One?", "Re one.", journal)
    alone = await say("Alone?", "Re alone.", journal, conversation="bob")
    between = datetime.now(UTC)
    second = await say("Two?", "Re two.", journal)
    removed = await journal.remove_runs(ended_before=between)
    assert removed.run_ids == (alone.run_id,)
    assert list(removed.kept) == [first.run_id]
    assert "remove the whole conversation" in removed.kept[first.run_id]
    later = await journal.remove_runs(ended_before=datetime.now(UTC) + timedelta(days=1))
    assert set(later.run_ids) == {first.run_id, second.run_id}


async def test_a_whole_conversation_is_removed(journal: Any) -> None:
    runs = [await say(text, "Re.", journal) for text in ("One?", "Two?")]
    other = await say("Else?", "Re else.", journal, conversation="bob")
    told = await journal.remove_runs(conversation="ada", dry_run=True)
    assert set(told.run_ids) == {one.run_id for one in runs}
    assert (await journal.remove_runs(conversation="ada")).run_ids == told.run_ids
    assert [one.run_id for one in await journal.runs()] == [other.run_id]
    await say("Anew?", "Re anew.", journal)
    assert await texts(journal) == ["Anew?", "Re anew."]


async def test_a_conversation_that_is_not_there_cannot_be_removed(journal: Any) -> None:
    with pytest.raises(Misuse, match="the journal has no conversation 'ada'"):
        await journal.remove_runs(conversation="ada")
    with pytest.raises(Misuse, match="give one of run_ids, ended_before and conversation"):
        await journal.remove_runs(["r"], conversation="ada")
