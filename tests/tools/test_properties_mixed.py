"""Whatever comes, over async, plain and process tools in one batch."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.searching import examples
from tests.tools import isolated
from tests.tools.test_properties import assert_recorded, assert_sound, play
from upshot.contract import Approve, Deny, Edit, Effect, ToolCall
from upshot.tools import Toolbox, ToolContext, ToolError, Workers, tool
from upshot.tools.execution import executor

WORKERS = Workers(cap=4)


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """A grace that bodies which look at their token meet on a machine that stalls too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "_THREAD_GRACE_S", 60.0)
        yield


class Bank:
    """Tools of all kinds over one account; it counts who is inside at a time."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.clashes: list[str] = []
        self._readers = 0
        self._writers = 0
        self._lock = threading.Lock()
        self.tools = [
            tool(effect="write", timeout_s=0.05, name="pay")(self.pay),
            tool(effect="write", timeout_s=0.05, name="pay_async")(self.pay_async),
            tool(effect="destructive", timeout_s=0.05, name="close")(self.close),
            tool(effect="read", timeout_s=0.05, name="look")(self.look),
            tool(effect="read", idempotent=True, name="look_async")(self.look_async),
        ]

    def pay(self, context: ToolContext, steps: int, fault: str = "") -> str:
        """Write after so many looks at the token, with or without a fault after the effect."""
        self._enter(writes=True)
        try:
            for _ in range(steps):
                if context.cancelled.wait(0.0005):
                    return "stopped"
            if context.cancelled:
                return "stopped"
            self.written.append(context.call_id)
            return self._fail(context, fault)
        finally:
            self._leave(writes=True)

    async def pay_async(self, context: ToolContext, steps: int, fault: str = "") -> str:
        """The same on the event loop."""
        self._enter(writes=True)
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
            self.written.append(context.call_id)
            if fault == "hang":
                await asyncio.Event().wait()
            return self._fail(context, fault)
        finally:
            self._leave(writes=True)

    def close(self, context: ToolContext, steps: int, fault: str = "") -> str:
        """The same, and people are asked."""
        return self.pay(context, steps, fault)

    def look(self, context: ToolContext, steps: int, fault: str = "") -> list[str]:
        """Read in a thread."""
        self._enter(writes=False)
        try:
            context.cancelled.wait(0.0005 * steps)
            self._fail(context, fault)
            return list(self.written)
        finally:
            self._leave(writes=False)

    async def look_async(self, steps: int = 0, fault: str = "") -> list[str]:
        """Read on the event loop."""
        self._enter(writes=False)
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
            return list(self.written)
        finally:
            self._leave(writes=False)

    async def closed(self) -> None:
        """Wait until nobody is inside, in whatever thread."""
        while self._writers or self._readers:
            await asyncio.sleep(0.001)

    def _fail(self, context: ToolContext, fault: str) -> str:
        match fault:
            case "raise":
                raise ValueError("x\ny")
            case "tool_error":
                raise ToolError("no", code="odd", retryable=False)
            case "exit":
                raise SystemExit(1)
            case "hang":
                context.cancelled.wait(10)
            case "big":
                return "x" * 13_000
            case _:
                pass
        return "done"

    def _enter(self, *, writes: bool) -> None:
        with self._lock:
            if self._writers or (writes and self._readers):
                self.clashes.append(threading.current_thread().name)
            self._writers += writes
            self._readers += not writes

    def _leave(self, *, writes: bool) -> None:
        with self._lock:
            self._writers -= writes
            self._readers -= not writes


# The last is more than the time and the grace of a body that does not look at its token.
LOOKS = st.sampled_from([0, 1, 2, 3, 4, 300])
FAULTS = st.sampled_from(["", "", "raise", "tool_error", "hang", "big", "exit"])
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["pay", "pay_async", "close", "look", "look_async", "nope"]),
        st.fixed_dictionaries({"steps": LOOKS, "fault": FAULTS})
        | st.sampled_from([{}, {"steps": "2"}, {"steps": "many"}, "{"]),
    ),
    max_size=5,
)
KINDS = st.sampled_from(
    [
        Approve,
        lambda id: Approve(id, always="tool"),
        lambda id: Deny(id, "no"),
        lambda id: Edit(id, {"steps": 0}),
        lambda id: Edit(id, {"steps": "many"}),
        None,
    ]
)
ROUNDS = st.lists(
    st.tuples(
        CALLS,
        st.sampled_from(["none", "none", "toolbox", "caller"]),
        st.integers(0, 30),
        st.lists(KINDS, max_size=4),
    ),
    min_size=1,
    max_size=3,
)


@examples(60)
@given(ROUNDS, st.booleans())
async def test_with_threads_nothing_is_lost_doubled_late_or_at_the_same_time(
    rounds: list[Any], parallel: bool
):
    bank, made = Bank(), list[str]()
    box = Toolbox(bank.tools, parallel=parallel, workers=WORKERS)
    for number, (pairs, ending, steps, kinds) in enumerate(rounds):
        calls = [ToolCall(f"{number}-{n}", *pair) for n, pair in enumerate(pairs)]
        made += [call.id for call in calls]
        known = len(box.records)
        await play(box, box.dispatch(calls), ending, steps)
        # A caller who is cancelled again leaves bodies behind that have not ended yet.
        await bank.closed()
        settled = [record.call_id for record in box.records[known:]]
        assert settled == [call.id for call in calls if call.id in settled]
        chosen = zip([pending.call_id for pending in box.pending], kinds, strict=False)
        answers = [kind(id) for id, kind in chosen if kind is not None]
        await play(box, box.answer(answers), ending, steps)
        # The turn is closed: who was cut off must not write any more.
        written = len(bank.written)
        await bank.closed()
        assert len(bank.written) == written
        box.new_turn()
    waiting = [pending.call_id for pending in box.pending]
    assert sorted([record.call_id for record in box.records] + waiting) == sorted(made)
    assert_recorded(box, [id for id in made if id not in waiting])
    assert_sound([record.outcome for record in box.records])
    assert bank.clashes == []
    assert len(bank.written) == len(set(bank.written))
    by_id = {record.call_id: record for record in box.records}
    # What wrote says so, or that nobody knows; what says that it did nothing wrote nothing.
    effects = {by_id[id].effect for id in bank.written}
    assert effects <= {Effect.APPLIED, Effect.UNKNOWN}


STEPS = st.lists(
    st.tuples(st.sampled_from(["", "raise", "exit", "hang"]), st.sampled_from([0.0, 0.2])),
    min_size=1,
    max_size=3,
)


@examples(6)
@given(STEPS, st.sampled_from(["none", "toolbox"]), st.booleans())
async def test_with_processes_nothing_is_lost_doubled_or_late(
    steps: list[tuple[str, float]], ending: str, mixed: bool
):
    short = isolated.note.but(timeout_s=1.0)
    bank = Bank()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes"
        path.touch()
        box = Toolbox([short, *bank.tools])
        calls = [
            ToolCall(
                f"{n}", "note", {"path": str(path), "text": f"{n}", "after_s": s, "fault": fault}
            )
            for n, (fault, s) in enumerate(steps)
        ]
        if mixed:
            calls += [ToolCall("p", "pay", {"steps": 1}), ToolCall("l", "look", {"steps": 1})]
        await play(box, box.dispatch(calls), ending, 50)
        assert [record.call_id for record in box.records] == [call.id for call in calls]
        assert_sound([record.outcome for record in box.records])
        notes = path.read_text().split()
        assert len(notes) == len(set(notes))
        for record in box.records:
            if record.call_id in notes:
                assert record.effect in (Effect.APPLIED, Effect.UNKNOWN)
            elif record.tool_name == "note":
                assert record.effect is not Effect.APPLIED
        assert not any(record.mode == "process" and _goes_on(record) for record in box.records)


def _goes_on(record: Any) -> bool:
    return getattr(record.outcome, "stopped", True) is False
