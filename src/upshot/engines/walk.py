"""What a walk through a graph or machine needs: its log, its limits, retries and gathering.

The log has what a node or state changed as the value of its step. The run's own board follows when
branches have joined. A resumed run walks again from the start; settled steps return their changes
and do not run again, and messages that are already on the board are not added twice.
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
    """Run all of *works* at the same time.

    A failure cancels the others. A parked one does not: the others run to their end, so that
    everything the run waits for is known at once.

    Args:
        works: The coroutines to run.
        at_once: The maximum number that run at the same time, None for all.

    Returns:
        Their return values, in the order given.

    Raises:
        Parked: Nothing failed, and some wait for the user.
        Exception: The exception of the first failed one, in the order given.
    """
    if len(works) == 1:
        # A single one needs no task.
        return [await works[0]]
    gate = None if at_once is None else asyncio.Semaphore(at_once)
    tasks = [asyncio.ensure_future(_with_semaphore(gate, work)) for work in works]
    try:
        await _until_settled(tasks)
    finally:
        for task in tasks:
            task.cancel()
        # Also when this is cancelled: leave no task behind.
        await asyncio.gather(*tasks, return_exceptions=True)
        for work in works:
            # One that was cancelled before its start would be reported as never awaited.
            work.close()
    return _results_of(tasks)


async def _with_semaphore(gate: asyncio.Semaphore | None, work: Coroutine[Any, Any, T]) -> T:
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

    # Not asyncio.wait, which checks all remaining tasks each time that one is done.
    for task in tasks:
        task.add_done_callback(count)
    await settled


def _results_of(tasks: Sequence[asyncio.Task[T]]) -> list[T]:
    # Failures come before tasks that were cancelled because of them.
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
    """Return why *task* failed, None if it did not or is parked."""
    if task.cancelled():
        return asyncio.CancelledError()
    error = task.exception()
    return None if isinstance(error, Parked) else error


class QuestionOrder:
    """Asks questions in the order in which they first came.

    Args:
        host: Asks the user, and keeps the order in the log.
        key: The prefix of the keys of its steps.

    Attributes:
        has_changed: Whether the graph has changed since, so that a question may never come again.
    """

    def __init__(self, host: RunHost, key: str) -> None:
        self.has_changed: bool = False
        self._host = host
        self._key = key
        self._order: list[Json] = []
        self._passed = 0
        self._moved = asyncio.Event()

    async def ask(self, asker: str, question: str, choices: tuple[str, ...]) -> Json:
        """Ask the user, after all questions that first came earlier.

        Args:
            asker: Unique in the run, and the same in every session.
            question: The question.
            choices: The allowed answers, empty for any.

        Returns:
            The answer.

        Raises:
            Parked: The user cannot answer now.
            Failed: The graph has changed, and earlier questions have not come yet, so their answers
                would be taken for the answer to this one; code dead_end.
        """
        place = await self._place_of(asker)
        while self._passed < place:
            await self._moved.wait()
        self._passed += 1
        # Replace the event first: a task that wakes up too early waits for the next move.
        moved, self._moved = self._moved, asyncio.Event()
        # The host numbers the question before it first waits, so the next one may start now.
        moved.set()
        return await self._host.ask_user(question, choices=choices)

    async def _place_of(self, asker: str) -> int:
        while asker not in self._order:
            place = len(self._order)
            if self.has_changed and place > self._passed:
                self._check_known(f"{self._key}{place + 1}", asker)
            came = await self._host.step(f"{self._key}{place + 1}", Effect.READ, lambda: asker)
            # While this task waited for the log, another may have read the same place.
            if place == len(self._order):
                self._order.append(came)
        return self._order.index(asker)

    def _check_known(self, key: str, asker: str) -> None:
        if not self._host.is_settled(key):
            before = self._order[self._passed]
            message = (
                f"the graph now asks at {asker!r}, and the run expects an answer at {before!r}"
            )
            raise Failed(ErrorCode.DEAD_END, message, details={"node": before})


# Steps that never wait would block timers, cancels and other runs, so yield to the event loop after
# this many of them.
_STEPS_A_TURN = 32
# In the keys of steps that log when a failed node or state is retried.
_TRY = "~failed-"


class Walk:
    """One attempt of an engine to walk through its graph or machine.

    Args:
        run: The run.
        host: Its host.
        board: The run's own board.
        kind: "graph" or "machine"; the prefix of the keys of its steps.

    Attributes:
        run: The run.
        host: Its host.
        key: The prefix of all keys of its steps.
        questions: Keeps questions in the order in which they were first asked.
        start: Where it starts, the same in every session.
        keeps_points: Whether the host takes checkpoints.
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
        # The number of messages that earlier sessions put on each channel of the board.
        self._shown: dict[str, int] = {}
        self._messages: list[Added] = []
        self._variables: JsonObject = {}
        self._steps = 0

    async def begin(self, start: str, digest: str) -> Board:
        """Return the board as it was before any node ran, the same in every session.

        Args:
            start: Where to start. The log overrides it, because finished steps started from there.
            digest: The digest of the graph or machine; warns if it has changed since.
        """
        now = self._board.snapshot()
        point = self.run.resume_from if self.run.attempt == 1 else None
        counts = {channel: len(messages) for channel, messages in now.channels.items()}
        # Logged as a step, because the board of a resumed run has more than the walk started with.
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
        """Add changes that must be on the run's board before the next step starts."""
        for change in story:
            self._messages += change.messages
            self._variables.update(change.variables)

    def flush(self) -> None:
        """Put committed changes on the run's board."""
        for channel, messages in self._messages:
            # A resumed walk produces the same messages in the same order, so the first ones are
            # on the board already.
            shown = min(self._shown.get(channel, 0), len(messages))
            if shown:
                self._shown[channel] -= shown
            self._board.extend(messages[shown:], channel)
        self._messages.clear()
        if self._variables:
            for name, value in self._variables.items():
                # Setting it again would log a change in every session.
                if not self._board.shows(name, value):
                    self._board.set(name, value)
            self._variables.clear()

    async def name_point(self, step: str, key: str, iteration: int) -> None:
        """Give the host a checkpoint before *step*, if the step has not run yet.

        Args:
            step: The node or state that comes next; nothing else is under way.
            key: Its key in the log.
            iteration: The number of steps before it.
        """
        if not self.host.is_settled(key):
            self.flush()
            await save_point(self.run, self.host, self._board, step=step, iteration=iteration)

    async def stop_if_asked(self) -> None:
        """Raise if the run was asked to stop, before a step.

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
        """Return how many tries of a node or state failed in earlier sessions.

        Waits for the rest of the wait after the last one.

        Args:
            key: The key that ``may_try_again`` logged them under.
            clock: The clock to wait on; None is the run's clock.

        Raises:
            Interrupted: The run was asked to stop during the wait.
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
            tries: The number of failed tries.
            attempts: The maximum number of tries.
            backoff_s: Seconds before the second try; doubled for each one after it.
            key: The key to log the try under, with the end of the wait.
            floor_s: The shortest wait that the provider asks for.
            clock: The clock to wait on; None is the run's clock.

        Returns:
            False, at once, if no try is left or the wait would end after the deadline.

        Raises:
            Interrupted: The run was asked to stop during the wait.
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

    They are counted during the walk and not read from the log. A resumed run walks the same way
    from the start, and so produces the same keys.

    Args:
        walk: The walk that they belong to.
        names: All nodes or states.
        max_steps: The maximum number of visits; None is the run's ``max_turns``, and at least the
            number of names.
        key: The prefix of the keys of its steps.
        word: "node" or "state".
        option: The option that raises the limit.
        prefix: The sub-machines that it is in, for messages.

    Attributes:
        has_points: Whether to save checkpoints between them.
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
        # Only a single node of the outermost graph or machine can be a starting point.
        self.has_points: bool = walk.keeps_points and key == walk.key
        self._counts: dict[str, int] = {}
        self._steps = 0
        most = walk.run.budget.max_turns
        # The budget counts model calls. Passing each node once is no runaway, however many nodes
        # there are.
        self._limit = max(most, len(names)) if max_steps is None and most is not None else max_steps

    async def save_point(self, name: str) -> None:
        """Save a checkpoint before *name*, if nothing else is under way."""
        key = f"{self._key}{name}#{self._counts.get(name, 0) + 1}"
        await self._walk.name_point(name, key, self._steps)

    def enter(self, *names: str) -> list[str]:
        """Count a visit of each of *names*, and return the keys of their steps.

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
        """Check that *name* exists.

        Raises:
            Failed: It does not, because the graph or machine has changed since it was logged.
        """
        if name not in self._names:
            there = ", ".join(self._names)
            message = f"there is no {self._word} {name!r} any more: there are {there}"
            raise Failed(ErrorCode.DEAD_END, message, details={self._word: name})
