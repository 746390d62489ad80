"""LiveRun: a run in progress that a caller can watch, interrupt and await."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self

from upshot.contract.base.enums import InterruptCause
from upshot.contract.base.structs import RunEvent, path_of
from upshot.contract.events import Event, Lagged, ReleaseReason, RunSettled, ToolProgress
from upshot.contract.model_calls import (
    ModelReplied,
    ModelRetried,
    ModelStarted,
    PartDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Interrupt
from upshot.errors import Misuse
from upshot.runs.partial_output import PartialOutput
from upshot.runs.recorder import listeners_of
from upshot.runs.release import release
from upshot.runs.session import Session
from upshot.runs.task_supervisor import CALLER_GRACE_S, GRACE_S, Stopping
from upshot.runs.waits import Parking

if TYPE_CHECKING:
    from typing import TypeVar


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")

MAX_WAITING_DELTAS = 10_000
_PIECES = (TextDelta, ReasoningDelta, ToolCallDelta, PartDelta, ToolProgress)


class LiveRun(Generic[T]):
    """A run in progress: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end. Events are queued for their
    reader. Durable events are always kept; deltas beyond ``MAX_WAITING_DELTAS`` are dropped and
    counted in one ``Lagged`` event.

    Args:
        session: The session to run.
        watch: Whether events are queued for a reader.
        is_guest: Whether another task runs the session. Then only new events are queued, and
            leaving the block does not end the run.
    """

    def __init__(self, session: Session, *, watch: bool = True, is_guest: bool = False) -> None:
        self._session = session
        self._is_guest = is_guest
        self._waiting: deque[Event] = deque()
        self._deltas = 0
        self._missed = 0
        self._is_waited_for = False
        self._last_missed: RunEvent | None = None
        self._wake: asyncio.Event | None = asyncio.Event() if watch else None
        self._answer = PartialOutput(session.plan.output)
        if not is_guest:
            for listener in listeners_of(session.plan):
                session.context.recorder.listen(listener)
        if watch:
            session.context.recorder.watch(self._enqueue, inside=True)
        lives = session.wait_for_result() if is_guest else session.run()
        self._task = asyncio.get_running_loop().create_task(lives)
        self._task.add_done_callback(lambda _: self._wake and self._wake.set())

    def __repr__(self) -> str:
        """Return the run id, and the status or "under way"."""
        task = self._task
        has_result = task.done() and not task.cancelled() and task.exception() is None
        return f"LiveRun({self.run_id}, {task.result().status if has_result else 'under way'})"

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._session.plan.run_id

    @property
    def done(self) -> bool:
        """Whether the result is available."""
        return self._task.done()

    async def result(self) -> AgentResult[T]:
        """Wait for the result. A timeout around this call stops only the waiting.

        Returns:
            The result, also after the caller cancelled the run: then its status is canceled.
        """
        return await asyncio.shield(self._task)

    def interrupt(self, cause: str = InterruptCause.USER_CANCEL, detail: str = "") -> None:
        """Ask the run to stop at its next safe point; it ends as interrupted.

        Work under way has 2 s to get there. A call or a step that has started and may write has
        ``write_grace_s`` (10 s unless the run sets another value), so that its outcome is known;
        ``stopping`` says how much is left. After that the run is cancelled.

        May be called from any thread and from a signal handler, like ``cancel``.

        Args:
            cause: Why: a value of ``InterruptCause`` or a text of your choice.
            detail: More about it, for people.

        Raises:
            Misuse: The cause is not a string.
        """
        if not isinstance(cause, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"the cause of an interrupt must be a text, got {type(cause).__name__}")
        request = Interrupt(cause, detail)
        self._call_in_loop(lambda: None if self._task.done() else self._session.interrupt(request))

    def cancel_call(self, call_id: str) -> bool:
        """End one tool call. Its outcome is a failure ``cancelled``, and the run continues.

        May be called from any thread and from a signal handler, like ``cancel``.

        Returns:
            Whether such a call was under way. From another thread, it is ended soon afterwards
            unless it has finished by then.
        """
        tools = self._session.context.toolbox
        if tools is None or not tools.has_call(call_id):
            return False
        self._call_in_loop(lambda: tools.cancel_call(call_id))
        return True

    @property
    def stopping(self) -> Stopping | None:
        """How long the run has left to reach a safe point, None if it was not asked to stop."""
        return None if self._task.done() else self._session.context.supervisor.stopping

    def cancel(self) -> None:
        """Stop the run at once; it ends as canceled."""
        self._call_in_loop(lambda: self._session.context.supervisor.end("cancel"))

    def release(
        self, reason: ReleaseReason, *, grace_s: float = 0.0, at: datetime | None = None
    ) -> None:
        """Leave the run to another session, as a worker does when it stops; see ``RunReleased``.

        Args:
            reason: Why.
            grace_s: Seconds that steps in progress may take to finish.
            at: The earliest time to resume the run, timezone-aware; None means at once.
        """
        self._call_in_loop(lambda: release(self._session, reason, grace_s=grace_s, at=at))

    def park_waits(self, over_s: float) -> None:
        """Leave the run while all of it waits longer than *over_s* seconds.

        For workers, which keep nothing in memory for a waiting run. Only waits before a retry of
        model calls, nodes and states count.
        """
        leave = partial(release, self._session, "due")
        self._session.context.supervisor.parking = Parking(over_s, leave)

    def _call_in_loop(self, word: Callable[[], object]) -> None:
        """Call *word* in the event loop of the run: at once if here, soon if in another thread."""
        loop = self._task.get_loop()
        try:
            is_there = asyncio.get_running_loop() is loop
        except RuntimeError:
            # This thread has no loop, such as the thread of a sync tool.
            is_there = False
        if is_there:
            word()
        if not self._task.done():
            # If the loop has closed, nothing is under way.
            with suppress(RuntimeError):
                # A signal handler runs in the loop's thread but does not wake the loop.
                loop.call_soon_threadsafe(_wake_up if is_there else word)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the run if it is under way, and wait until it has ended; a guest only leaves."""
        if self._is_guest:
            self._session.context.recorder.unwatch(self._enqueue)
            self._task.cancel()
        elif not self._task.done():
            quietly = self._stopping_quietly()
            self._session.context.supervisor.end("cancel" if quietly else "caller")
            await conclude(self._task, within_s=3 * GRACE_S if quietly else CALLER_GRACE_S)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def text(self) -> AsyncIterator[str]:
        """Yield the visible text piece by piece, as it arrives.

        A reply that the model returns whole is one piece. Between two replies with text, and where
        agents that run in parallel take turns, comes a piece that completes a blank line. Text of
        child runs is included only if they speak for the run, as agents in a graph do; agents that
        are called as tools do not. An answer that was not streamed comes at the end.

        If a reply breaks off and is retried, or a guardrail refuses it, a ``VoidText`` voids it.
        """
        async for piece in text_of(self._events()):
            yield piece

    def partial(self) -> T | None:
        """Return the answer so far, as an object of the agent's ``output_type``.

        It is the largest prefix of the answer that is valid for the type: an element that is still
        incomplete is left out if the type refuses it as it is. So a field that the type requires
        must have started before there is any value, and fields with defaults appear one by one. A
        type's own validators run at each call, and what they refuse is left out too. For a JSON
        Schema it is the JSON so far, not validated; without a type, the text so far.

        It is about the last reply of the run's own model, as far as it was received, and may be
        ahead of the events that a reader got. A reply that broke off or was not accepted, and a
        reply with tool calls, are ignored.

        Returns:
            The value; None before anything is known. Only the result of the run is the answer.
        """
        return self._answer.value()

    async def _events(self) -> AsyncIterator[Event]:
        if self._wake is None:
            raise Misuse("this run keeps no events: use start(...) to watch one")
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                if isinstance(event, _PIECES):
                    self._deltas -= 1
                yield event
                if isinstance(event, RunSettled) and not path_of(event):
                    return
            if self._task.done():
                return
            # No await since the queue was found empty, so no event is missed.
            self._wake.clear()
            # Two readers would each get a part of the events, without noticing.
            if self._is_waited_for:
                raise Misuse(
                    "the events of this run are already being read, and each goes to one reader: "
                    "read them once and pass them on"
                )
            self._is_waited_for = True
            try:
                await self._wake.wait()
            finally:
                self._is_waited_for = False

    def _enqueue(self, event: Event) -> None:
        """Queue *event* for the reader; never raises and never waits."""
        self._answer.add(event)
        if isinstance(event, _PIECES):
            if self._deltas >= MAX_WAITING_DELTAS:
                # Drop deltas so that a slow reader does not fill the memory. Durable events are
                # never dropped.
                self._missed += 1
                self._last_missed = event
                return
            self._deltas += 1
        if self._last_missed is not None:
            # In place of the dropped events, before the event that fits again.
            self._waiting.append(_lagged_event(self._last_missed, self._missed))
            self._missed, self._last_missed = 0, None
        self._waiting.append(event)
        if self._wake is not None:
            self._wake.set()

    @staticmethod
    def _stopping_quietly() -> bool:
        task = asyncio.current_task()
        return task is None or not task.cancelling()

    async def finish(self) -> AgentResult[T]:
        """Wait for the result. Cancelling the waiting task cancels the run and is re-raised.

        Before it is re-raised the run is concluded, so that its log and observers get its end. For
        a guest, cancelling ends only the waiting.
        """
        if self._is_guest:
            return await self._task
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            self._session.context.supervisor.end("caller")
            await conclude(self._task, within_s=CALLER_GRACE_S)
            raise


async def text_of(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    """Yield the visible text of *events*; see ``LiveRun.text``."""
    spoken = _TextSelector()
    async for event in events:
        for piece in spoken.pieces(event):
            yield piece


async def conclude(task: asyncio.Task[Any], *, within_s: float) -> None:
    """Wait until *task* is done, even if this task is cancelled.

    Such a cancellation is raised at the end.

    Args:
        task: A run that is ending.
        within_s: Seconds until *task* is abandoned; just before that, it is cancelled.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    cancelled = False
    # Twice: just before the end the run's task is cancelled, and then awaited once more.
    for until in (end - 0.02 * within_s, end):
        while not task.done() and (left_s := until - loop.time()) > 0:
            try:
                await asyncio.wait({task}, timeout=left_s)
            except asyncio.CancelledError:
                cancelled = True
        if not task.done():
            task.cancel()
    if cancelled:
        raise asyncio.CancelledError


class VoidText(str):
    """A piece of ``live.text()`` that voids the end of the text before it.

    The reply broke off and is retried. The piece itself completes a blank line, which separates
    the two replies on displays that cannot remove text.

    Attributes:
        voids: How many characters are void, counted back from this piece.
    """

    voids: int = 0


class _TextSelector:
    """Selects the visible text from the events of a run and its child runs."""

    def __init__(self) -> None:
        # Runs whose own engine has called a model.
        self._askers: set[str] = set()
        # Runs whose current model call has produced text.
        self._streaming: set[str] = set()
        # The run that spoke last, its current reply so far, and the end of the whole text.
        self._speaker, self._reply, self._end = "", "", ""

    def pieces(self, event: Event) -> Iterator[str]:
        """Yield the text that *event* adds."""
        if isinstance(event, RunEvent) and _is_void(event) and event.run_id in self._streaming:
            yield from self._void_reply(event.run_id)
            return
        text = self._text_of(event)
        if not text or not isinstance(event, RunEvent):
            return
        goes_on = event.run_id in self._streaming and event.run_id == self._speaker
        if not goes_on and self._end and (rest := _missing_line_breaks(self._end)):
            yield rest
        self._streaming.add(event.run_id)
        self._reply = self._reply + text if goes_on else text
        self._speaker, self._end = event.run_id, (self._end + text)[-2:]
        yield text

    def _void_reply(self, run_id: str) -> Iterator[str]:
        """Void the current reply, unless another agent has spoken since."""
        self._streaming.discard(run_id)
        if run_id == self._speaker:
            void = VoidText(_missing_line_breaks(self._end))
            void.voids = len(self._reply)
            self._reply, self._end = "", "\n\n"
            yield void

    def _text_of(self, event: Event) -> str | None:
        if not self._askers.isdisjoint(path_of(event)):
            return None
        match event:
            case TextDelta(text=text):
                return text
            case ModelStarted(purpose=""):
                self._askers.add(event.run_id)
                self._streaming.discard(event.run_id)
            case ModelReplied(response=response, purpose="") if event.run_id not in self._streaming:
                return response.content
            case RunSettled(result=result) if not event.path:
                self._streaming.clear()
                is_said = event.run_id in self._askers and self._end
                return None if is_said or result.content == self._reply else result.content
            case _:
                pass
        return None


def _is_void(event: RunEvent) -> bool:
    """Whether the text of the run's last reply does not count."""
    if type(event) is RunSettled:
        error = event.result.error
        return error is not None and bool(error.guardrail)
    return type(event) is ModelRetried


def _missing_line_breaks(end: str) -> str:
    """Return the line breaks that are missing after *end* for a blank line."""
    return "\n" * (2 - len(end) + len(end.rstrip("\n")))


def _wake_up() -> None:
    """Do nothing. Scheduling this wakes the event loop."""


def _lagged_event(last: RunEvent, missed: int) -> Lagged:
    """Return the event that reports dropped events, in the place of the last of them."""
    return Lagged(
        run_id=last.run_id,
        attempt=last.attempt,
        time=last.time,
        seq=last.seq,
        part=last.part,
        path=last.path,
        missed=missed,
    )
