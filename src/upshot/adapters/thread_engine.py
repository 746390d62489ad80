"""Shared by engines whose library works in threads and gives its tools no call ids.

The agent runs in a thread of its own. Where it calls its model or a tool, that thread waits for the
loop of the run, and runs what the loop hands to it: the native call. So no thread of a pool waits
for another one, and a run that ends stops its agent at the agent's next call.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

from upshot.adapters.agent_engine import AgentWork
from upshot.adapters.engine_calls import EngineCalls, HandedOver, failed_reply
from upshot.contract.base.enums import Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelResponse
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall
from upshot.runs.engine_api.exceptions import Signal
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.resumption import read_arguments
from upshot.state.board import Board

T = TypeVar("T")
# Sends a request, puts the pieces of the reply, and reads the whole one.
PutsPieces: TypeAlias = Callable[[Callable[[StreamItem], None]], ModelResponse]
_END: Final = object()


class Ended(BaseException):
    """The run has ended; a library that swallows exceptions does not swallow this one."""


class Caller:
    """A thread that waits for the loop of the run, and runs what the loop hands to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # What the thread does next; None if its call has settled.
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run(self, function: Callable[[], T]) -> T:
        """Run *function* in the thread, and return what it returns."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(lambda: _settle(self._loop, future, function))
        return await future

    async def iterate(self, function: Callable[[Callable[[T], None]], None]) -> AsyncIterator[T]:
        """Run *function* in the thread, and yield what it puts."""
        items: asyncio.Queue[Any] = asyncio.Queue()

        def put(item: T) -> None:
            self._loop.call_soon_threadsafe(items.put_nowait, item)

        running = asyncio.ensure_future(self.run(lambda: function(put)))
        running.add_done_callback(lambda _: items.put_nowait(_END))
        try:
            while (item := await items.get()) is not _END:
                yield item
            await running
        finally:
            running.cancel()

    def work_until(self, is_settled: asyncio.Future[Any]) -> None:
        """Notify the thread once *is_settled* is done; called in the loop."""
        is_settled.add_done_callback(lambda _: self._jobs.put(None))

    def work(self) -> None:
        """Run what the loop hands over until the call has settled; called in the thread."""
        while (job := self._jobs.get()) is not None:
            job()


class ThreadWork(AgentWork):
    """One call of an agent that works in threads."""

    def __init__(self, run: Run, host: RunHost, board: Board, calls: EngineCalls) -> None:
        super().__init__(run, host, board, calls)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_over = False
        self._unclaimed: list[ToolCall] = []
        self._replies = self._made = 0

    async def run_in_thread(self, function: Callable[[], T]) -> T:
        """Run the library's *function* in a thread of its own.

        If this is cancelled, the thread ends at its next call; what runs in it finishes first.
        """
        done: asyncio.Future[T] = self._loop.create_future()
        context = contextvars.copy_context()
        work = threading.Thread(
            target=lambda: context.run(_settle, self._loop, done, function), daemon=True
        )
        work.start()
        try:
            return await done
        except Ended as ended:
            cause = ended.__cause__
            raise cause if isinstance(cause, Exception) else asyncio.CancelledError from ended
        finally:
            self._is_over = True
            for task in [*self._tasks]:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def wait(self, make: Callable[[Caller], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the coroutine that *make* makes; called in a thread.

        The coroutine runs in the loop of the run, and may run functions in this thread.

        Raises:
            Ended: The run has ended.
            Exception: What the coroutine raised.
        """
        caller, context = Caller(self._loop), contextvars.copy_context()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(self._unless_over(make, caller), context=context)
            tasks.append(task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            caller.work_until(task)

        self._loop.call_soon_threadsafe(start)
        caller.work()
        [task] = tasks
        if task.cancelled():
            raise Ended
        error = task.exception()
        if isinstance(error, Signal | HandedOver):
            raise Ended from error
        return task.result()

    async def _unless_over(
        self, make: Callable[[Caller], Coroutine[Any, Any, T]], caller: Caller
    ) -> T:
        if self._is_over:
            raise asyncio.CancelledError
        return await make(caller)

    def answer(self, text: str) -> None:
        """Add the *text* that the agent returned to the board, unless its last reply has it."""
        if text and text != self._board.answer():
            self._board.append(Message(Role.ASSISTANT, text))

    # Calls

    async def ask_native(
        self,
        caller: Caller,
        name: str,
        request: Any,
        send: Callable[[], ModelResponse],
        stream: PutsPieces | None = None,
    ) -> ModelResponse:
        """Call the model *name* through the run.

        Args:
            caller: The thread.
            name: The model, "provider:name".
            request: What the library sends.
            send: Sends it in the thread, and reads the reply.
            stream: The same, and it puts the pieces; None if the library cannot stream.
        """

        async def call() -> ModelResponse:
            try:
                return await caller.run(send)
            # Whatever the client raises is the reply's error.
            except Exception as error:
                return failed_reply(self.to_failure(error), error)

        async def pieces(stream: PutsPieces) -> AsyncIterator[StreamItem]:
            def work(put: Callable[[StreamItem], None]) -> None:
                put(stream(put))

            try:
                async for item in caller.iterate(work):
                    yield item
            # Whatever the client raises is the reply's error.
            except Exception as error:
                yield failed_reply(self.to_failure(error), error)

        streams = None if stream is None else lambda: pieces(stream)
        response = await self.ask(name, request, call, streams)
        self._replies, self._made = self._replies + 1, 0
        self._unclaimed = list(response.tool_calls)
        return response

    def call_tool(
        self, name: str, arguments: JsonObject, about: str, body: Callable[[], T]
    ) -> tuple[Any, list[T]]:
        """Call one of the agent's own tools through the run; called in a thread.

        Args:
            name: The tool.
            arguments: The arguments that the model gave.
            about: The tool's description.
            body: Calls it, in the thread.

        Returns:
            The value that the model reads, and what *body* returned if it was called.
        """
        made: list[T] = []

        async def work(caller: Caller) -> Any:
            made.append(await caller.run(body))
            return made[0]

        call = self._claim
        value = self.wait(
            lambda caller: self.call_own(call(name, arguments), about, lambda: work(caller))
        )
        return value, made

    def call_run_tool(self, name: str, arguments: JsonObject) -> str:
        """Call one of the run's tools; called in a thread."""
        return self.wait(lambda _: self.call_ours(self._claim(name, arguments)))

    def _claim(self, name: str, arguments: JsonObject) -> ToolCall:
        """Return the call of the last reply that this is; one that no reply has gets an id."""
        named = [call for call in self._unclaimed if call.name == name]
        same = [one for one in named if _is_same(read_arguments(one.arguments), arguments)]
        # A library may convert an argument, so one that only the name fits is the call too.
        if same or len(named) == 1:
            call = (same or named)[0]
            self._unclaimed.remove(call)
            return call
        self._made += 1
        return ToolCall(f"{name}_{self._replies}_{self._made}", name, arguments)


def _is_same(asked: Json, given: JsonObject) -> bool:
    """Whether *given* has what was *asked* for; a library may add defaults and convert."""
    return isinstance(asked, dict) and all(
        str(given.get(key)) == str(value) for key, value in asked.items()
    )


def _settle(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], function: Callable[[], T]
) -> None:
    """Run *function* in this thread, and settle *future* in its loop."""

    def settle(method: Callable[[Any], None], value: object) -> None:
        def now() -> None:
            if not future.done():
                method(value)

        # The loop is closed if the run was left while the library worked.
        if not loop.is_closed():
            loop.call_soon_threadsafe(now)

    try:
        result = function()
    # The thread ends here; the one who waits for it gets whatever it was.
    except BaseException as error:
        settle(future.set_exception, _raisable(error))
    else:
        settle(future.set_result, result)


def _raisable(error: BaseException) -> BaseException:
    """Return *error* as a future takes it: StopIteration cannot be raised into one."""
    return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
