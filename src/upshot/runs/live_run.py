"""LiveRun: a run in flight, to be watched, interrupted and awaited."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from upshot.contract.base.enums import InterruptCause
from upshot.contract.base.structs import RunEvent, path_of
from upshot.contract.events import Event, Lagged, ReleaseReason, RunSettled, ToolProgress
from upshot.contract.model_calls import (
    ModelReplied,
    ModelRetried,
    ModelStarted,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Interrupt
from upshot.errors import Misuse
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
_PIECES = (TextDelta, ReasoningDelta, ToolCallDelta, ToolProgress)


class LiveRun(Generic[T]):
    """A run in flight: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end. Events wait for their
    reader: durable ones always; of more than ``MAX_WAITING_DELTAS`` deltas the rest is
    left out and told by one ``Lagged`` event.

    Args:
        session: What shall be lived.
        watch: Whether events are kept for a reader.
        is_guest: Whether somebody else lives the session. Then events are those from now on, and
            leaving the block leaves the run alone.
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
        if not is_guest:
            for listener in listeners_of(session.plan):
                session.context.recorder.listen(listener)
        if watch:
            session.context.recorder.watch(self._take, inside=True)
        lives = session.ended() if is_guest else session.live()
        self._task = asyncio.get_running_loop().create_task(lives)
        self._task.add_done_callback(lambda _: self._wake and self._wake.set())

    def __repr__(self) -> str:
        """Its run, and how that ended."""
        task = self._task
        has_result = task.done() and not task.cancelled() and task.exception() is None
        return f"LiveRun({self.run_id}, {task.result().status if has_result else 'under way'})"

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._session.plan.run_id

    @property
    def done(self) -> bool:
        """Whether the result is there."""
        return self._task.done()

    async def result(self) -> AgentResult[T]:
        """Wait for the result; a timeout round this call stops only the waiting.

        Returns:
            What came of the run. After a cancellation by the caller too: status canceled.
        """
        return await asyncio.shield(self._task)

    def interrupt(self, cause: str = InterruptCause.USER_CANCEL, detail: str = "") -> None:
        """Wish that the run stop at its next safe point; it ends as interrupted.

        What is under way has 2 s to get there. A call or a step that may write and has begun has
        ``write_grace_s`` (10 s unless the run was given another), so that its end is known;
        ``stopping`` tells what is left. Then the run is cancelled.

        May be called in any thread and in a handler of a signal, as ``cancel`` may.

        Args:
            cause: Whose wish it is: a word of ``InterruptCause`` or one of your own.
            detail: More of it, for people.

        Raises:
            Misuse: The cause is no text.
        """
        if not isinstance(cause, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"the cause of an interrupt must be a text, got {type(cause).__name__}")
        wish = Interrupt(cause, detail)
        self._tell(lambda: None if self._task.done() else self._session.interrupt(wish))

    def cancel_call(self, call_id: str) -> bool:
        """End one tool call; the run goes on with a failure ``cancelled`` as its outcome.

        May be called in any thread and in a handler of a signal, as ``cancel`` may.

        Returns:
            Whether such a call was under way. From another thread it is ended soon after, if it
            has not come to its own end by then.
        """
        tools = self._session.context.toolbox
        if tools is None or not tools.has_call(call_id):
            return False
        self._tell(lambda: tools.cancel_call(call_id))
        return True

    @property
    def stopping(self) -> Stopping | None:
        """How long the run has left to come to a safe point, None if it was not asked to stop."""
        return None if self._task.done() else self._session.context.supervisor.stopping

    def cancel(self) -> None:
        """Stop the run at once; it ends as canceled."""
        self._tell(lambda: self._session.context.supervisor.end("cancel"))

    def release(
        self, reason: ReleaseReason, *, grace_s: float = 0.0, at: datetime | None = None
    ) -> None:
        """Leave the run to another session, as a worker does that ends; see ``RunReleased``.

        Args:
            reason: Why.
            grace_s: So long steps in hand may end by themselves, in seconds.
            at: From when on the run may be taken up, timezone-aware; None is at once.
        """
        self._tell(lambda: release(self._session, reason, grace_s=grace_s, at=at))

    def park_waits(self, over_s: float) -> None:
        """Leave the run where nothing of it is under way but waits of more than *over_s* seconds.

        A worker does that, which keeps nothing for a run that waits. Waits are those before model
        calls, nodes and states are tried again.
        """
        leave = partial(release, self._session, "due")
        self._session.context.supervisor.parking = Parking(over_s, leave)

    def _tell(self, word: Callable[[], object]) -> None:
        """Say *word* in the loop of the run: at once there, soon from another thread."""
        loop = self._task.get_loop()
        try:
            is_there = asyncio.get_running_loop() is loop
        except RuntimeError:
            # A thread without a loop, such as that of a plain tool.
            is_there = False
        if is_there:
            word()
        if not self._task.done():
            # A loop that is closed meanwhile has nothing under way any more.
            with suppress(RuntimeError):
                # The handler of a signal is in its thread too, and does not wake it either.
                loop.call_soon_threadsafe(_wake_up if is_there else word)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel the run if it is under way, and wait until it has ended; a guest only leaves."""
        if self._is_guest:
            self._session.context.recorder.unwatch(self._take)
            self._task.cancel()
        elif not self._task.done():
            quietly = self._stopping_quietly()
            self._session.context.supervisor.end("cancel" if quietly else "caller")
            await conclude(self._task, within_s=3 * GRACE_S if quietly else CALLER_GRACE_S)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def text(self) -> AsyncIterator[str]:
        """The visible text as it comes, piece by piece.

        A reply that a model gives whole is one piece. Between two replies that say something, and
        where agents that work side by side take turns, comes a blank line as a piece of its own,
        less the line breaks that the first one ends with. Of child runs there is the text of those
        that stand for the run, as agents in a graph do: a run that asks a model itself is not
        spoken for by the agents that its tools run. An answer that nobody said comes at the end.

        A reply that breaks off and is asked for again is taken back by a ``VoidText``.
        """
        async for piece in text_of(self._events()):
            yield piece

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
            # No await since the queue was found empty, so this hides no event.
            self._wake.clear()
            # Two readers would each get a part of the events, and neither would notice.
            if self._is_waited_for:
                raise Misuse(
                    "the events of this run are being read already, and each goes to one reader: "
                    "read them once and hand them on"
                )
            self._is_waited_for = True
            try:
                await self._wake.wait()
            finally:
                self._is_waited_for = False

    def _take(self, event: Event) -> None:
        """Keep *event* for the reader; never raises and never waits."""
        if isinstance(event, _PIECES):
            if self._deltas >= MAX_WAITING_DELTAS:
                # Deltas may be dropped, and durable events never: a slow reader must not fill the
                # memory.
                self._missed += 1
                self._last_missed = event
                return
            self._deltas += 1
        if self._last_missed is not None:
            # In the place of what was dropped, before the event that fits again.
            self._waiting.append(_lagged(self._last_missed, self._missed))
            self._missed, self._last_missed = 0, None
        self._waiting.append(event)
        if self._wake is not None:
            self._wake.set()

    @staticmethod
    def _stopping_quietly() -> bool:
        task = asyncio.current_task()
        return task is None or not task.cancelling()

    async def finish(self) -> AgentResult[T]:
        """Wait for the result; a cancel of the waiting task cancels the run, and is re-raised.

        The run is finalised first, so that its log and its observers learn of its end. A guest's
        cancel ends the waiting only.
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
    """The visible text of *events*, as ``LiveRun.text`` says."""
    spoken = _Spoken()
    async for event in events:
        for piece in spoken.pieces(event):
            yield piece


async def conclude(task: asyncio.Task[Any], *, within_s: float) -> None:
    """Wait until *task* is done, whoever cancels meanwhile.

    A cancel that comes meanwhile is remembered and raised at the end.

    Args:
        task: A run that is ending.
        within_s: Seconds after which it is left behind; just before, it is cancelled itself.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    cancelled = False
    # Twice: the run's task is cancelled just before the end, and then waited for once more.
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

    The reply broke off and is asked for again. The piece itself is the blank line that sets the two
    apart where the text cannot be taken back.

    Attributes:
        voids: How many characters are void, counted back from this piece.
    """

    voids: int = 0


class _Spoken:
    """Tells what of a run and its child runs is its visible text."""

    def __init__(self) -> None:
        # Runs whose engine has asked a model itself.
        self._askers: set[str] = set()
        # Runs whose model call under way has said something.
        self._streaming: set[str] = set()
        # Who spoke last, what that reply was so far, and how it all ends that was said.
        self._speaker, self._reply, self._end = "", "", ""

    def pieces(self, event: Event) -> Iterator[str]:
        """What *event* adds to the text."""
        if type(event) is ModelRetried and event.run_id in self._streaming:
            yield from self._void(event.run_id)
            return
        text = self._text_of(event)
        if not text or not isinstance(event, RunEvent):
            return
        goes_on = event.run_id in self._streaming and event.run_id == self._speaker
        if not goes_on and self._end and (rest := _up_to_blank_line(self._end)):
            yield rest
        self._streaming.add(event.run_id)
        self._reply = self._reply + text if goes_on else text
        self._speaker, self._end = event.run_id, (self._end + text)[-2:]
        yield text

    def _void(self, run_id: str) -> Iterator[str]:
        """Take back the reply under way, unless another agent has spoken since."""
        self._streaming.discard(run_id)
        if run_id == self._speaker:
            void = VoidText(_up_to_blank_line(self._end))
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


def _up_to_blank_line(end: str) -> str:
    """The line breaks that are wanting between what ends so and what comes next."""
    return "\n" * (2 - len(end) + len(end.rstrip("\n")))


def _wake_up() -> None:
    """Have a loop that waits look at what there is to do."""


def _lagged(last: RunEvent, missed: int) -> Lagged:
    """The word of what was left out, in the place of the last of it."""
    return Lagged(
        run_id=last.run_id,
        attempt=last.attempt,
        time=last.time,
        seq=last.seq,
        part=last.part,
        path=last.path,
        missed=missed,
    )
