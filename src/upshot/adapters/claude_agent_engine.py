"""The program of the Claude Agent SDK as the engine of a run.

A program of its own asks the model and calls tools. Its hooks lead each call through the run before
the tool's body runs, and its stream of messages becomes replies of the run. After a reply with
calls, the program's hooks wait until the run allows the next request. If the stream of a reply
breaks off, the program asks again without one; that reply comes as a message for each block.

The program's conversation is not in the log, so it cannot be continued in another session: a call
that waits for an approval fails the run and is not made, and a resumed run fails, unless its last
reply is the answer.

Source:
    claude-agent-sdk 0.2 (``client.py``, ``types.py``), read in 2026. The stream of partial messages
    has the events of the Messages API. The message of a block that was streamed has no
    ``stop_reason``, and that of a whole reply has one.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from upshot.adapters.agent_engine import AgentEngine, AgentWork, encode_text, load
from upshot.adapters.claude_agent_sdk import from_claude_agent_sdk, to_failure
from upshot.contract.base.enums import ErrorCode, Origin, Role
from upshot.contract.base.structs import Local
from upshot.contract.error import AgentError
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import ToolCall, ToolSpec
from upshot.contract.usage import Usage
from upshot.native.objects import as_items, as_json, as_object, as_text, look_up
from upshot.runs.engine_api.exceptions import Failed, Signal
from upshot.runs.resumption import read_arguments
from upshot.state.board import Board
from upshot.tools.definition.tool_error import ToolError
from upshot.wire.reader import StreamReader

_PACKAGE: Final = "claude-agent-sdk"
_OURS: Final = "upshot"
_PREFIX: Final = f"mcp__{_OURS}__"
# A hook waits for the run, which has its own deadlines.
_HOOK_S: Final = 86_400.0
_INTERRUPT_S: Final = 5.0
# All blocks of a reply that was not streamed have come when a hook has waited this long for it.
_WHOLE_S: Final = 0.1
_WAITS: Final = object()
_LOST: Final = "the program of the Claude Agent SDK keeps its conversation to itself, so "


class _Work(AgentWork):
    to_failure = staticmethod(to_failure)
    # The program has sent the request already.
    tries_once: ClassVar[bool] = True

    def set_up(self) -> None:
        """Load what the work needs, before the agent runs."""
        self._sdk = load("claude_agent_sdk", _PACKAGE)
        self._specs = self._run.tools.schemas()
        # What the program says, the settled calls as texts, and at last None or an exception.
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._ahead: deque[Any] = deque()
        self._may_ask = asyncio.Event()
        # The calls of the last reply that have not settled.
        self._open: set[str] = set()
        # Calls whose reply has been read, and what their bodies return.
        self._read: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._bodies: dict[str, asyncio.Future[Any]] = {}
        self._calls: dict[str, asyncio.Task[Any]] = {}
        # The texts of the run's own tools, by name and arguments.
        self._texts: defaultdict[str, deque[str]] = defaultdict(deque)

    async def run_agent(self, agent: Any) -> object:
        """Run the program with the options *agent*; return its output."""
        if self._run.earlier_replies:
            return await self._repeat(agent)
        pump = asyncio.create_task(self._pump(self._make_options(agent)))
        try:
            result = await self._follow(agent)
        finally:
            pump.cancel()
            for task in self._calls.values():
                task.cancel()
            await asyncio.gather(pump, *self._calls.values(), return_exceptions=True)
        found = from_claude_agent_sdk([result])
        if found.error is not None and self._run.handoff is None:
            raise Failed(found.error)
        structured = look_up(result, "structured_output")
        return None if structured is None else as_json(structured)

    async def _repeat(self, agent: Any) -> None:
        """Take what the log has; it is the answer if its last reply has no calls.

        Raises:
            Failed: The program was cut off.
        """
        run, calls = self._run, tuple[ToolCall, ...]()
        made = {one.call_id for one in (*run.earlier_records, *run.cut_off)}
        for _ in tuple(run.earlier_replies):
            calls = (await self._ask_program(agent)).tool_calls
            for call in calls:
                arguments = as_object(read_arguments(call.arguments))
                again = ToolCall(call.given_id or call.id, call.name, arguments)
                if call.id in made and run.tools.find(call.name) is not None:
                    await self.call_ours(again)
                elif call.id in made:
                    await self.call_own(again, "", _be_lost)
        if calls:
            text = f"{_LOST}the run cannot be continued: start a new one"
            raise Failed(ErrorCode.INTERRUPTED, text)

    def may_recover(self, error: Exception) -> bool:
        """The program has tried already."""
        return False

    # The program

    def _make_options(self, given: Any) -> Any:
        """Return *given* with our hooks, the run's tools and its instructions."""
        matcher, hooks = self._sdk.HookMatcher, dict(given.hooks or {})
        ours = {
            "PreToolUse": self._before_tool,
            "PostToolUse": self._after_tool,
            "PostToolUseFailure": self._after_failure,
        }
        for name, hook in ours.items():
            own = matcher(hooks=[hook], timeout=_HOOK_S, on_failure="block")
            hooks[name] = [*hooks.get(name, []), own]
        more: dict[str, Any] = {"hooks": hooks, "include_partial_messages": True}
        if self._specs:
            server = self._sdk.create_sdk_mcp_server(
                _OURS, tools=[self._make_ours(spec) for spec in self._specs]
            )
            more["mcp_servers"] = {**given.mcp_servers, _OURS: server}
        if (text := self._run.instructions) is not None:
            own: Any = given.system_prompt
            form = as_object(own)
            added = f"{as_text(form.get('append'))}\n\n{text}".strip()
            plain = f"{as_text(own)}\n\n{text}".strip()
            more["system_prompt"] = {**form, "append": added} if form else plain
        return dataclasses.replace(given, **more)

    async def _pump(self, options: Any) -> None:
        """Run the program, and pass on what it says."""
        client, ended = self._sdk.ClaudeSDKClient(options), None
        try:
            await self._may_ask.wait()
            await client.connect()
            await client.query(_to_prompt(self._board))
            async for message in client.receive_response():
                self._messages.put_nowait(message)
        # It reaches the run as the failure of the reply that it waits for.
        except Exception as error:
            ended = error
        except asyncio.CancelledError:
            # While its hooks still wait; a program whose hooks break off would ask on.
            with suppress(Exception):
                await asyncio.wait_for(client.interrupt(), _INTERRUPT_S)
            raise
        finally:
            self._messages.put_nowait(ended)
            await client.disconnect()

    async def _take(self) -> Any:
        """Return what the program says next; raise its exception at its end."""
        item = self._ahead.popleft() if self._ahead else await self._messages.get()
        if isinstance(item, Exception):
            raise item
        return item

    async def _follow(self, agent: Any) -> Any:
        """Follow the program to its end; return its result."""
        while True:
            response = await self._ask_program(agent)
            self._open = {call.given_id or call.id for call in response.tool_calls}
            for ident in self._open:
                self._read[ident].set()
            while True:
                if response.tool_calls and not self._open:
                    break
                item = await self._take()
                if self.calls.stop is not None:
                    raise self.calls.stop
                if item is None or _is_result(item):
                    return item
                if isinstance(item, str):
                    self._open.discard(item)
                elif _event(item).get("type") == "message_start" or _is_whole(item):
                    self._ahead.appendleft(item)
                    break
                else:
                    self._settle_refused(item)

    # Models

    async def _ask_program(self, agent: Any) -> ModelResponse:
        """Read the program's next reply as a model call of the run."""
        name = f"anthropic:{agent.model or 'claude'}"

        async def call() -> ModelResponse:
            async for item in self._stream(name):
                if isinstance(item, ModelResponse):
                    return item
            raise AssertionError("a stream ends with its reply")

        system = agent.system_prompt
        request = ModelRequest(
            [*self._board.messages()],
            system=as_text(system) or None,
            tools=tuple(self._specs),
        )
        return await self.ask(name, request, call, lambda: self._stream(name))

    async def _stream(self, name: str) -> AsyncIterator[StreamItem]:
        """Yield the deltas of the program's next reply, and the reply."""
        self._may_ask.set()
        reader, is_open = _reader(), True
        messages: list[Any] = []
        try:
            while is_open:
                one = await self._take()
                messages.append(one)
                if one is None or _is_result(one):
                    self._ahead.appendleft(one)
                    yield _failed(messages)
                    return
                if _is_whole(one):
                    reader = await self._read_whole(one)
                    break
                event = _event(one)
                if event.get("type") == "message_start":
                    # An earlier try may have broken off.
                    reader = _reader()
                is_open = event.get("type") != "message_stop"
                data = f"event: {event.get('type')}\ndata: {encode_text(event)}\n\n"
                for delta in reader.feed(data.encode()) if event else ():
                    yield delta
        # Whatever the SDK raised is the reply's error.
        except Exception as error:
            yield _failed([error])
            return
        self._may_ask.clear()
        yield self._with_own_names(reader.close(), name)

    async def _read_whole(self, first: Any) -> StreamReader:
        """Read a reply that was not streamed, whose first block is in the message *first*."""
        ident, blocks, one = look_up(first, "message_id"), list[dict[str, Any]](), first
        while one is not _WAITS:
            if _is_whole(one) and look_up(one, "message_id") == ident:
                blocks += map(_to_block, as_items(look_up(one, "content")))
            elif not _is_aside(one):
                self._ahead.appendleft(one)
                break
            one = await self._take()
        fields = ("model", "stop_reason", "usage")
        document = {name: as_json(look_up(first, name)) for name in fields}
        document |= {"type": "message", "id": as_text(ident), "content": blocks}
        reader = _reader()
        reader.feed(encode_text(document).encode())
        return reader

    def _with_own_names(self, response: ModelResponse, name: str) -> ModelResponse:
        """Return *response* with the run's names of its tools."""
        parts = tuple(
            replace(part, name=part.name.removeprefix(_PREFIX))
            if isinstance(part, ToolCall)
            else part
            for part in response.parts
        )
        known = {"model": name.partition(":")[2], **response.provider_data}
        return replace(response, parts=parts, provider_data=known)

    # Tools

    def _make_ours(self, spec: ToolSpec) -> Any:
        async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
            texts = self._texts[_key(spec.name, arguments)]
            text = texts.popleft() if texts else "The call did not pass the run."
            return {"content": [{"type": "text", "text": text}]}

        make = self._sdk.tool(spec.name, spec.description, dict(spec.parameters))
        return make(handle)

    async def _before_tool(self, given: Any, ident: Any, context: Any) -> dict[str, Any]:
        """Lead a call through the run before its body runs."""
        name, arguments = as_text(given["tool_name"]), as_object(given["tool_input"])
        if not given.get("agent_id"):
            await self._wait_for_reply(self._read[given["tool_use_id"]])
        call = ToolCall(given["tool_use_id"], name.removeprefix(_PREFIX), arguments)
        starts: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        is_ours = name.startswith(_PREFIX)
        work = self.call_ours(call) if is_ours else self._call_theirs(call, starts)
        task = asyncio.ensure_future(work)
        self._calls[call.id] = task
        task.add_done_callback(lambda _: self._settle(call.id))
        await asyncio.wait({task, starts}, return_when=asyncio.FIRST_COMPLETED)
        if starts.done():
            # Whether the program itself allows it is for the program to say.
            return {}
        why = task.exception()
        if isinstance(why, Signal) or self._run.tools.pending:
            return _decision("deny", "The run has ended.")
        text = str(why) if why is not None else encode_text(task.result())
        if is_ours:
            self._texts[_key(call.name, arguments)].append(text)
            return _decision("allow", "The run has made this call.")
        await self._allow_request()
        return _decision("deny", text)

    async def _wait_for_reply(self, is_read: asyncio.Event) -> None:
        """Wait until the reply of a call has been read; the call may be the sign of its end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(is_read.wait(), _WHOLE_S)
        if not is_read.is_set():
            self._messages.put_nowait(_WAITS)
            await is_read.wait()

    async def _allow_request(self) -> None:
        """Wait until the run allows the next request, after the last call of a reply."""
        if not self._open:
            await self._may_ask.wait()

    async def _call_theirs(self, call: ToolCall, starts: asyncio.Future[None]) -> Any:
        """Call a tool of the program's through the run; its body settles in a later hook."""
        body: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._bodies[call.id] = body

        async def work() -> Any:
            starts.set_result(None)
            return await body

        return await self.call_own(call, "", work)

    def _settle(self, ident: str) -> None:
        self._open.discard(ident)
        if self._run.tools.pending:
            text = f"{_LOST}no call can wait for an approval: {ident} was not made"
            self.calls.end(Failed(ErrorCode.NOT_AVAILABLE, text))
        self._messages.put_nowait(ident)

    async def _after_tool(self, given: Any, ident: Any, context: Any) -> dict[str, Any]:
        return await self._end_body(given, _value_of(given.get("tool_response")))

    async def _after_failure(self, given: Any, ident: Any, context: Any) -> dict[str, Any]:
        return await self._end_body(given, ToolError(as_text(given.get("error")), retryable=False))

    async def _end_body(self, given: Any, ended: Any) -> dict[str, Any]:
        """Settle a call of the program's whose body has *ended*."""
        ident = as_text(given["tool_use_id"])
        if (body := self._bodies.get(ident)) is not None and not body.done():
            if isinstance(ended, Exception):
                body.set_exception(ended)
            else:
                body.set_result(ended)
        if (task := self._calls.get(ident)) is not None:
            await asyncio.wait({task})
            # Its callback, which counts it, comes next.
            await asyncio.sleep(0)
        await self._allow_request()
        return {}

    def _settle_refused(self, item: Any) -> None:
        """Settle calls that the program answered itself, such as those that its rules refuse."""
        for block in as_items(look_up(item, "content")):
            body = self._bodies.get(as_text(look_up(block, "tool_use_id")))
            ident = as_text(look_up(block, "tool_use_id"))
            if ident and body is None:
                self._messages.put_nowait(ident)
            elif body is not None and not body.done():
                text = encode_text(look_up(block, "content"))
                body.set_exception(ToolError(text, retryable=False))


class ClaudeAgentEngine(AgentEngine):
    """Runs the program of the Claude Agent SDK as an engine; made by ``as_engine``.

    Its agent is a ``ClaudeAgentOptions``.
    """

    library: ClassVar[str] = "Claude Agent SDK"
    work: ClassVar[type[AgentWork]] = _Work
    can_replay: ClassVar[bool] = False


async def _be_lost() -> None:
    raise ToolError(f"{_LOST}it is unknown what the call did", retryable=False)


def _is_result(item: Any) -> bool:
    return type(item).__name__ == "ResultMessage"


def _is_whole(item: Any) -> bool:
    """Whether *item* is a block of a reply of the main agent that was not streamed."""
    is_main = look_up(item, "parent_tool_use_id") is None
    return is_main and bool(look_up(item, "message_id")) and bool(look_up(item, "stop_reason"))


def _is_aside(item: Any) -> bool:
    """Whether *item* is neither said by anyone nor the end of something, such as a status."""
    is_end = item is None or isinstance(item, str) or _is_result(item)
    return not (is_end or _event(item) or look_up(item, "content") is not None)


def _to_block(block: Any) -> dict[str, Any]:
    """Return a block of a reply in the form of the Messages API."""
    if (thinking := look_up(block, "thinking")) is not None:
        signature = as_text(look_up(block, "signature"))
        return {"type": "thinking", "thinking": thinking, "signature": signature}
    if (given := look_up(block, "input")) is not None:
        ident, name = look_up(block, "id"), look_up(block, "name")
        return {"type": "tool_use", "id": ident, "name": name, "input": given}
    return {"type": "text", "text": as_text(look_up(block, "text"))}


def _reader() -> StreamReader:
    return StreamReader("messages", provider="anthropic")


def _event(item: Any) -> dict[str, Any]:
    """Return the event of the Messages API that *item* is, {} for none or another agent's."""
    is_main = look_up(item, "parent_tool_use_id") is None
    return as_object(look_up(item, "event")) if is_main else {}


def _failed(messages: list[Any]) -> ModelResponse:
    """Return the reply that failed, by the *messages* that the program sent."""
    last = messages[-1]
    found = from_claude_agent_sdk(
        last if isinstance(last, Exception) else [*filter(None, messages)]
    )
    failure = found.error or AgentError(ErrorCode.EMPTY_REPLY, "the program gave no reply")
    error = replace(failure, origin=Origin.MODEL)
    return ModelResponse(error=error, usage=Usage(api_calls=1), local=Local(raw=last))


def _decision(decision: str, why: str) -> dict[str, Any]:
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": why,
    }
    return {"hookSpecificOutput": output}


def _key(name: str, arguments: Any) -> str:
    return f"{name} {encode_text(sorted(as_object(arguments).items()))}"


def _value_of(response: Any) -> Any:
    """Return what a tool returned: the text of its blocks, or what it is."""
    blocks = as_items(response) or as_items(look_up(response, "content"))
    texts = [as_text(look_up(block, "text")) for block in blocks]
    return "".join(texts) if texts and all(texts) else as_json(response)


def _to_prompt(board: Board) -> str:
    """Return the messages of *board* as one prompt: the request, after what came before it."""
    *earlier, last = board.seeded() or [Message(Role.USER, "")]
    text = last.text
    if not earlier:
        return text
    names = {Role.USER: "User", Role.ASSISTANT: "You"}
    lines = [f"{names.get(one.role, str(one.role))}: {one.text}" for one in earlier]
    return "\n\n".join(["Earlier in this conversation:", *lines, "The user now says:", text])
