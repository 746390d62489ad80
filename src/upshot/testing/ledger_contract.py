"""What a journal with effects by identity must do: a part of JournalContract."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from unittest import SkipTest

import msgspec
import pytest

from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.effects import EffectClaim, EffectEntry, EffectLedger, ledger_of
from upshot.contract.error import AgentError
from upshot.contract.events import RunSettled, RunStarted, ToolSettled, ToolStarted
from upshot.contract.model_calls import Request
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    Settlement,
    ToolCall,
    ToolExecutionResult,
    ToolFailure,
    ToolRecord,
)
from upshot.errors import Misuse
from upshot.journal.watching import of_effect, watch

_START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_DONE = Settlement(effect=Effect.APPLIED, by="ann", note="it is there")
_NOT_DONE = Settlement(effect=Effect.NONE, by="verify")


class Run:
    """A run whose events are written by hand.

    Args:
        journal: A journal that keeps effects.
        run_id: The id of a new run.
    """

    def __init__(self, journal: Journal, run_id: str) -> None:
        self.run_id: str = run_id
        self.seq: int = 0
        self._journal = journal
        self._ledger: Any = journal
        self._epoch = 0

    async def begin(self, *, request: Request | None = None, **attributes: str) -> Run:
        """Claim the run and write its first event."""
        self._epoch = await self._journal.claim(self.run_id)
        asked, agent = request or Request("refund it"), AgentSpec(id="desk")
        self._append(RunStarted(agent=agent, request=asked, attributes={**attributes}))
        return self

    async def claim_again(self) -> None:
        """Claim the run again, as a session that resumes it does."""
        self._epoch = await self._journal.claim(self.run_id)

    async def start(self, call_id: str, key: str, *, keep_s: float | None = None) -> bool:
        """Start a call of ``refund``; return whether it has the claim on its effect."""
        event = started_call(self.run_id, self.seq + 1, call_id, key, keep_s=keep_s)
        self._append(event)
        await self.flush()
        self.refusal: EffectEntry | None = self._ledger.refused_claim(self.run_id, call_id)
        return self.refusal is None

    async def end(self, call_id: str, effect: Effect, key: str = "") -> None:
        """Settle a call."""
        self.put_end(call_id, effect, key)
        await self.flush()

    def put_end(self, call_id: str, effect: Effect, key: str = "") -> None:
        """Append the end of a call."""
        outcome = (
            ToolExecutionResult(call_id, "refund", output={"id": f"re_{call_id}"})
            if effect is Effect.APPLIED
            else ToolFailure(call_id, "refund", error="the line broke", effect=effect)
        )
        record = ToolRecord(
            run_id=self.run_id,
            call_id=call_id,
            tool_name="refund",
            effect=effect,
            effect_id=effect_id(key) if key else "",
            outcome=outcome,
        )
        self._append(ToolSettled(record=record))

    async def park(self, status: Status = Status.INPUT_REQUIRED) -> None:
        """Settle the session."""
        is_done = status is Status.COMPLETED
        error = None if is_done else AgentError(ErrorCode.INPUT_REQUIRED)
        result = AgentResult[Any](run_id=self.run_id, status=status, error=error, output="done")
        self._append(RunSettled(result=result))
        await self.flush()

    def die(self) -> None:
        """Release the run in the middle of its work."""
        release = getattr(self._journal, "release", None)
        if release is None:
            raise SkipTest("it has no release()")
        release(self.run_id, self._epoch)

    async def flush(self) -> None:
        """Wait until all events are durable."""
        await self._journal.durable(self.run_id, self.seq, epoch=self._epoch)

    def _append(self, event: Any) -> None:
        self.seq += 1
        stamp = {"run_id": self.run_id, "seq": self.seq}
        at = _START + timedelta(seconds=self.seq)
        event = msgspec.structs.replace(event, time=at, **stamp)
        self._journal.append(event, epoch=self._epoch)


def effect_id(key: str) -> str:
    """Return the id of the effect with this key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def started_call(
    run_id: str, seq: int, call_id: str, key: str, *, keep_s: float | None = None
) -> ToolStarted:
    """Return the start of a call of ``refund`` that claims an effect."""
    claim = EffectClaim(
        id=effect_id(key), name="refund", key=f'{{"order":"{key}"}}', others="100", keep_s=keep_s
    )
    call = ToolCall(call_id, "refund", {"order": key})
    return ToolStarted(
        run_id=run_id, seq=seq, time=_START, call=call, claim=claim, idempotency_key=f"k-{call_id}"
    )


class _Desk(NamedTuple):
    """A journal and its ledger, for one check."""

    journal: Any
    ledger: EffectLedger

    async def run(self, run_id: str, **attributes: str) -> Run:
        return await Run(self.journal, run_id).begin(request=None, **attributes)

    async def entry(self, key: str) -> EffectEntry:
        entry = await self.ledger.effect(effect_id(key))
        assert entry is not None, f"it has no effect {key!r}"
        return entry

    async def state(self, key: str) -> str:
        return (await self.entry(key)).state

    async def keys(self, **filters: Any) -> list[str]:
        return _keys(await self.ledger.effects(**filters))


_Play = Callable[[Any, _Desk], Coroutine[Any, Any, None]]


def _with_ledger(play: _Play) -> Callable[[LedgerChecks], Coroutine[Any, Any, None]]:
    """Make a check that gets a new journal, which is closed afterwards."""

    async def run(self: LedgerChecks) -> None:
        async with self._empty() as journal:  # pyright: ignore[reportPrivateUsage]  # its own
            ledger = ledger_of(journal)
            if ledger is None:
                raise SkipTest("it keeps no effects")
            await play(self, _Desk(journal, ledger))

    run.__name__, run.__doc__ = play.__name__, play.__doc__
    run.__qualname__ = play.__qualname__
    return run


class LedgerChecks:
    """The checks of a journal that keeps effects by identity."""

    def _empty(self) -> AbstractAsyncContextManager[Journal]:
        raise NotImplementedError

    @_with_ledger
    async def test_the_first_call_has_the_claim_and_the_second_is_told(self, desk: _Desk) -> None:
        """A refused claim leaves the entry, and never fails the append."""
        first, second = await desk.run("run-1", user="ann", tenant="acme"), await desk.run("run-2")
        assert await first.start("a", "7"), "the effect was free, and its claim was refused"
        assert not await second.start("b", "7"), "it is claimed already"
        entry = second.refusal
        assert entry is not None
        assert (entry.run_id, entry.call_id, entry.state) == ("run-1", "a", "begun")
        assert (entry.name, entry.key, entry.others) == ("refund", '{"order":"7"}', "100")
        assert (entry.user, entry.tenant, entry.agent_id) == ("ann", "acme", "desk")
        assert entry.idempotency_key == "k-a"
        assert desk.ledger.refused_claim("run-2", "b") is None, "it is asked for once"

    @_with_ledger
    async def test_a_call_that_applied_keeps_its_key_and_outcome(self, desk: _Desk) -> None:
        """A later call gets what the first returned."""
        first, second = await desk.run("run-1"), await desk.run("run-2")
        await first.start("a", "7")
        await first.end("a", Effect.APPLIED, "7")
        assert not await second.start("b", "7")
        await second.end("b", Effect.NONE, "7")
        entry = await desk.entry("7")
        assert (entry.state, entry.call_id) == ("applied", "a")
        assert entry.ended_at == _START + timedelta(seconds=3)
        outcome = await desk.ledger.effect_outcome(entry)
        assert isinstance(outcome, ToolExecutionResult)
        assert (outcome.output, outcome.call_id, outcome.tool_name) == (
            {"id": "re_a"},
            "a",
            "refund",
        )

    @_with_ledger
    async def test_a_call_without_effect_frees_its_key(self, desk: _Desk) -> None:
        """The attempts are counted under one identity."""
        first, second = await desk.run("run-1"), await desk.run("run-2")
        await first.start("a", "7")
        await first.end("a", Effect.NONE, "7")
        assert await second.start("b", "7")
        entry = await desk.entry("7")
        assert (entry.state, entry.attempts, entry.run_id) == ("begun", 2, "run-2")

    @_with_ledger
    async def test_a_key_is_free_when_its_keep_has_passed(self, desk: _Desk) -> None:
        """The first call ended years ago."""
        first, second = await desk.run("run-1"), await desk.run("run-2")
        await first.start("a", "7", keep_s=60)
        assert not await second.start("b", "7", keep_s=60), "a call under way keeps its key"
        await first.end("a", Effect.APPLIED, "7")
        assert await second.start("c", "7", keep_s=1e12)
        await second.end("c", Effect.APPLIED, "7")
        assert not await first.start("d", "7")

    @_with_ledger
    async def test_what_a_left_run_had_begun_is_unknown(self, desk: _Desk) -> None:
        """The run was released or parked; a call that claims the effect learns of that."""
        for key, leave in (("7", "die"), ("8", "park")):
            first, second = await desk.run(f"run-1-{key}"), await desk.run(f"run-2-{key}")
            await first.start("a", key)
            assert not await second.start("b", key)
            assert await desk.state(key) == "begun"
            if leave == "die":
                first.die()
            else:
                await first.park()
            assert await desk.state(key) == "unknown", f"its run did {leave}"
            assert await desk.keys(state="unknown") == [key, *(["7"] if key == "8" else [])]
            assert await desk.keys(state="begun") == []
            again = started_call(second.run_id, 2, "b", key)
            entry = await desk.ledger.claim_effect(again)
            assert entry is not None, "an unknown effect was claimed"
            assert entry.state == "unknown"

    @_with_ledger
    async def test_a_refused_call_may_claim_again(self, desk: _Desk) -> None:
        """The row then names the new call, whose end becomes that of the effect."""
        first, second = await desk.run("run-1"), await desk.run("run-2")
        await first.start("a", "7")
        assert not await second.start("b", "7")
        again = started_call("run-2", 2, "b", "7")
        entry = await desk.ledger.claim_effect(again)
        assert entry is not None, "it is claimed twice"
        assert entry.call_id == "a"
        await first.end("a", Effect.NONE, "7")
        assert await desk.ledger.claim_effect(again) is None
        await second.end("b", Effect.APPLIED, "7")
        entry = await desk.entry("7")
        assert (entry.run_id, entry.call_id, entry.state) == ("run-2", "b", "applied")
        assert (entry.started_seq, entry.settled_seq, entry.attempts) == (2, 3, 2)

    @_with_ledger
    async def test_a_call_that_is_started_again_has_its_claim(self, desk: _Desk) -> None:
        """A resumed session starts an idempotent call again."""
        first = await desk.run("run-1")
        await first.start("a", "7")
        first.die()
        await first.claim_again()
        assert await first.start("a", "7")
        assert (await desk.entry("7")).attempts == 1

    @_with_ledger
    async def test_the_first_settlement_counts(self, desk: _Desk) -> None:
        """This also applies to an effect whose process died; later ones get the first."""
        first = await desk.run("run-1")
        await first.start("a", "7")
        with pytest.raises(Misuse):
            await desk.ledger.settle_effect(effect_id("7"), _DONE)
        first.die()
        entry = await desk.ledger.settle_effect(effect_id("7"), _DONE)
        assert (entry.state, entry.settled) == ("applied", _DONE)
        entry = await desk.ledger.settle_effect(effect_id("7"), _NOT_DONE)
        assert (entry.state, entry.settled) == ("applied", _DONE)
        for odd in ("", "7", effect_id("9")):
            with pytest.raises(Misuse):
                await desk.ledger.settle_effect(odd, _DONE)
        with pytest.raises(Misuse):
            await desk.ledger.settle_effect(effect_id("7"), Settlement(effect=Effect.UNKNOWN))

    @_with_ledger
    async def test_an_effect_that_is_settled_as_none_is_free(self, desk: _Desk) -> None:
        """A later outcome of the run that says unknown changes nothing."""
        first, second = await desk.run("run-1"), await desk.run("run-2")
        await first.start("a", "7")
        await first.end("a", Effect.UNKNOWN, "7")
        await desk.ledger.settle_effect(effect_id("7"), _NOT_DONE)
        await first.end("a", Effect.UNKNOWN, "7")
        assert await desk.state("7") == "none"
        assert await second.start("b", "7")
        await first.end("a", Effect.APPLIED, "7")
        entry = await desk.entry("7")
        assert (entry.state, entry.settled, entry.call_id) == ("begun", None, "b")

    @_with_ledger
    async def test_what_the_call_says_was_made_was_made(self, desk: _Desk) -> None:
        """The call's own word wins over what was found out while its process was frozen."""
        first, second = await desk.run("run-1"), await desk.run("run-2")
        await first.start("a", "7")
        await first.end("a", Effect.UNKNOWN, "7")
        await desk.ledger.settle_effect(effect_id("7"), _NOT_DONE)
        await first.end("a", Effect.APPLIED, "7")
        assert await desk.state("7") == "applied"
        assert not await second.start("b", "7")

    @_with_ledger
    async def test_a_call_without_identity_can_be_settled_too(self, desk: _Desk) -> None:
        """Each call that may have had an effect has a row of its own."""
        first = await desk.run("run-1")
        await first.end("a", Effect.UNKNOWN)
        await first.end("b", Effect.APPLIED)
        await first.end("c", Effect.UNKNOWN)
        listed = await desk.ledger.effects()
        assert [entry.call_id for entry in listed] == ["c", "a"]
        assert {entry.key for entry in listed} == {""}
        assert listed[0].tool_name == "refund"
        await desk.ledger.settle_effect(listed[0].id, _DONE)
        assert [entry.state for entry in await desk.ledger.effects()] == ["unknown", "applied"]

    @_with_ledger
    async def test_effects_are_found_by_what_is_known_of_them(self, desk: _Desk) -> None:
        """Unknown ones come first, each group newest first."""
        first, second = await desk.run("run-1", user="ann"), await desk.run("run-2", user="bob")
        for run, key, effect in (
            (first, "1", Effect.APPLIED),
            (first, "2", Effect.UNKNOWN),
            (second, "3", Effect.NONE),
            (second, "4", Effect.UNKNOWN),
        ):
            await run.start(f"call {key}", key)
            await run.end(f"call {key}", effect, key)
        await second.start("call 5", "5")
        assert await desk.keys() == ["4", "2", "5", "3", "1"]
        assert await desk.keys(state="applied") == ["1"]
        assert await desk.keys(run_id="run-1") == ["2", "1"]
        assert await desk.keys(user="bob") == ["4", "5", "3"]
        assert await desk.keys(user="bob", tenant="acme") == []
        assert await desk.keys(key="3") == await desk.keys(key='{"order":"3"}') == ["3"]
        assert await desk.keys(key="order") == await desk.keys(tool="other") == []
        assert await desk.keys(tool="refund", limit=1) == ["4"]
        assert await desk.keys(since=_START + timedelta(days=1)) == []
        assert await desk.keys(until=_START) == []
        assert await desk.keys(until=_START + timedelta(days=1), user="bob") == ["4", "5", "3"]
        for limit in (1, 2, 3):
            assert await _pages(desk, limit) == ["4", "2", "5", "3", "1"]
        for wrong in ({"limit": 0}, {"state": "odd"}, {"after": effect_id("9")}):
            with pytest.raises(Misuse):
                await desk.ledger.effects(**wrong)  # pyright: ignore[reportArgumentType]  # on purpose

    @_with_ledger
    async def test_who_waits_for_an_effect_is_told(self, desk: _Desk) -> None:
        """The waiter is notified of its end, and of its settlement."""
        first = await desk.run("run-1")
        await first.start("a", "7")
        with watch(desk.journal, of_effect(effect_id("7"))) as watcher:
            await first.end("a", Effect.UNKNOWN, "7")
            assert await watcher.changed(10)
            await desk.ledger.settle_effect(effect_id("7"), _DONE)
            assert await watcher.changed(10)
        await desk.ledger.wait_for_effect(await desk.entry("7"), timeout_s=0)

    @_with_ledger
    async def test_a_parked_run_goes_on_when_its_effect_is_settled(self, desk: _Desk) -> None:
        """The run becomes due."""
        due_runs = getattr(desk.journal, "due_runs", None)
        if due_runs is None:
            raise SkipTest("it has no due_runs()")
        first = await desk.run("run-1")
        await first.start("a", "7")
        await first.end("a", Effect.UNKNOWN, "7")
        await first.park()
        assert await due_runs(run_id="run-1") == []
        await desk.ledger.settle_effect(effect_id("7"), _DONE)
        reasons = [due.reason for due in await due_runs(run_id="run-1")]
        assert reasons == ["settled"], f"it is due for {reasons}"

    @_with_ledger
    async def test_checks_are_given_to_one_process_at_a_time(self, desk: _Desk) -> None:
        """Each check counts, and none is due once there is no next check."""
        first = await desk.run("run-1")
        await first.start("a", "7")
        first.die()
        assert await desk.state("7") == "unknown"
        assert not await desk.ledger.claim_checks(["other"], limit=9, for_s=60)
        (taken,) = await desk.ledger.claim_checks(["refund"], limit=9, for_s=60)
        assert (taken.state, taken.checks, taken.idempotency_key) == ("unknown", 1, "k-a")
        assert not await desk.ledger.claim_checks(["refund"], limit=9, for_s=60)
        await desk.ledger.note_check(taken.id, _START)
        (taken,) = await desk.ledger.claim_checks(["refund"], limit=9, for_s=60)
        assert taken.checks == 2
        await desk.ledger.note_check(taken.id, None)
        assert not await desk.ledger.claim_checks(["refund"], limit=9, for_s=0)

    @_with_ledger
    async def test_effects_outlive_their_runs(self, desk: _Desk) -> None:
        """They keep their outcomes, unless they are removed too."""
        remove = getattr(desk.journal, "remove_runs", None)
        if remove is None:
            raise SkipTest("it has no remove_runs()")
        for number in (1, 2):
            first = await desk.run(f"run-{number}", user="ann")
            await first.start("a", "7")
            if number == 1:
                await first.end("a", Effect.APPLIED, "7")
            await first.start("b", f"short {number}", keep_s=60)
            await first.end("b", Effect.APPLIED, f"short {number}")
            await first.park(Status.COMPLETED)
        before = await desk.entry("7")
        await remove(["run-1"])
        entry = await desk.entry("7")
        assert (entry.run_id, entry.call_id, entry.user) == ("run-1", "a", "ann")
        for known in (before, entry):
            outcome = await desk.ledger.effect_outcome(known)
            assert isinstance(outcome, ToolExecutionResult)
            assert outcome.output == {"id": "re_a"}
        assert await desk.keys() == ["short 2", "7"], "its keep has passed"
        assert await desk.keys(run_id="run-1", user="ann") == ["7"]
        third = await desk.run("run-3")
        assert not await third.start("c", "7")
        await remove(["run-2"], effects=True)
        assert await desk.keys() == ["7"]


async def _pages(desk: _Desk, limit: int) -> list[str]:
    found: list[str] = []
    after = ""
    while page := await desk.ledger.effects(limit=limit, after=after):
        found += _keys(page)
        after = page[-1].id
    return found


def _keys(entries: Sequence[EffectEntry]) -> list[str]:
    return [entry.key.removeprefix('{"order":"').removesuffix('"}') for entry in entries]
