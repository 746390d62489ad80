"""One call of a tool on an MCP server: its request, the server's questions, and its outcome."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, cast

import anyio
from mcp import ClientSession, MCPError
from mcp_types import (
    HEADER_MISMATCH,
    URL_ELICITATION_REQUIRED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitationRequiredErrorData,
    ElicitRequest,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    Result,
    TaskMetadata,
)
from mcp_types import Tool as Listed
from pydantic import Field, TypeAdapter, ValidationError

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_context import ToolContext
from upshot.tools.call_state import running_call
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.execution.call_log import CallLog
from upshot.tools.mcp.connection import Connection, Line
from upshot.tools.mcp.exchange_errors import LineLost, read_refusal
from upshot.tools.mcp.results import read_error, read_result
from upshot.tools.mcp.server_requests import (
    CannotAnswer,
    CreatedTask,
    in_call,
    input_requests,
)
from upshot.tools.mcp.tasks import ServerTask, task_in

_MOST_ROUNDS = 20
# Between two requests of a call that the server only puts off: doubled each time.
_SOON_S, _LATER_S = 0.05, 5.0
_MAX_PAGES = 100
# For how long a server is asked to keep a task: a run may be resumed later.
_KEEP_MS = 24 * 3600 * 1000


class _StartedTask(Result):
    task: CreatedTask


# A server need not make a task of a call.
_task_or_result: TypeAdapter[_StartedTask | CallToolResult] = TypeAdapter(
    Annotated[_StartedTask | CallToolResult, Field(union_mode="left_to_right")]
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a server needs to go on with a call.

    Attributes:
        requests: Its requests by its own keys; empty if the call is just to be made again later.
        state: Its own note, which is sent back with the answers; None for none.
        number: How many times it has asked in this call.
        is_refusal: Whether it refused the call until the user has done something, and gets no
            answer.
    """

    requests: dict[str, InputRequest]
    state: str | None
    number: int
    is_refusal: bool = False

    def to_json(self) -> Json:
        """Return it for the log."""
        requests = input_requests.dump_python(
            self.requests, mode="json", by_alias=True, exclude_none=True
        )
        return {
            "requests": requests,
            "state": self.state,
            "number": self.number,
            "is_refusal": self.is_refusal,
        }

    @classmethod
    def of(cls, saved: Json) -> _Asked | None:
        """Return it from the log, None if there is none."""
        if not isinstance(saved, dict) or "requests" not in saved:
            return None
        return cls(
            requests=input_requests.validate_python(saved["requests"]),
            state=cast("str | None", saved["state"]),
            number=cast("int", saved["number"]),
            is_refusal=bool(saved["is_refusal"]),
        )


class Exchange:
    """One call of a tool.

    Args:
        line: The line to the server.
        connection: The way to the server, for a call that becomes a task.
        name: The server's own name of the tool.
        arguments: Validated arguments.
        context: Receives the server's progress.
        may_repeat: Whether the call may be made twice.
        may_be_task: Whether the tool may be called as a task of version 2025-11-25.
    """

    def __init__(
        self,
        line: Line,
        name: str,
        arguments: JsonObject,
        context: ToolContext[object],
        *,
        connection: Connection,
        may_repeat: bool,
        may_be_task: bool = False,
    ) -> None:
        self._line = line
        self._connection = connection
        self._name = name
        self._arguments = arguments
        self._context = context
        self._requests = connection.requests
        call = running_call.get()
        self._log: CallLog | None = None if call is None else call.log
        self._may_repeat = may_repeat
        self._may_be_task = may_be_task

    async def run(self) -> object:
        """Make the call, or continue it.

        Returns:
            The tool's value. If the caller is cancelled, the server is notified.

        Raises:
            LineLost: The connection broke before the answer.
            CallWaits: The server asks the user, and nobody can answer now.
            ToolError: The tool failed, or the server refused the call.
        """
        saved = None if self._log is None else self._log.saved
        if (task := task_in(saved)) is not None:
            return _value_of(await self._task(*task).wait())
        asked = _Asked.of(saved)
        result = await self._send(None, asked) if asked is None else await self._answer(asked)
        while isinstance(result, _Asked):
            if result.number > _MOST_ROUNDS:
                raise ToolError(f"the server asked more than {_MOST_ROUNDS} times")
            if self._log is not None:
                # From here on, nothing that the server did is lost or done twice after a crash.
                await self._log.save(result.to_json())
            result = await self._answer(result)
        return _value_of(await self._wait(result) if isinstance(result, CreatedTask) else result)

    async def _wait(self, created: CreatedTask) -> CallToolResult:
        """Wait for a task, which a later session finds by its id."""
        every_ms = created.poll_interval_ms
        task = self._task(created.task_id, None if every_ms is None else every_ms / 1000)
        if self._log is not None:
            await self._log.save(task.to_json())
        return await task.wait()

    def _task(self, task_id: str, poll_s: float | None) -> ServerTask:
        return ServerTask(
            self._connection,
            log=self._log,
            context=self._context,
            may_repeat=self._may_repeat,
            task_id=task_id,
            poll_s=poll_s,
        )

    async def _answer(self, asked: _Asked) -> CallToolResult | _Asked | CreatedTask:
        """Send the server what it needs."""
        if asked.requests:
            try:
                responses = await self._requests.answer(
                    asked.requests, self._log, number=asked.number
                )
            except CannotAnswer as error:
                raise ToolError(f"the server cannot go on: {error}") from error
        else:
            await anyio.sleep(min(_SOON_S * 2 ** min(asked.number, 8), _LATER_S))
            responses = None
        if self._line.broken:
            raise LineLost(sent=False)
        if self._log is not None:
            await self._log.save(None)
        try:
            return await self._send(responses, asked)
        except LineLost as lost:
            if self._log is not None and not lost.sent:
                await self._log.save(asked.to_json())
            raise

    async def _send(
        self, responses: dict[str, InputResponse] | None, asked: _Asked | None
    ) -> CallToolResult | _Asked | CreatedTask:
        if self._line.broken:
            raise LineLost(sent=False)
        number = 0 if asked is None else asked.number
        if asked is None or asked.is_refusal:
            responses, state = None, None
        else:
            state = asked.state
        try:
            try:
                result = await self._request(responses, state)
            except MCPError as error:
                if error.code != HEADER_MISMATCH or self._line.is_legacy:
                    raise
                # The server refused it: the SDK lacks the current schema, from which it makes
                # headers.
                await list_tools(self._line)
                result = await self._request(responses, state)
        except MCPError as error:
            if (needed := _read_needed(error, number)) is not None:
                return needed
            raise read_refusal(self._line, error) from error
        if isinstance(result, InputRequiredResult):
            return _Asked(result.input_requests or {}, result.request_state, number + 1)
        return cast("CallToolResult | CreatedTask", result)

    async def _request(
        self, responses: dict[str, InputResponse] | None, state: str | None
    ) -> Result:
        """Send the request, and wait for its result or until the call is parked."""
        session = self._line.client.session
        request: Awaitable[Result]
        if self._may_be_task and takes_tasks(self._line):
            request = self._start_task(session)
        else:
            request = session.call_tool(
                self._name,
                dict(self._arguments),
                progress_callback=self._report,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
                allow_claimed=True,
            )
        return await in_call(request, self._requests, may_repeat=self._may_repeat)

    async def _start_task(self, session: ClientSession) -> CreatedTask | CallToolResult:
        params = CallToolRequestParams(
            name=self._name, arguments=dict(self._arguments), task=TaskMetadata(ttl=_KEEP_MS)
        )
        result = await session.send_request(
            CallToolRequest(params=params), _task_or_result, progress_callback=self._report
        )
        if isinstance(result, _StartedTask):
            return result.task
        if not result.is_error:
            await session.validate_tool_result(self._name, result)
        return result

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        of = "" if total is None else f"/{total:g}"
        self._context.progress(
            message or f"{progress:g}{of}", {"progress": progress, "total": total}
        )


def takes_tasks(line: Line) -> bool:
    """Return whether a server of version 2025-11-25 works on calls as tasks."""
    tasks = line.client.server_capabilities.tasks if line.is_legacy else None
    requests = None if tasks is None else tasks.requests
    return requests is not None and requests.tools is not None and requests.tools.call is not None


def _value_of(result: CallToolResult) -> object:
    if result.is_error:
        raise ToolError(read_error(result))
    return read_result(result)


def _read_needed(error: MCPError, number: int) -> _Asked | None:
    """Return what the user must do before the server makes the call, None for another error."""
    if error.code != URL_ELICITATION_REQUIRED:
        return None
    try:
        data = ElicitationRequiredErrorData.model_validate(error.data)
    except ValidationError:
        return None
    requests: dict[str, InputRequest] = {
        f"url-{place}": ElicitRequest(params=one) for place, one in enumerate(data.elicitations)
    }
    return _Asked(requests, None, number + 1, is_refusal=True) if requests else None


async def list_tools(line: Line) -> list[Listed]:
    """Return all tools of a server, page by page."""
    listed: list[Listed] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await line.client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return listed
