"""What a walk through a graph or machine needs: its log, its limits, retries and gathering.

What a node or state changed is in the log as the value of its step. The run's own board follows:
it shows what the branches that met have done. A resumed run walks again from the start; steps that
are settled give back what they changed and are not done again, and what the board shows already is
not put on it twice.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Collection, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from upshot.contract.base.enums import Effect, ErrorCode, Origin
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.events import Warned
from upshot.contract.pending import Pending
from upshot.contract.protocols import Clock
from upshot.contract.run_control import BoardSnapshot
from upshot.contract.settings import Retry
from upshot.engines.graph.branches import Added, BoardCopy, Change
from upshot.engines.loop import keeps_points, save_point
from upshot.runs.engine_api.exceptions import Failed, Interrupted, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.run_context import current_run
from upshot.runs.waits import pause
from upshot.state.board import Board

T = TypeVar("T")


async def together(
    works: Sequence[Coroutine[Any, Any, T]], *, at_once: int | None = None
) -> list[T]:
    """Do all of *works* at the same time.

    A failure cancels the others. One that is parked does not: the others go on to their end,
    so that all that is waited for is known at once.

    Args:
        works: What is done.
        at_once: How many at most at the same time, None for all.

    Returns:
        What came of each, in the order given.

    Raises:
        Parked: Nothing failed, and the user is asked.
        Exception: What the first in order of those that failed raised.
    """
    if len(works) == 1:
        # A task for the only one would gain nothing.
        return [await works[0]]
    gate = None if at_once is None else asyncio.Semaphore(at_once)
    tasks = [asyncio.ensure_future(_within(gate, work)) for work in works]
    try:
        await _until_settled(tasks)
    finally:
        for task in tasks:
            task.cancel()
        # Also when we are cancelled: nothing may be left behind.
        await asyncio.gather(*tasks, return_exceptions=True)
        for work in works:
            # One that was cancelled before its turn would be reported as never awaited.
            work.close()
    return _values(tasks)


async def _within(gate: asyncio.Semaphore | None, work: Coroutine[Any, Any, T]) -> T:
    if gate is None:
        return await work
    async with gate:
        return await work


async def _until_settled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait until all are done, or one has failed."""
    left = len(tasks)
    settled = asyncio.get_running_loop().create_future()

    def count(task: asyncio.Task[Any]) -> None:
        nonlocal left
        left -= 1
        if (not left or _failure(task) is not None) and not settled.done():
            settled.set_result(None)

    # Not asyncio.wait, which looks at all that are left each time that one is done.
    for task in tasks:
        task.add_done_callback(count)
    await settled


def _values(tasks: Sequence[asyncio.Task[T]]) -> list[T]:
    # One that failed by itself comes before those that were cancelled because of it.
    failures = [failure for task in tasks if (failure := _failure(task)) is not None]
    failures.sort(key=lambda failure: isinstance(failure, asyncio.CancelledError))
    if failures:
        raise failures[0]
    pending: list[Pending] = []
    for task in tasks:
        error = task.exception()
        if isinstance(error, Parked):
            pending += error.pending
    if pending:
        raise Parked(*pending)
    return [task.result() for task in tasks]


def _failure(task: asyncio.Task[Any]) -> BaseException | None:
    """Why *task* failed, None where it did not or is parked."""
    if task.cancelled():
        return asyncio.CancelledError()
    error = task.exception()
    return None if isinstance(error, Parked) else error


class QuestionOrder:
    """Lets questions pass in the order in which they first came.

    Args:
        host: Asks the user, and keeps the order in the log.
        key: What the keys of its steps begin with.

    Attributes:
        has_changed: Whether the graph has changed since, so that a question may not come any more.
    """

    def __init__(self, host: RunHost, key: str) -> None:
        self.has_changed: bool = False
        self._host = host
        self._key = key
        self._order: list[Json] = []
        self._passed = 0
        self._moved = asyncio.Event()

    async def ask(self, asker: str, question: str, choices: tuple[str, ...]) -> Json:
        """Ask the user, when all that came before have asked.

        Args:
            asker: Unique in the run, and the same when the run goes on.
            question: What is asked.
            choices: What may be answered, empty for anything.

        Returns:
            The answer.

        Raises:
            Parked: The user cannot answer now.
            Failed: The graph has changed, and questions before this one have not come yet; code
                dead_end. Their answers would be taken for that of this one.
        """
        place = await self._place_of(asker)
        while self._passed < place:
            await self._moved.wait()
        self._passed += 1
        # The new event first: one that wakes up before its turn waits for the next move.
        moved, self._moved = self._moved, asyncio.Event()
        # The host takes its number before it first waits, so the next may come at once.
        moved.set()
        return await self._host.ask_user(question, choices=choices)

    async def _place_of(self, asker: str) -> int:
        while asker not in self._order:
            place = len(self._order)
            if self.has_changed and place > self._passed:
                self._check_known(f"{self._key}{place + 1}", asker)
            came = await self._host.step(f"{self._key}{place + 1}", Effect.READ, lambda: asker)
            # While this one waited for the log, another asker may have read the same place.
            if place == len(self._order):
                self._order.append(came)
        return self._order.index(asker)

    def _check_known(self, key: str, asker: str) -> None:
        if not self._host.is_settled(key):
            before = self._order[self._passed]
            message = (
                f"the graph asks at {asker!r} now, and the run was to be answered at {before!r}"
            )
            raise Failed(ErrorCode.DEAD_END, message, details={"node": before})


# Steps that wait for nothing would keep timers, cancels and other runs waiting: after so many of
# them the event loop gets its turn.
_STEPS_A_TURN = 32
# In the keys of steps that say when a node or state that failed is tried again.
_TRY = "~failed-"


class Walk:
    """One pass of an engine through its graph or machine.

    Args:
        run: The run.
        host: Its host.
        board: The run's own.
        kind: "graph" or "machine"; the keys of its steps begin with it.

    Attributes:
        run: The run.
        host: Its host.
        key: What all keys of its steps begin with.
        questions: Keeps questions in the order in which they were first asked.
        start: Where it begins, also when the run goes on.
        keeps_points: Whether the host keeps checkpoints.
    """

    def __init__(self, run: Run, host: RunHost, board: Board, kind: str) -> None:
        self.run = run
        self.host = host
        self.key: str = f"{kind}-{run.attempt}/"
        self.questions: QuestionOrder = QuestionOrder(host, f"{self.key}question-")
        self.start = ""
        self._kind = kind
        self._board = board
        self.keeps_points: bool = keeps_points(host)
        # How many messages of each channel an earlier session has put on the board.
        self._shown: dict[str, int] = {}
        self._messages: list[Added] = []
        self._variables: JsonObject = {}
        self._steps = 0

    async def begin(self, start: str, digest: str) -> Board:
        """The board as it was before any node ran, also when the run goes on.

        Args:
            start: Where to begin. It may be elsewhere now; what was done was done from there on.
            digest: Of the graph or machine; a warning tells where it has changed since.
        """
        now = self._board.snapshot()
        point = self.run.resume_from if self.run.attempt == 1 else None
        counts = {channel: len(messages) for channel, messages in now.channels.items()}
        # A step, so that it is logged: the board of a resumed run shows more than what the walk
        # began with.
        form = await self.host.step(
            f"{self.key}start",
            Effect.READ,
            lambda: {
                "variables": now.variables,
                "messages": counts,
                "start": start if point is None else point.step,
                "digest": digest,
            },
        )
        first = cast("dict[str, Any]", form)
        self.start: str = str(first.get("start", start))
        if first.get("digest", digest) != digest:
            self.questions.has_changed = True
            message = f"the {self._kind} has changed since the run began"
            code = f"{self._kind}_changed"
            warning = RunWarning(code=code, message=message, origin=Origin.CALLER)
            await self.host.publish(Warned(warning=warning))
        seeds = cast("dict[str, int]", first["messages"])
        self._shown = {channel: count - seeds.get(channel, 0) for channel, count in counts.items()}
        before = BoardSnapshot(
            channels={channel: now.channels[channel][:count] for channel, count in seeds.items()},
            variables=first["variables"],
            seeded=now.seeded,
        )
        return BoardCopy(Board.restore(before), run=self._board)

    def commit(self, story: Sequence[Change]) -> None:
        """Note changes that the run's board is to show before the next step begins."""
        for change in story:
            self._messages += change.messages
            self._variables.update(change.variables)

    def flush(self) -> None:
        """Put on the run's board what it is to show and does not yet."""
        for channel, messages in self._messages:
            # A resumed walk makes the same messages in the same order, so the first ones are
            # there.
            shown = min(self._shown.get(channel, 0), len(messages))
            if shown:
                self._shown[channel] -= shown
            self._board.extend(messages[shown:], channel)
        self._messages.clear()
        if self._variables:
            for name, value in self._variables.items():
                # Set again, it would be logged as a change in every session.
                if not self._board.shows(name, value):
                    self._board.set(name, value)
            self._variables.clear()

    async def name_point(self, step: str, key: str, iteration: int) -> None:
        """Give the host a checkpoint before *step*, if the step is to be done.

        Args:
            step: The node or state that comes next, and is all that comes next.
            key: What it has in the log.
            iteration: How many there were before it.
        """
        if not self.host.is_settled(key):
            self.flush()
            await save_point(self.run, self.host, self._board, step=step, iteration=iteration)

    async def stop_if_asked(self) -> None:
        """Stop before a step where that was asked for.

        Raises:
            Interrupted: It was.
        """
        self._steps += 1
        if self._steps % _STEPS_A_TURN == 0:
            await asyncio.sleep(0)
        stop = await self.host.interrupts()
        if stop:
            raise Interrupted(stop.cause, stop.detail)

    async def tries_before(self, key: str, clock: Clock | None = None) -> int:
        """How many tries of a node or state failed in earlier sessions.

        What is left of the wait after the last one is waited for.

        Args:
            key: What those were logged under by ``may_try_again``.
            clock: Where the wait is measured; None is the run's clock.

        Raises:
            Interrupted: The run was asked to stop meanwhile.
        """
        tries, last = 0, None
        while self.host.is_settled(f"{key}{_TRY}{tries + 1}"):
            tries += 1
            last = await self.host.step(f"{key}{_TRY}{tries}", Effect.READ, lambda: None)
        link = current_run.get()
        if isinstance(last, str) and link is not None:
            left = datetime.fromisoformat(last) - link.context.plan.clock.now()
            if left > timedelta(0):
                await pause(link.context, left.total_seconds(), clock)
                await self.stop_if_asked()
        return tries

    async def may_try_again(
        self,
        tries: int,
        attempts: int,
        backoff_s: float,
        *,
        key: str,
        floor_s: float = 0.0,
        clock: Clock | None = None,
    ) -> bool:
        """Wait before the next try of a node or state.

        Args:
            tries: How many tries have failed.
            attempts: How many there may be.
            backoff_s: Seconds before the second try; doubled for each one after it.
            key: Under which the try is logged, with the end of the wait.
            floor_s: The shortest wait that the provider asks for.
            clock: Where the wait is measured; None is the run's clock.

        Returns:
            False, at once, where no try is left, or the wait would end after the deadline.

        Raises:
            Interrupted: The run was asked to stop meanwhile.
        """
        link = current_run.get()
        if link is None or tries >= attempts:
            return False
        context = link.context
        retry = Retry(base_s=backoff_s, max_wait_s=math.inf)
        wait_s = retry.wait_s(tries, floor_s=floor_s, draw=random.random)
        deadline = context.budget.deadline
        if wait_s is None or (
            deadline is not None and context.plan.clock.monotonic() + wait_s >= deadline
        ):
            return False
        next_at = context.plan.clock.now() + timedelta(seconds=wait_s)
        await self.host.step(f"{key}{_TRY}{tries}", Effect.READ, next_at.isoformat)
        await pause(context, wait_s, clock)
        # A request to stop ends the wait early.
        await self.stop_if_asked()
        return True


class Visits:
    """The visits of the nodes of one graph, or of the states of one machine, and their limit.

    They are counted while walking and not read from the log: a resumed run walks the same way from
    the start, and so finds the same keys.

    Args:
        walk: The pass that they belong to.
        names: All nodes or states.
        max_steps: How many visits there may be; None is the run's ``max_turns``, and never less
            than there are names.
        key: What the keys of its steps begin with.
        word: "node" or "state".
        option: What raises the limit.
        prefix: The sub-machines that it is in, for messages.

    Attributes:
        has_points: Whether checkpoints are to be saved between them.
    """

    def __init__(
        self,
        walk: Walk,
        names: Collection[str],
        max_steps: int | None,
        *,
        key: str,
        word: str,
        option: str,
        prefix: str = "",
    ) -> None:
        self._walk = walk
        self._names = names
        self._key = key
        self._word = word
        self._option = option
        self._prefix = prefix
        # A run can begin again at one node of the outermost graph or machine, and nowhere else.
        self.has_points: bool = walk.keeps_points and key == walk.key
        self._counts: dict[str, int] = {}
        self._steps = 0
        most = walk.run.budget.max_turns
        # The budget counts calls of models. What goes through each node once is no runaway, however
        # many nodes there are.
        self._limit = max(most, len(names)) if max_steps is None and most is not None else max_steps

    async def save_point(self, name: str) -> None:
        """Save a checkpoint before *name*, which is all that comes next."""
        key = f"{self._key}{name}#{self._counts.get(name, 0) + 1}"
        await self._walk.name_point(name, key, self._steps)

    def enter(self, *names: str) -> list[str]:
        """Count a visit of each of *names*, and give the keys of their steps.

        Raises:
            Failed: The limit is reached.
        """
        self._steps += len(names)
        limit = self._limit
        if limit is not None and self._steps > limit:
            raise Failed(
                ErrorCode.MAX_TURNS,
                f"The limit of {limit} steps is reached before the {self._word} "
                f"{self._prefix + names[0]!r}: raise {self._option} or Budget(max_turns=).",
                details={"dimension": "steps", "limit": limit, "used": limit},
            )
        keys: list[str] = []
        for name in names:
            number = self._counts[name] = self._counts.get(name, 0) + 1
            keys.append(f"{self._key}{name}#{number}")
        return keys

    def check_known(self, name: str) -> None:
        """Check that *name* is there.

        Raises:
            Failed: It is not: the log is of a graph or machine that has changed since.
        """
        if name not in self._names:
            there = ", ".join(self._names)
            message = f"there is no {self._word} {name!r} any more: there are {there}"
            raise Failed(ErrorCode.DEAD_END, message, details={self._word: name})
