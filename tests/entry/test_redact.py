"""What was said in a conversation is taken out of a journal: nothing of it is left anywhere, and
what it cost and did stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.processes import run_to_its_kill
from upshot import (
    Agent,
    App,
    Handoff,
    Misuse,
    ModelResponse,
    ScriptedModel,
    Text,
    ToolCall,
    answer,
    fork,
    note,
    replay,
    resume,
    run,
    run_with_handoffs,
    tool,
)
from upshot.contract import encode
from upshot.journal import MemoryJournal, SqliteJournal, open_journal
from upshot.state.stored_events import seeds_of, states

WORD = "Xylophagous"


@tool(effect="write")
def send(text: str) -> str:
    """Send a text."""
    return f"{WORD} was sent, by carrier pigeon: {text}"


@tool(effect="read", approval=True)
def look(at: str) -> str:
    """Look at something."""
    return at


@tool(effect="read")
def fetch() -> str:
    """Fetch something large."""
    return f"{WORD} " * 20_000


def talker(*replies: Any) -> Agent[Any]:
    scripted = [one if isinstance(one, str) else ModelResponse(parts=one) for one in replies]
    return Agent(
        "talker",
        instructions=f"Mind {WORD}.",
        tools=[send, look, fetch],
        model=ScriptedModel(scripted),
    )


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call-{name}", name, arguments)


async def talk(journal: Any, *, conversation: str = "ada") -> list[str]:
    """Two turns in which the word is said in every way; returns the runs."""
    first = talker(
        (Text(f"{WORD}?"), call("send", text=WORD), call("fetch")),
        (call("look", at=WORD),),
        f"No {WORD}.",
    )
    options: Any = {"journal": journal, "conversation": conversation}
    asked = await run(first, f"Tell of {WORD}.", **options)
    waiting: Any = asked.pending[0]
    await answer(asked.run_id, [waiting.deny(WORD, by="eve")], journal=journal)
    done = await resume(asked.run_id, first, journal=journal)
    assert done.success
    await note(done.run_id, "label", {"said": WORD}, by="bob", journal=journal)
    later = await run(talker(f"{WORD} again."), f"More {WORD}.", **options)
    return [done.run_id, later.run_id]


async def everything(journal: Any) -> bytes:
    """All that a journal says to who reads it."""
    said = [encode(one) for one in await journal.runs()]
    for one in await journal.runs():
        said += [encode(event) async for event in journal.events(one.run_id)]
        seeds = seeds_of(journal)
        said += [
            encode(event) async for event, _ in states(journal.events(one.run_id), seeds=seeds)
        ]
        said += [encode(kept) for kept in await journal.notes(one.run_id)]
        said += [encode(wish) for wish in await journal.placed_answers(one.run_id)]
    said += [encode(one) for one in await journal.conversations()]
    said += [encode(await journal.conversation(one.id)) for one in await journal.conversations()]
    return b"\n".join(said)


async def facts(journal: Any, run_id: str) -> dict[str, Any]:
    """What a run cost and did, by its log."""
    last = None
    async for _, state in states(journal.events(run_id), seeds=seeds_of(journal)):
        last = state
    assert last is not None and last.last_settled is not None
    result = last.last_settled.result
    return {
        "usage": result.usage,
        "cost": result.cost,
        "status": result.status,
        "seq": last.seq,
        "calls": [
            (
                one.tool_name,
                one.effect,
                type(one.outcome),
                one.tool_version,
                one.approval
                and (one.approval.by, one.approval.decision, one.approval.at, one.approval.digest),
            )
            for one in last.records
        ],
    }


async def test_nothing_of_what_was_said_is_left_and_the_figures_stay(journal: Any) -> None:
    run_ids = await talk(journal)
    plain = Agent("plain", model=ScriptedModel(["Else."]))
    other = await run(plain, "Something else.", journal=journal, conversation="bob")
    before = [await facts(journal, one) for one in run_ids]
    listed = {one.run_id: one for one in await journal.runs()}
    assert WORD.encode() in await everything(journal)
    assert set(await journal.redact(conversation="ada", by="dpo")) == set(run_ids)
    assert WORD.encode() not in await everything(journal)
    assert [await facts(journal, one) for one in run_ids] == before
    for one in await journal.runs():
        known = listed[one.run_id]
        if one.run_id != other.run_id:
            gone = "(redacted)"
            known = msgspec.structs.replace(known, request=gone, answer=gone)
        assert one == known
    for run_id in run_ids:
        assert await journal.damage(run_id) is None


async def test_the_first_event_says_who_redacted_a_run_and_it_cannot_go_on(journal: Any) -> None:
    run_id, _ = await talk(journal)
    await journal.redact(conversation="ada", by="dpo")
    first = await anext(aiter(journal.events(run_id)))
    assert first.redacted.by == "dpo"
    refused = f"run {run_id} was redacted by dpo at .* so it cannot be resumed, replayed"
    agent = talker("Again.")
    with pytest.raises(Misuse, match=refused):
        await resume(run_id, agent, journal=journal)
    with pytest.raises(Misuse, match=refused):
        await replay(run_id, agent, journal=journal)
    with pytest.raises(Misuse, match=refused):
        await fork(run_id, at=2, journal=journal)
    with pytest.raises(Misuse, match="was redacted by dpo"):
        await run(agent, "Go on.", journal=journal, conversation="ada")
    with pytest.raises(Misuse, match="was redacted by dpo"):
        await App([agent], journal=journal).submit("talker", "Go on.", conversation="ada")


async def test_a_user_may_say_the_words_that_stand_for_what_is_gone(journal: Any) -> None:
    app = App([talker("Well.", "Yes.")], journal=journal)
    for _ in range(2):
        handle = await app.submit("talker", "(redacted)", conversation="ada")
        await app.activate(handle.id)
    assert len((await journal.conversation("ada")).messages) == 4


async def test_a_second_redaction_keeps_who_did_the_first(journal: Any) -> None:
    run_id, _ = await talk(journal)
    await journal.redact(conversation="ada", by="dpo")
    first = await anext(aiter(journal.events(run_id)))
    await journal.redact(conversation="ada", by="another")
    assert await anext(aiter(journal.events(run_id))) == first


async def test_a_conversation_with_an_open_run_stays_as_it_is(journal: Any) -> None:
    agent = talker((call("look", at=WORD),))
    asked = await run(agent, WORD, journal=journal, conversation="ada")
    before = await everything(journal)
    refused = f"'ada' cannot be redacted while its run {asked.run_id} is input_required: wait for"
    with pytest.raises(Misuse, match=refused):
        await journal.redact(conversation="ada")
    assert await everything(journal) == before


async def test_forks_go_too(journal: Any) -> None:
    run_id, later = await talk(journal)
    forked = await fork(run_id, at=4, journal=journal)
    done = await resume(forked, talker(f"Other {WORD}.", f"Then {WORD}"), journal=journal)
    assert done.success
    assert set(await journal.redact(conversation="ada")) == {run_id, later, forked}
    assert WORD.encode() not in await everything(journal)


async def test_a_conversation_that_is_not_there_is_misuse(journal: Any) -> None:
    with pytest.raises(Misuse, match="the journal has no conversation 'ada'"):
        await journal.redact(conversation="ada")


async def test_an_export_of_a_redacted_run_is_taken_in_elsewhere(
    journal: Any, tmp_path: Path
) -> None:
    _, later = await talk(journal)
    await journal.redact(conversation="ada")
    await journal.export(later, tmp_path / "run.jsonl")
    assert WORD.encode() not in (tmp_path / "run.jsonl").read_bytes()
    copy = MemoryJournal()
    await copy.import_(tmp_path / "run.jsonl")
    first: Any = await anext(aiter(copy.events(later)))
    assert first.redacted is not None


def bytes_with(folder: Path, word: str) -> int:
    """How often a word stands in the files of a folder."""
    return sum(path.read_bytes().count(word.encode()) for path in folder.iterdir())


async def test_the_files_hold_no_byte_of_it(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "runs.db")
    await talk(journal)
    await talk(journal, conversation="bob")
    assert bytes_with(tmp_path, WORD)
    await journal.redact(conversation="ada")
    assert bytes_with(tmp_path, WORD)
    await journal.redact(conversation="bob")
    assert not bytes_with(tmp_path, WORD)
    await journal.aclose()


_KILLED = """
import asyncio, os, signal, sys
from upshot.journal import SqliteJournal
from upshot.journal.audit import row_of
from upshot.journal.sql.removal import redact_runs

class Killed(SqliteJournal):
    def clear_room(self, run_ids):
        os.kill(os.getpid(), signal.SIGKILL)

def in_the_middle(connection):
    redact_runs(connection, "ada", row_of("redact"))
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    journal = await Killed.open(sys.argv[1])
    if sys.argv[2].endswith("before"):
        await journal.write(in_the_middle)
    await journal.redact(conversation="ada")

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_redaction_that_is_killed_changes_nothing_or_all_and_is_finished_by_another(
    tmp_path: Path, when: str
) -> None:
    folder, program = tmp_path / "journal", tmp_path / "program.py"
    folder.mkdir()
    program.write_text(_KILLED)
    async with open_journal(folder / "runs.db") as journal:
        run_ids = await talk(journal)
        before = await everything(journal)
    run_to_its_kill(program, folder / "runs.db", Path(when))
    async with open_journal(folder / "runs.db") as journal:
        found = await everything(journal)
        assert found == before if when == "before" else WORD.encode() not in found
        assert bytes_with(folder, WORD)
        assert set(await journal.redact(conversation="ada")) == set(run_ids)
        assert not bytes_with(folder, WORD)


async def test_child_runs_and_hand_offs_go_too(journal: Any) -> None:
    inner = Agent("inner", model=ScriptedModel([f"Inner {WORD}."]))

    @tool(effect="read")
    async def ask(text: str) -> str:
        """Ask another agent."""
        return (await run(inner, text)).content or ""

    handing = ToolCall("c2", "transfer_to_last", {"note": WORD})
    agents = [
        Agent[Any](
            "first",
            model=ScriptedModel([[call("ask", text=WORD)], [handing]]),
            tools=[ask],
            handoffs=[Handoff("last")],
        ),
        Agent[Any]("last", model=ScriptedModel([f"Last {WORD}."])),
    ]
    result = await run_with_handoffs(agents, WORD, journal=journal, conversation="ada")
    assert result.content == f"Last {WORD}."
    redacted = await journal.redact(conversation="ada")
    assert len(redacted) == len(await journal.runs()) == 3
    assert WORD.encode() not in await everything(journal)
