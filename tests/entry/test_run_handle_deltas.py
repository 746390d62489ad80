"""Pieces of a reply reach who watches from another process, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.places import Place
from upshot import (
    Agent,
    Event,
    Misuse,
    ModelResponse,
    Request,
    ScriptedModel,
    Text,
    ToolCall,
    attach,
    resume,
    run,
    tool,
)
from upshot.contract import ModelRetried, ReasoningDelta, RunStarted, TextDelta, ToolCallDelta
from upshot.contract.codec import encode
from upshot.contract.protocols import ModelInput
from upshot.journal import MemoryJournal
from upshot.journal.pieces import PieceRow, Pieces, parse_cursor, pieces_of, together
from upshot.journal.postgres.urls import is_url
from upshot.journal.sqlite.sqlite_journal import LiveFile
from upshot.journal.watching import Changes, of_run


class Speaker:
    """A model that calls a tool, and then says each word as it is told it, up to ``None``."""

    name = "test:speaker"

    def __init__(self) -> None:
        self.words: asyncio.Queue[str | None] = asyncio.Queue()
        self.streams = 0
        self._calls = 0

    async def call(self, request: ModelInput) -> ModelResponse:
        self._calls += 1
        call = ToolCall("w", "wait")
        return ModelResponse(parts=(call if self._calls == 1 else Text("called"),))

    async def stream(self, request: ModelInput) -> AsyncIterator[Any]:
        self.streams += 1
        said = ""
        while (word := await self.words.get()) is not None:
            said += word
            yield TextDelta(text=word)
        yield ModelResponse(parts=(Text(said),))


@asynccontextmanager
async def both(place: Place | None) -> AsyncGenerator[tuple[Any, Any]]:
    """A journal as the run has it, and as another process has it."""
    if place is None:
        journal = MemoryJournal()
        yield journal, journal
        return
    own, other = await place.open(), await place.open()
    yield own, other
    await own.aclose()
    await other.aclose()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Place | None:
    if request.param == "memory":
        return None
    if request.param == "sqlite":
        return Place.file(tmp_path)
    database = request.getfixturevalue("database")
    return Place.database(request.getfixturevalue("postgres"), database)


class Seen:
    """What a watcher was shown."""

    def __init__(self, handle: Any, **how: Any) -> None:
        self.events: list[Any] = []
        self._more = asyncio.Event()
        self._task = asyncio.ensure_future(self._read(handle.events(**how)))

    async def _read(self, events: AsyncGenerator[Event]) -> None:
        async with aclosing(events):
            async for event in events:
                self.events.append(event)
                self._more.set()
        self._more.set()

    def text(self) -> str:
        return "".join(one.text for one in self.events if isinstance(one, TextDelta))

    async def until(self, text: str) -> None:
        """Wait until so much was shown."""
        while self.text() != text:
            assert not self._task.done(), self.events
            await asyncio.wait_for(self._more.wait(), 30)
            self._more.clear()

    async def end(self) -> list[Any]:
        await self._task
        return self.events

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


class Gate:
    """An agent whose second reply is streamed, and begins only when it may."""

    def __init__(self, anywhere: Place | None) -> None:
        self.speaker = Speaker()
        self._place = anywhere
        self._may = asyncio.Event()

        @tool(effect="read")
        async def wait() -> str:
            """Wait."""
            await self._may.wait()
            return "Go on."

        self.agent: Agent[Any] = Agent("a", model=self.speaker, tools=[wait])

    async def let(self, journal: Any) -> None:
        """Let it begin, once the word of a watcher has come to where its journal finds it."""
        while not self._is_wanted(journal):
            await asyncio.sleep(0.01)
        self.open()

    def open(self) -> None:
        """Let it begin."""
        self._may.set()

    def _is_wanted(self, journal: Any) -> bool:
        if self._place is None:
            return journal.is_watched("r")
        if is_url(self._place.where):
            return bool(self._place.do("SELECT 1 FROM runs WHERE shown_until > now()"))
        with closing(LiveFile(self._place.where)) as live:
            return "r" in live.requested_runs()


@asynccontextmanager
async def working(gate: Gate, journal: Any) -> AsyncGenerator[asyncio.Future[Any]]:
    """A run that waits at the gate."""
    work = asyncio.ensure_future(run(gate.agent, Request("?", run_id="r"), journal=journal))
    with journal.watch(of_run("r")) as changes:
        while not await journal.runs(run_id="r"):
            await changes.changed()
    yield work
    work.cancel()
    await asyncio.wait({work})


async def test_a_reply_is_watched_from_elsewhere_as_it_comes(anywhere: Place | None) -> None:
    gate = Gate(anywhere)
    say = gate.speaker.words.put_nowait
    async with (
        both(anywhere) as (own, other),
        working(gate, own) as work,
        attach("r", journal=other) as handle,
    ):
        first, durable = Seen(handle, deltas=True), Seen(handle)
        await gate.let(own)
        say("Good ")
        await first.until("Good ")
        say("day")
        await first.until("Good day")
        late = Seen(handle, deltas=True)
        await late.until("Good day")
        last = late.events[-1]
        again = Seen(handle, deltas=True, after=f"{last.seq}.{last.part}")
        say("!")
        await again.until("!")
        say(None)
        await work
        log = [event.seq for event in await durable.end()]
        for one in (first, late, again):
            places = [(event.seq, event.part) for event in await one.end()]
            assert places == sorted(set(places))
            seqs = [seq for seq, part in places if not part]
            assert seqs == log[-len(seqs) :]
        assert late.text() == first.text() == "Good day!"
        assert gate.speaker.streams == 1


async def test_a_run_is_not_streamed_to_who_wants_durable_events(anywhere: Place | None) -> None:
    gate = Gate(anywhere)
    async with (
        both(anywhere) as (own, other),
        working(gate, own) as work,
        attach("r", journal=other) as handle,
    ):
        seen = Seen(handle)
        gate.open()
        await work
        assert not any(one.part for one in await seen.end())
        assert gate.speaker.streams == 0


async def test_a_take_over_makes_void_what_was_shown(anywhere: Place | None) -> None:
    gate = Gate(anywhere)
    async with (
        both(anywhere) as (own, other),
        working(gate, own),
        attach("r", journal=other) as handle,
    ):
        seen = Seen(handle, deltas=True)
        await gate.let(own)
        gate.speaker.words.put_nowait("Never ")
        await seen.until("Never ")
        agent: Agent[Any] = Agent(
            "a", model=ScriptedModel(lambda messages: "Done."), tools=gate.agent.tools
        )
        result = await resume("r", agent, journal=other, take_over=True)
        assert result.content == "Done."
        events = await seen.end()
    (void,) = [one for one in events if isinstance(one, ModelRetried)]
    shown = [one for one in events if one.part]
    at = shown.index(void)
    assert (void.seq, void.part) == (shown[at - 1].seq, shown[at - 1].part + 1)
    assert void.model == "test:speaker"


@pytest.mark.parametrize(
    "after", [-1, "-1", "1.", ".1", "1.x", True, 1.5e9, "1.2.3", "9" * 30, None]
)
def test_a_place_that_is_none_is_misuse(after: Any) -> None:
    with pytest.raises(Misuse, match="after must be the seq of an event, from 0"):
        parse_cursor(after)


def test_a_place_is_a_seq_or_that_of_a_piece() -> None:
    assert [parse_cursor(one) for one in (0, 7, "7", "7.3")] == [(0, 0), (7, 0), (7, 0), (7, 3)]


TEXTS = st.builds(TextDelta, text=st.text())
THOUGHTS = st.builds(ReasoningDelta, text=st.text())
CALLS = st.builds(ToolCallDelta, index=st.integers(0, 3), arguments=st.text())


@given(st.lists(TEXTS | THOUGHTS | CALLS))
def test_pieces_put_together_say_the_same(pieces: list[Any]) -> None:
    placed = [replace(one, seq=4, part=part) for part, one in enumerate(pieces, 1)]
    found: list[Any] = together(placed)
    assert [one.part for one in found[-1:]] == [one.part for one in placed[-1:]]
    for kind in (TextDelta, ReasoningDelta):
        said = "".join(one.text for one in placed if isinstance(one, kind))
        assert "".join(one.text for one in found if isinstance(one, kind)) == said
    calls = [one for one in placed if isinstance(one, ToolCallDelta)]
    assert [one for one in found if isinstance(one, ToolCallDelta)] == calls
    assert together(found) == found


def test_pieces_of_an_event_that_has_passed_are_forgotten() -> None:
    pieces = Pieces(Changes(), None)
    pieces.show(TextDelta(run_id="r", seq=3, part=1, text="a"))
    pieces.show(TextDelta(run_id="r", seq=3, part=2, text="b"))
    assert [one.text for one in pieces.after("r", 3, 1) if isinstance(one, TextDelta)] == ["b"]
    assert pieces.after("r", 2, 0) == []
    pieces.show(RunStarted(run_id="r", seq=4))
    assert pieces.after("r", 3, 0) == []


async def test_a_piece_that_is_read_back_by_who_stored_it_is_shown_once() -> None:
    changes = Changes()
    pieces = Pieces(changes, None)
    first, second = (TextDelta(run_id="r", seq=3, part=part, text="a") for part in (1, 2))
    pieces.show(first)
    with changes.watch(pieces_of("r")):
        pieces.keep([PieceRow("r", 3, 1, encode([first])), PieceRow("r", 3, 2, encode([second]))])
        assert pieces.after("r", 3, 0) == [first, second]


def test_a_torn_file_of_pieces_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    (tmp_path / "runs.db-live").write_bytes(b"torn" * 1_000)
    with closing(LiveFile(str(path))) as live:
        live.request_pieces(["r"])
        live.put([PieceRow("r", 1, 1, b"[]")])
        assert live.read({"r": (0, 0)}) == [PieceRow("r", 1, 1, b"[]")]
        live.put([PieceRow("r", 2, 0, b"")])
        assert live.read({"r": (0, 0)}) == []
