"""The calls of one reply, from their gates to their outcomes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import msgspec

from upshot.contract.events import ToolSettled
from upshot.contract.tool_calls import ToolDenied, ToolFailure, ToolRecord, outcome_blocks_tool
from upshot.tools.call_state import CallState, CallWaits
from upshot.tools.execution.call_execution import run_call, verify_effect
from upshot.tools.execution.executor import GRACE_S, Stopped
from upshot.tools.execution.locks import Claim, Locks
from upshot.tools.execution.outcome_mapping import conclude
from upshot.tools.repetition import TOLD_AT, is_counted_denial, is_in_doubt
from upshot.tools.toolbox_state import ToolboxState

SLICE = 1_000
"""How many calls are built, shown or hashed before other tasks of the loop get a turn."""
# The same for asking gates and running bodies, which takes ten times as long.
_SLICE = 100


class Batch:
    """Brings the calls of one reply to one outcome each, and cancels them.

    Gates are asked in call order. A body starts as soon as its own gates have passed it and what
    it touches is free. A failure cancels no other call.
    """

    def __init__(self, state: ToolboxState, calls: Sequence[CallState]) -> None:
        self._state = state
        self._calls = tuple(calls)
        self._claims: dict[CallState, Claim] = {}
        self._tasks: dict[CallState, asyncio.Task[None]] = {}
        # The caller's task while it runs the only call itself, and whether that task was cancelled
        # just to cancel the call.
        self._caller: asyncio.Task[None] | None = None
        self._is_cancelled_alone = False
        self._counted: set[str] = set()
        # For replies with many reads: the first call of each digest, all calls that have equals,
        # and the equal calls that a call waits for.
        self._firsts: dict[str, CallState] = {}
        self._equals: dict[str, list[CallState]] = {}
        self._before: dict[CallState, tuple[CallState, ...]] = {}

    @cached_property
    def _locks(self) -> Locks:
        """The order of the bodies; not used for a single call."""
        return Locks()

    @property
    def records(self) -> list[ToolRecord]:
        """The records of the settled calls, in call order."""
        return [call.record for call in self._calls if call.record is not None]

    async def run(self) -> None:
        """Settle or park every call.

        Raises:
            asyncio.CancelledError: The caller was cancelled; every call is settled even so.
            JournalError: The log refuses events; calls may be left open.
        """
        try:
            if self._state.journal_log is not None:
                await self._state.journal_log.open()
            waiting = await self._start()
            if len(waiting) == 1:
                await self._drive_here(waiting[0])
            else:
                await self._drive_all(waiting)
        except asyncio.CancelledError:
            await self._finish()
            self._settle_open(parked=True)
            raise
        except GeneratorExit:
            # The loop was closed: nothing is left to wait with.
            raise
        except BaseException:
            # Bodies must not keep running when nothing can be logged.
            await self._finish()
            raise
        self._settle_open(parked=False)

    def cancel(self, *, running: bool = True) -> None:
        """Cancel calls and settle them as cancelled; ``run`` then returns.

        Args:
            running: If true, running bodies are cancelled; otherwise they finish.
        """
        for call, task in self._tasks.items():
            if running or call.run_started is None:
                self._cancel_task(task)

    def open_calls(self) -> list[CallState]:
        """Return the calls that can still be cancelled; safe to call from any thread."""
        # A copy, because the loop's thread may start and end calls at the same time.
        return [call for call, task in list(self._tasks.items()) if not task.done()]

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one call; returns whether there was an open one."""
        found = False
        for call, task in self._tasks.items():
            if call.call_id == call_id and not task.done():
                if task is not self._caller:
                    # A task that never started does not reach its own cleanup.
                    task.add_done_callback(lambda _, call=call: self._release_claim(call))
                call.is_cancelled = found = True
                self._cancel_task(task)
        return found

    def _cancel_task(self, task: asyncio.Task[None]) -> None:
        if task is self._caller:
            if self._is_cancelled_alone:
                return
            self._is_cancelled_alone = True
        task.cancel()

    def settle_off(self) -> None:
        """Settle every open call without running it."""
        self._settle_open(parked=True)

    # -- before the body

    async def _start(self) -> list[CallState]:
        """Ask the gates in call order; returns the calls that have to be awaited."""
        seen: set[str] = set()
        waiting: list[CallState] = []
        for number, call in enumerate(self._calls, 1):
            if call.call_id and call.call_id in seen:
                call.pipeline.deny_id(call, "is used twice in one reply")
            elif call.call_id in self._state.agents:
                call.pipeline.deny_id(call, "is that of a call that waits for an answer")
            elif call.outcome is None:
                # Not in the call's own task, so that gates are asked in call order for the whole
                # batch: the first call gets what is left of the budget, and its equals wait for it.
                call.pipeline.ask(call)
            seen.add(call.call_id)
            # A call in doubt was started by an earlier session: its hook is asked first.
            if call.wait is not None or is_in_doubt(call) or self._count_and_queue(call):
                waiting.append(call)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return waiting

    def _count_and_queue(self, call: CallState) -> bool:
        """Count a call whose gates were all asked, and put it in order with the others.

        Returns:
            Whether its body should run.
        """
        if call.pending is not None or call.follows:
            self._park(call)
            return False
        if call.outcome is None:
            call.pipeline.ask_count(call)
        if call.outcome is not None:
            self._settle(call)
            return False
        call.turn.count(call.known_tool)
        # A call that is cancelled before its body starts is uncounted.
        call.is_counted = True
        if call.known_tool.may_write:
            # Here and not when the body starts: a read further down the reply must not be answered
            # with the result of a read that this write overtakes.
            call.turn.deduplication.expect_write(call)
        if len(self._calls) > 1:
            self._queue(call)
        return True

    def _park(self, call: CallState) -> None:
        """Park the call until the user answers; it is denied if another with its id is parked."""
        pending, call.pending = call.pending, None
        if self._state.waiting(call.call_id) is not None:
            call.follows = ""
            call.pipeline.deny_id(call, "belongs to a call that waits for an answer")
            self._settle(call)
        elif pending is None:
            self._state.followers.append(call)
        else:
            self._state.park(call, pending)

    def _queue(self, call: CallState) -> None:
        """Order the call among the others of the reply."""
        tool, alone = call.known_tool, not self._state.parallel
        # Without parallelism, every call counts as a write to everything: no separate path.
        claim = Claim(tool.may_write or alone, None if alone else call.resources)
        self._claims[call] = claim
        self._locks.enter(claim)
        if len(self._calls) > TOLD_AT and not tool.may_write and not tool.repeatable:
            call.is_equal_of = True
            first = self._firsts.setdefault(call.digest, call)
            if first is not call:
                equals = self._equals.setdefault(call.digest, [first])
                if len(equals) >= TOLD_AT:
                    # The last one has itself waited for those before it.
                    self._before[call] = (*equals[:TOLD_AT], equals[-1])
                equals.append(call)
        if tool.effect is None:
            self._state.warn(
                "undeclared_effect",
                f"{tool.name} declares no effect, so it ran alone; if it only reads, say so: "
                'effect="read"',
                once=f"undeclared_effect {tool.name}",
            )

    async def _drive_all(self, waiting: list[CallState]) -> None:
        for number, call in enumerate(waiting, 1):
            self._tasks[call] = asyncio.create_task(self._drive(call))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        if self._tasks:
            # Only a log that refuses events raises here; the other bodies must stop then.
            await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        for task in self._tasks.values():
            error = None if not task.done() or task.cancelled() else task.exception()
            if error is not None:
                raise error

    async def _drive_here(self, call: CallState) -> None:
        """Run a single call in the caller's own task.

        Most replies contain one call, and a task for it cost an eighth of the CPU time of a step.

        Raises:
            asyncio.CancelledError: The caller was cancelled, and not only the batch.
        """
        self._caller = task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks = {call: task}
        # The caller may have been cancelled before; only a new cancel counts.
        before = task.cancelling()
        try:
            await self._drive(call)
        finally:
            self._tasks, self._caller = {}, None
        if self._is_cancelled_alone:
            # If the task cancelled itself, the cancellation may be pending and would surface at the
            # caller's next await.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            task.uncancel()
        if task.cancelling() > before:
            raise asyncio.CancelledError

    async def _drive(self, call: CallState) -> None:
        # From here on the call is independent: whatever it waits for, the others continue.
        try:
            if call.outcome is not None:
                may_work = self._state.earlier_may_work
                if may_work and isinstance(call.outcome, ToolFailure):
                    call.outcome = msgspec.structs.replace(call.outcome, stopped=False)
                call.outcome = await verify_effect(
                    self._state, call, call.outcome, is_abandoned=may_work
                )
                self._settle(call)
            elif call.wait is None:
                await self._run(call)
            else:
                await call.pipeline.wait(call)
                if self._count_and_queue(call):
                    await self._run(call)
            # A call that ended well is not needed again, and a reply may have thousands.
            self._tasks.pop(call, None)
        except asyncio.CancelledError:
            # However it is cancelled, every call has an outcome.
            self._settle_cancelled(call)
        finally:
            self._release_claim(call)

    def _release_claim(self, call: CallState) -> None:
        # Popped, so that leaving twice (at the end of the task and in its callback) counts once.
        claim = self._claims.pop(call, None)
        if claim is not None:
            self._locks.leave(claim)

    async def _run(self, call: CallState) -> None:
        held: list[asyncio.Semaphore] = []
        if call in self._before:
            # Before taking a slot, because these calls may need the same one.
            tasks = [self._tasks[one] for one in self._before[call] if one in self._tasks]
            if tasks:
                await asyncio.wait(tasks, timeout=call.turn.remaining_s())
        claim, slots = self._claims.get(call), self._state.slots_of(call)
        if slots or (claim is not None and claim.free is not None):
            await self._wait_for_room(call, claim, slots, held)
        try:
            call.pipeline.ask_start(call)
            if call.outcome is None:
                if call.is_deduplicated:
                    call.turn.deduplication.begin(call)
                try:
                    outcome = await run_call(self._state, call)
                except CallWaits as error:
                    call.waits, self._state.agents[call.call_id] = error.pending, call
                    return
                # Settled already if a cancelled batch could not wait for it.
                if call.record is None:
                    call.outcome = outcome
                if call.run_started is None:
                    # Its effect belongs to another call.
                    call.turn.count(call.known_tool, by=-1)
            else:
                # Denied at its start, the call did not run, so it is uncounted.
                call.turn.count(call.known_tool, by=-1)
            self._settle(call)
        finally:
            for slot in held:
                slot.release()

    async def _wait_for_room(
        self,
        call: CallState,
        claim: Claim | None,
        slots: Sequence[asyncio.Semaphore],
        held: list[asyncio.Semaphore],
    ) -> None:
        """Wait until the body may run or its time is up; acquired slots are added to *held*."""
        try:
            async with asyncio.timeout(call.turn.remaining_s()):
                if claim is not None:
                    await self._locks.wait(claim)
                for slot in slots:
                    await slot.acquire()
                    held.append(slot)
        except BaseException as error:
            for slot in held:
                slot.release()
            held.clear()
            if not isinstance(error, TimeoutError):
                raise
            # The gate on time is asked next and denies it.
            call.is_late = True

    # -- after the outcome

    def _settle(self, call: CallState) -> None:
        """Apply the consequences of an outcome and emit it, once."""
        outcome = call.outcome
        if outcome is None or call.record is not None:
            return
        state, turn, tool = self._state, call.turn, call.tool
        # The consequences come before the event, because its reader may dispatch again at once.
        if isinstance(outcome, ToolDenied) or tool is None or outcome.repeats is not None:
            turn.denials += is_counted_denial(outcome)
            call.release()
        else:
            if call.is_deduplicated or tool.may_write:
                turn.deduplication.record(call, outcome, may_write=tool.may_write)
            if tool.circuit is not None:
                turn.rate_limiter.note(tool, outcome)
            if outcome_blocks_tool(outcome):
                turn.block(tool, call.digest, outcome)
        asked = state.asked.get(call.call_id)
        if asked is not None and asked.tool_name == call.tool_name and not call.is_id_taken:
            del state.asked[call.call_id]
        if call.approval is not None:
            version = "" if tool is None else tool.version
            turn.remember(call.approval, tool_name=call.tool_name, tool_version=version)
        call.outcome = outcome = state.mask(outcome)
        # A call that was denied before its arguments were read has no digest.
        if tool is not None and call.digest:
            turn.loop_detector.count(outcome, key=call.digest, tool=tool, reply=self._counted)
        call.record = record = state.record_of(call)
        state.learn(record, tool)
        if tool is not None and tool.is_guarded:
            turn.equal_calls.settle(call, record)
        state.emit(ToolSettled(record=record))

    def _settle_cancelled(self, call: CallState, *, ended: bool = True) -> None:
        if call.record is not None:
            return
        if call.outcome is not None:
            # It was being verified; the outcome so far stays.
            self._settle(call)
            return
        if call.run_started is None:
            if call.is_counted:
                call.turn.count(call.known_tool, by=-1)
            call.pipeline.deny_cancelled(call)
        else:
            elapsed = self._state.clock.monotonic() - call.run_started
            call.outcome = conclude(
                call,
                Stopped(cancelled=True, ended=ended),
                elapsed_ms=round(elapsed * 1000),
                timeout_s=elapsed,
                deadline_s=self._state.clock.now().timestamp(),
            )
        self._settle(call)

    def _settle_open(self, *, parked: bool) -> None:
        """Settle calls that were cancelled before they could settle themselves.

        Args:
            parked: Whether calls that wait for the user are given up too.
        """
        for call in self._calls:
            if call.record is not None:
                continue
            if call.wait is not None:
                call.wait.cancel()
                call.wait = None
            waits = call.pending is not None or bool(call.follows or call.waits)
            if waits and not (parked and self._state.stop_waiting(call)):
                continue
            # An agent that waits works no more.
            self._settle_cancelled(call, ended=bool(call.waits))

    async def _finish(self) -> None:
        """Cancel all bodies and wait for them, at most for the grace, whatever happens."""
        loop = asyncio.get_running_loop()
        until = loop.time() + GRACE_S
        self.cancel()
        left = {task for task in self._tasks.values() if not task.done()}
        while left and (delay := until - loop.time()) > 0:
            try:
                _, left = await asyncio.wait(left, timeout=delay)
            except asyncio.CancelledError:
                # The caller is being cancelled already, and will raise that.
                continue
