"""Tasks of MCP servers: calls that a server works on after it has answered.

A server may answer a call with a task, which is asked for until it has ended. The log keeps the id
of the task, so a later session asks for it instead of making the call again.

The versions differ in three places. In 2026-07-28, any call may become a task; the state of a task
has its result and what the server needs, and the answers are sent with a request. In 2025-11-25,
the client asks for a task, for tools that may be one; the result is a request of its own, during
which the server asks as during any other.

Source:
    SEP-2663, the extension io.modelcontextprotocol/tasks, 2026-07-28; specification 2025-11-25,
    basic/utilities/tasks. Read in 2026.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal, TypeVar, cast

from mcp import MCPError
from mcp_types import CallToolResult, InputRequest, InputResponse, Request, RequestParams, Result
from pydantic import BaseModel, ValidationError

from upshot.contract.base.structs import Json
from upshot.contract.tool_context import ToolContext
from upshot.tools.call_state import CallWaits
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.execution.call_log import CallLog
from upshot.tools.mcp.connection import Connection, Line
from upshot.tools.mcp.exchange_errors import CANCELLED, LineLost, reach, read_refusal
from upshot.tools.mcp.server_requests import CannotAnswer, TaskState, in_call

T = TypeVar("T", bound=BaseModel)

# Between two requests: what the server suggests, within limits; and after a lost connection.
_POLL_S, _LEAST_S, _MOST_S = 1.0, 0.02, 30.0
_TRIES = 5
_CANCEL_S = 1.0


class _TaskParams(RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, InputResponse]


class _GetTask(Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param = "taskId"


class _CancelTask(Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams
    name_param = "taskId"


class _GetResult(Request[_TaskParams, Literal["tasks/result"]]):
    method: Literal["tasks/result"] = "tasks/result"
    params: _TaskParams


class _UpdateTask(Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param = "taskId"


class ServerTask:
    """A task of a server.

    Args:
        connection: The way to the server.
        log: The log of its call, None outside a Toolbox.
        context: Receives how far it is.
        may_repeat: Whether the call may be made again.
        task_id: The server's id.
        poll_s: Seconds between two requests, as the server suggests; None for the default.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        log: CallLog | None,
        context: ToolContext[object],
        may_repeat: bool,
        task_id: str,
        poll_s: float | None,
    ) -> None:
        self._connection = connection
        self._log = log
        self._context = context
        self._requests = connection.requests
        self._may_repeat = may_repeat
        self._id = task_id
        self._poll_s = poll_s
        self._told = ""
        self._line: Line | None = None
        self._answered: set[str] = set()
        self._moved = asyncio.Event()

    def to_json(self) -> Json:
        """Return it for the log."""
        return {"task": self._id, "poll_s": self._poll_s}

    async def wait(self) -> CallToolResult:
        """Return the result of the task. If the caller is cancelled, so is the task.

        Raises:
            CallWaits: The server asks the user, and nobody can answer now; the task continues if a
                later session can answer it, and is otherwise cancelled.
            ToolError: It failed, was cancelled, or is not known any more.
        """
        listeners = self._requests.task_listeners
        listeners[self._id] = self._receive_state
        try:
            while True:
                state = await self._get()
                self._report(state)
                if state.status == "input_required":
                    if self._is_legacy:
                        return await self._receive()
                    await self._update(state.input_requests or {})
                elif state.status != "working":
                    is_there = self._is_legacy and state.status != "cancelled"
                    return await self._receive() if is_there else _result_of(state)
                await self._pause()
        except asyncio.CancelledError:
            await self._cancel()
            raise
        finally:
            listeners.pop(self._id, None)

    async def _pause(self) -> None:
        """Wait before the next request, at most until the server says that something changed."""
        self._moved.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(self._poll_s or _POLL_S, _LEAST_S), _MOST_S)):
                await self._moved.wait()

    def _receive_state(self, state: TaskState) -> None:
        """Take a notification of the server, which need not send any."""
        self._report(state)
        self._moved.set()

    async def _cancel(self) -> None:
        with suppress(Exception):  # the server may be gone, and the caller does not wait for it
            async with asyncio.timeout(_CANCEL_S):
                await self._ask(_CancelTask(params=_TaskParams(task_id=self._id)), Result)

    async def _receive(self) -> CallToolResult:
        """Return the result from a server of version 2025-11-25, which may ask before.

        Raises:
            CallWaits: Nobody can answer now. The server asks once only, so the call is made again
                with the answer.
        """
        asking = self._ask(_GetResult(params=_TaskParams(task_id=self._id)), CallToolResult)
        try:
            return await in_call(
                asking, self._requests, may_repeat=self._may_repeat, task_id=self._id
            )
        except CallWaits:
            await self._cancel()
            if self._log is not None:
                await self._log.save(None)
            raise

    @property
    def _is_legacy(self) -> bool:
        return self._line is not None and self._line.is_legacy

    async def _get(self) -> TaskState:
        state = await self._ask(_GetTask(params=_TaskParams(task_id=self._id)), TaskState)
        if state.poll_interval_ms is not None:
            self._poll_s = state.poll_interval_ms / 1000
        return state

    def _report(self, state: TaskState) -> None:
        text = state.status_message or state.status
        if text != self._told:
            self._told = text
            self._context.progress(text, {"task": self._id, "status": state.status})

    async def _update(self, requests: dict[str, InputRequest]) -> None:
        """Answer what the server has not been answered yet."""
        fresh = {key: one for key, one in requests.items() if key not in self._answered}
        if not fresh:
            return
        try:
            responses = await self._requests.answer(fresh, self._log, number=0)
        except CannotAnswer as error:
            raise ToolError(f"the server cannot go on: {error}") from error
        params = _UpdateParams(task_id=self._id, input_responses=responses)
        # The server takes the first response to each key, so it may be sent again.
        await self._ask(_UpdateTask(params=params), Result)
        self._answered |= {*fresh}

    async def _ask(self, request: Request[Any, Any], kind: type[T]) -> T:
        """Make a request about the task, again if the connection broke.

        Raises:
            ToolError: The server refuses it, or cannot be reached.
        """
        for left in reversed(range(_TRIES)):
            line = self._line = await self._reach(left)
            if line is None:
                continue
            try:
                return await line.client.session.send_request(request, kind)
            except MCPError as error:
                refusal = read_refusal(line, error)
                if not isinstance(refusal, LineLost):
                    # The task, unlike the request about it, may have had an effect.
                    raise ToolError(f"the task {self._id}: {refusal.message}") from error
                if not left:
                    raise LineLost(sent=True).to_tool_error(safe=False) from error
            except ValidationError as error:
                what = "does not say how far its task is"
                if kind is CallToolResult:
                    what = "has no valid result of its task"
                raise ToolError(f"the server {what}: {error}") from error
        raise AssertionError("the last try returns or raises")

    async def _reach(self, left: int) -> Line | None:
        """Return the line, or None to try again later."""
        try:
            return await reach(self._connection)
        except ToolError as error:
            if not left:
                raise ToolError(f"{error.message}; its task {self._id} may continue") from error
            await asyncio.sleep(_POLL_S)
            return None


def task_in(saved: Json) -> tuple[str, float | None] | None:
    """Return the id and interval of the task in what a call saved, None for none."""
    if not isinstance(saved, dict) or "task" not in saved:
        return None
    return cast("str", saved["task"]), cast("float | None", saved["poll_s"])


def _result_of(state: TaskState) -> CallToolResult:
    """Return the result of a task that has ended.

    Raises:
        ToolError: It has none.
    """
    if state.status == "cancelled":
        raise ToolError("the server cancelled its task", code=CANCELLED)
    if state.status == "failed" or state.result is None:
        error = state.error or {}
        raise ToolError(str(error.get("message") or state.status_message or "the task failed"))
    try:
        return CallToolResult.model_validate(state.result, by_name=False)
    except ValidationError as error:
        raise ToolError(f"the server has no valid result of its task: {error}") from error
