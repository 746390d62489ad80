"""The calls of one reply, and their locks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from upshot.contract.base.enums import DeniedReason
from upshot.contract.events import ToolSettled
from upshot.contract.tool_calls import ToolDenied, ToolOutcome, ToolRecord, outcome_blocks_tool
from upshot.tools.call_state import CallState
from upshot.tools.execution.call_execution import Work, is_doubtful, verify_effect
from upshot.tools.execution.executor import GRACE_S, Stopped
from upshot.tools.execution.outcome_mapping import conclude
from upshot.tools.gates.pipeline import Denial, deny, is_open, release
from upshot.tools.gates.standard_gates import why_stuck
from upshot.tools.repetition import TOLD_AT, is_step
from upshot.tools.toolbox_state import ToolboxState

__all__ = ["Batch", "Claim", "Locks"]


@dataclass(eq=False, slots=True)
class Claim:
    """One body's wish to run.

    Attributes:
        writes: Whether it may change what it touches.
        resources: What it touches, None for anything.
        free: Done when it may run; None where it never had to wait.
    """

    writes: bool
    resources: frozenset[str] | None
    free: asyncio.Future[None] | None = field(default=None, init=False)

    def conflicts(self, other: Claim) -> bool:
        """Whether the two must not run together: one writes what the other touches."""
        if not (self.writes or other.writes):
            return False
        if self.resources is None or other.resources is None:
            return True
        return not self.resources.isdisjoint(other.resources)


class Locks:
    """Lets bodies run in the order of their claims where they conflict, else together.

    A body takes all it touches at once and never waits while it holds something, so there is
    no deadlock.
    """

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._writers = 0
        self._waiting = 0

    def enter(self, claim: Claim) -> bool:
        """Stand in line; returns whether the body may run now, else ``wait`` has to follow."""
        free = self._is_free(claim, len(self._claims))
        self._claims.append(claim)
        self._writers += claim.writes
        if not free:
            claim.free = asyncio.get_running_loop().create_future()
            self._waiting += 1
        return free

    async def wait(self, claim: Claim) -> None:
        """Wait until the body may run."""
        if claim.free is not None:
            await claim.free

    def leave(self, claim: Claim) -> None:
        """The body has ended, or does not want to run any more."""
        self._claims.remove(claim)
        self._writers -= claim.writes
        if claim.free is not None:
            self._waiting -= 1
        if not self._waiting:
            return
        for place, other in enumerate(self._claims):
            free = other.free
            if free is not None and not free.done() and self._is_free(other, place):
                free.set_result(None)

    def _is_free(self, claim: Claim, place: int) -> bool:
        # Spares a hundred parallel reads the comparison of each with each.
        if not claim.writes and self._writers == 0:
            return True
        return not any(claim.conflicts(earlier) for earlier in self._claims[:place])


class Batch:
    """Calls that came together.

    Their gates are asked in call order; a body starts as soon as its own gates have let it
    pass and what it touches is free. One failure cancels nobody.
    """

    def __init__(self, desk: ToolboxState, cases: Sequence[CallState]) -> None:
        self._desk = desk
        self._passage = desk.passage
        self._cases = tuple(cases)
        self._locks = Locks()
        self._claims: dict[int, Claim] = {}
        self._tasks: dict[asyncio.Task[None], CallState] = {}
        self._alone: asyncio.Task[Any] | None = None
        self._lone: CallState | None = None
        self._taken_back = False
        self._records: dict[int, ToolRecord] = {}
        self._climbed: set[Hashable] = set()
        self._equals: dict[str, list[CallState]] = {}
        self._called_off: set[str] = set()

    @property
    def records(self) -> list[ToolRecord]:
        """The records of the settled calls, in call order."""
        found = (self._records.get(id(case)) for case in self._cases)
        return [record for record in found if record is not None]

    async def run(self) -> None:
        """Settle or park every call.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every call is settled all the same.
            JournalError: The log refuses events; calls may be open.
        """
        try:
            await self._desk.ledger.open()
            waiting = self._start()
            if len(waiting) == 1:
                await self._drive_here(waiting[0])
            elif waiting:
                self._tasks = {asyncio.create_task(self._drive(case)): case for case in waiting}
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            await self._finish()
            self._settle_open(parked=True)
            raise
        except BaseException:
            # Bodies must not go on when nothing more can be logged.
            await self._finish()
            raise
        failed = [error for task in self._tasks if (error := _error_of(task)) is not None]
        if failed:
            await self._finish()
            raise failed[0]
        self._settle_open(parked=False)

    def cancel(self, *, running: bool = True) -> None:
        """End calls and settle them as cancelled; ``run`` then returns.

        Args:
            running: Whether those are ended whose bodies run; else they come to their end.
        """
        if self._alone is not None and not self._taken_back and _ends(self._lone, running):
            self._taken_back = True
            self._alone.cancel()
        for task, case in self._tasks.items():
            if _ends(case, running):
                task.cancel()

    def has_call(self, call_id: str) -> bool:
        """Whether there is such a call to end; may be asked in any thread."""
        lone = self._lone
        if lone is not None and lone.call_id == call_id:
            return True
        # A copy, for the thread of the loop may begin and end calls meanwhile.
        tasks = list(self._tasks.items())
        return any(case.call_id == call_id and not task.done() for task, case in tasks)

    def cancel_call(self, call_id: str) -> bool:
        """End one call; returns whether there was one to end."""
        if self._lone is not None and self._lone.call_id == call_id:
            self._called_off.add(call_id)
            self.cancel()
            return True
        found = False
        for task, case in self._tasks.items():
            if case.call_id == call_id and not task.done():
                # A task that never began does not get to its own end.
                task.add_done_callback(lambda _, case=case: self._leave(case))
                self._called_off.add(call_id)
                found = task.cancel()
        return found

    def _start(self) -> list[CallState]:
        """Ask the gates in call order; returns the calls that have something to wait for."""
        seen: set[str] = set()
        waiting: list[CallState] = []
        for case in self._cases:
            if case.call_id and case.call_id in seen:
                text = f"the call id {case.call_id!r} stands twice in one reply"
                deny(case, "call_id", Denial(DeniedReason.DUPLICATE, text))
            seen.add(case.call_id)
            # Not in the task, so that gates are asked in call order for the whole batch: who
            # comes first in the reply gets what is left of the budget, and is the one that
            # its twin waits for.
            self._passage.go(case)
            doubtful = is_doubtful(case)
            if case.wait is None and not doubtful:
                self._line_up(case)
            if doubtful or is_open(case):
                waiting.append(case)
        return waiting

    async def _drive_here(self, case: CallState) -> None:
        """Drive a single call in the caller's own task: most replies ask for one.

        Raises:
            asyncio.CancelledError: The caller was cancelled, and not only the batch.
        """
        self._alone = task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._lone = case
        before = task.cancelling()
        try:
            await self._drive(case)
        finally:
            self._alone = self._lone = None
        if self._taken_back:
            # Asked for from within the task itself, the cancel may still be on its way, and
            # would meet the caller at its next await.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            task.uncancel()
        if task.cancelling() > before:
            raise asyncio.CancelledError

    async def _drive(self, case: CallState) -> None:
        # From here on the call is on its own: whatever it waits for, the others go on.
        try:
            if is_doubtful(case) and case.outcome is not None:
                case.outcome = await verify_effect(self._desk, case, case.outcome)
                self._settle(case)
            if case.wait is not None:
                await self._passage.wait(case)
                self._line_up(case)
            if is_open(case):
                await self._run(case)
        except asyncio.CancelledError:
            # Whoever cancels, there is an outcome for every call.
            self._settle_cancelled(case)
        finally:
            self._leave(case)

    def _leave(self, case: CallState) -> None:
        claim = self._claims.pop(id(case), None)
        if claim is not None:
            self._locks.leave(claim)

    def _line_up(self, case: CallState) -> None:
        """What follows when all gates were asked: the last count, and a place in line."""
        if is_open(case):
            # Looked at again, for calls before it in the batch have been counted meanwhile.
            spent = case.turn.spent(case.tool_name)
            limited = case.turn.meters.refusal(case.known_tool)
            if spent:
                deny(case, "claim", Denial(DeniedReason.BUDGET, spent))
            elif limited is not None:
                deny(case, "claim", Denial(*limited))
        if not is_open(case) and case.outcome is None:
            self._set_aside(case)
        if case.outcome is not None:
            self._settle(case)
        elif is_open(case):
            case.turn.claim(case.tool_name)
            case.turn.meters.claim(case.known_tool)
            self._claim_resources(case)

    def _set_aside(self, case: CallState) -> None:
        """Have the call wait for people; denied where another of its id does so already."""
        pending, case.pending = case.pending, None
        if self._desk.waits(case.call_id):
            case.follows = ""
            text = f"the call id {case.call_id!r} is that of a call that waits for an answer"
            deny(case, "call_id", Denial(DeniedReason.DUPLICATE, text))
        elif pending is None:
            self._desk.followers.append(case)
        else:
            self._desk.park(case, pending)

    def _claim_resources(self, case: CallState) -> None:
        tool = case.known_tool
        alone = not self._desk.parallel
        claim = Claim(tool.may_write or alone, None if alone else case.resources)
        self._claims[id(case)] = claim
        self._locks.enter(claim)
        if len(self._cases) > TOLD_AT and not tool.may_write and not tool.repeatable:
            self._equals.setdefault(case.digest, []).append(case)
        if tool.may_write:
            case.turn.replay.expect_write(case.resources, held=case.held)
        if tool.effect is None and len(self._cases) > 1:
            self._desk.warn(
                "undeclared_effect",
                f"{tool.name} declares no effect, so it ran alone; if it only reads, say so: "
                'effect="read"',
                once=f"undeclared_effect {tool.name}",
            )

    async def _run(self, case: CallState) -> None:
        held: list[asyncio.Semaphore] = []
        if self._equals:
            await self._wait_for_equals(case)
        if not await self._wait_for_room(case, held):
            text = "the deadline passed while it waited"
            self._refuse(case, Denial(DeniedReason.DEADLINE, text))
            return
        try:
            denial = self._objection(case)
            if denial is not None:
                self._refuse(case, denial)
            else:
                if case.held is not None:
                    case.held.began = True
                outcome = await Work(self._desk, case).run()
                # Settled already where a cancelled batch could not wait for it.
                if id(case) not in self._records:
                    case.outcome = outcome
                self._settle(case)
        finally:
            for slot in held:
                slot.release()

    async def _wait_for_room(self, case: CallState, held: list[asyncio.Semaphore]) -> bool:
        """Wait until the body may run; what it then holds is in *held*."""
        claim, slots = self._claims[id(case)], self._desk.slots_of(case)
        if claim.free is None and not slots:
            return True
        try:
            async with asyncio.timeout(case.turn.remaining_s()):
                await self._locks.wait(claim)
                for slot in slots:
                    await slot.acquire()
                    held.append(slot)
        except BaseException as error:
            for slot in held:
                slot.release()
            held.clear()
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    async def _wait_for_equals(self, case: CallState) -> None:
        """Have a read that came often in this reply wait for what its equals give."""
        equals = self._equals.get(case.digest, ())
        if len(equals) <= TOLD_AT or case in equals[:TOLD_AT]:
            return
        earlier = equals[: equals.index(case)]
        tasks = [task for task, other in self._tasks.items() if other in earlier]
        await asyncio.wait(tasks, timeout=case.turn.remaining_s())

    def _objection(self, case: CallState) -> Denial | None:
        """Why a body may not start after all."""
        left = case.turn.remaining_s()
        if case.turn.cancelled:
            return Denial(DeniedReason.CANCELLED, "the turn was cancelled")
        if left is not None and left <= 0:
            return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        if self._equals and case.digest in self._equals and self._passage.asks("progress"):
            stuck = why_stuck(case)
            if stuck is not None:
                return stuck
        return None if self._desk.at_start is None else self._desk.at_start(case)

    def _refuse(self, case: CallState, denial: Denial) -> None:
        """Deny a call whose gates had let it pass, before its body started."""
        self._unclaim(case)
        deny(case, "start", denial)
        self._settle(case)

    def _unclaim(self, case: CallState) -> None:
        case.turn.unclaim(case.tool_name)
        case.turn.meters.unclaim(case.known_tool)

    def _settle(self, case: CallState) -> None:
        """Draw the consequences of an outcome and tell it, once."""
        outcome = case.outcome
        if outcome is None or id(case) in self._records:
            return
        turn, tool = case.turn, case.tool
        # First the consequences, then the event: who reads it may already dispatch again.
        if isinstance(outcome, ToolDenied) or tool is None:
            turn.denials += isinstance(outcome, ToolDenied)
            release(case)
        else:
            turn.replay.record(
                outcome, held=case.held, resources=case.resources, may_write=tool.may_write
            )
            case.held = None
            turn.meters.note(tool, outcome)
            if outcome_blocks_tool(outcome):
                turn.block(tool, case.digest)
        self._learn(case)
        case.outcome = self._desk.secrets.mask(outcome)
        self._climb(case, case.outcome)
        record = self._desk.record_of(case)
        self._records[id(case)] = record
        if record.trust:
            self._desk.distrust(record.outcome)
        self._desk.ledger.emit(ToolSettled(record=record))

    def _climb(self, case: CallState, outcome: ToolOutcome) -> None:
        # Denied before its arguments were read, a call has no digest.
        if case.tool is None or case.arguments is None:
            return
        if not is_step(outcome, case.digest, self._climbed, reads=not case.tool.may_write):
            return
        case.turn.ladder.climb(outcome, key=case.digest, repeatable=case.tool.repeatable)

    def _learn(self, case: CallState) -> None:
        """Keep what a person said of the call for good."""
        self._desk.asked.pop(case.call_id, None)
        if case.approval is not None:
            version = "" if case.tool is None else case.tool.version
            case.turn.consent.learn(case.approval, tool_name=case.tool_name, tool_version=version)

    def _settle_cancelled(self, case: CallState, *, ended: bool = True) -> None:
        if id(case) in self._records:
            return
        if case.outcome is not None:
            # It was being verified, and what was known stands.
            self._settle(case)
            return
        if case.run_started is None:
            if id(case) in self._claims:
                self._unclaim(case)
            deny(case, "cancelled", self._why_not(case))
        else:
            elapsed = self._desk.clock.monotonic() - case.run_started
            # Who is stopped at the turn's deadline has run past it, whoever noticed first.
            ending = Stopped(cancelled=not case.turn.is_over, ended=ended)
            case.outcome = conclude(
                case,
                ending,
                elapsed_ms=round(elapsed * 1000),
                timeout_s=elapsed,
                deadline_s=self._desk.clock.now().timestamp(),
            )
        self._settle(case)

    def _why_not(self, case: CallState) -> Denial:
        """Why a call is denied that was stopped before its body started."""
        if case.call_id in self._called_off:
            return Denial(DeniedReason.CANCELLED, "the call was cancelled")
        if case.turn.is_over:
            return Denial(DeniedReason.DEADLINE, "the turn's deadline has passed")
        return Denial(DeniedReason.CANCELLED, "the turn was cancelled")

    def settle_off(self) -> None:
        """Settle every call that is still open, without making it."""
        self._settle_open(parked=True)

    def _settle_open(self, *, parked: bool) -> None:
        """Settle what was cancelled before it could do so itself.

        Args:
            parked: Whether calls that wait for people are given up too.
        """
        for case in self._cases:
            if case.wait is not None:
                case.wait.cancel()
                case.wait = None
            waits = case.pending is not None or bool(case.follows)
            if waits and not (parked and self._give_up(case)):
                continue
            self._settle_cancelled(case, ended=False)

    def _give_up(self, case: CallState) -> bool:
        """Have a parked call wait no longer; returns whether it still did."""
        desk = self._desk
        if desk.parked.get(case.call_id) is case and case.pending is not None:
            desk.follow_on(desk.unpark(case.call_id)[1:], case.pending)
        elif case in desk.followers:
            desk.followers.remove(case)
        else:
            return False
        case.pending, case.follows = None, ""
        return True

    async def _finish(self) -> None:
        """Cancel all bodies and wait for them, at most for the grace, whatever happens."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE_S
        self.cancel()
        left = {task for task in self._tasks if not task.done()}
        while left and (delay := until - loop.time()) > 0:
            try:
                _, left = await asyncio.wait(left, timeout=delay)
            except asyncio.CancelledError:
                # The caller is cancelled already, and that is what it will be told.
                continue


def _ends(case: CallState | None, running: bool) -> bool:  # noqa: FBT001
    return running or case is None or case.run_started is None


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None
