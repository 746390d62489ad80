"""A compiled graph of LangGraph, such as an agent of LangChain, as the engine of a run.

The graph works as usual. Our callback runs at each call of a chat model and of a tool: it delays
the call until the run allows it, and reports its outcome to the run. The graph's checkpoints are in
the run's log, so that a resumed run finds its place there.

A callback can delay a call and end the run, but it cannot return a result instead of the call. So
an interrupted model call is repeated, and the run ends at a call of the graph's own tools that
wrote and whose result is in no checkpoint.

Source:
    langgraph 1.2 (``pregel``, ``types.py``), langchain-core 1.7 (``callbacks``), read in 2026.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ClassVar, Final, cast

import msgspec

from upshot.adapters.engine_calls import DEFERRED, EngineCalls, failed_reply
from upshot.adapters.langchain import ask_of, read_message, to_failure
from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, Origin, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Image, Message, Text
from upshot.contract.model_calls import (
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
)
from upshot.contract.pending import Pending
from upshot.contract.protocols import StreamItem
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolSpec,
    ToolTimeout,
)
from upshot.models.prices import Prices
from upshot.native.langchain_messages import read_langchain_message, read_langchain_text
from upshot.native.objects import as_arguments, as_count, as_items, as_json, as_text, look_up
from upshot.runs.engine_api.exceptions import Failed, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board
from upshot.tools.definition.tool_error import ToolError
from upshot.wire.decoding import encode_json, parse_json
from upshot.wire.pricing import Price

_LIBRARY: Final = "LangGraph"
_OURS: Final = "upshot_call"
# The id of a call of the run's tools: only its callback gets it, not the tool.
_CALL_ID: ContextVar[str] = ContextVar("upshot_langgraph_call_id", default="")


class LangGraphEngine:
    """Runs a graph of LangGraph as an engine; made by ``as_engine``.

    Args:
        graph: A compiled graph, or a function that makes one from the run's tools.
        reads: The names of the graph's own tools that only read.
        prices: The prices of its models, which win over the public table.
    """

    # It finds its place by the checkpoints, which are steps of the log.
    goes_on_by_log: ClassVar[bool] = True
    # A callback cannot return a model's reply instead of the call.
    can_replay: ClassVar[bool] = False

    def __init__(
        self,
        graph: Any,
        *,
        reads: Collection[str] = (),
        prices: Prices | Mapping[str, Price] | None = None,
    ) -> None:
        self._graph = graph
        self._options: dict[str, Any] = {"library": _LIBRARY, "reads": reads, "prices": prices}

    def __repr__(self) -> str:
        return f"LangGraphEngine({self._graph!r})"

    async def execute(self, run: Run, host: RunHost, board: Board) -> object:
        """Run the graph on the messages of *board*.

        Returns:
            Its output; None if that is the text on the board.

        Raises:
            Failed: The graph failed, or a budget is spent.
            Interrupted: The run was asked to stop.
            Parked: A call or an ``interrupt`` waits for people.
        """
        calls = EngineCalls(run, host, **self._options)
        calls.read_logged_calls()
        work = _Work(run, host, board, calls)
        try:
            return await calls.finish(work.done_by(self._graph), to_failure)
        finally:
            await work.aclose()


class _RunTools:
    """The run's tools as the graph calls them: a call that waits interrupts the graph."""

    def __init__(self, run: Run, calls: EngineCalls) -> None:
        self._tools = run.tools
        self._calls = calls
        # Calls that write take turns, as in a reply of the run's own model.
        self._writing = asyncio.Lock()

    def to_native(self) -> list[Any]:
        """Return the tools in LangChain's form."""
        return [self._make(spec) for spec in self._tools.schemas()]

    def _make(self, spec: ToolSpec) -> Any:
        async def call(**arguments: Any) -> str:
            return await self._call(ToolCall(_CALL_ID.get(), spec.name, arguments))

        return import_module("langchain_core.tools").StructuredTool(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),
            coroutine=call,
            handle_tool_error=True,
        )

    async def _call(self, call: ToolCall) -> str:
        tool = self._tools.find(call.name)
        async with self._writing if tool is not None and tool.may_write else nullcontext():
            await self._calls.pause()
            outcomes = await self._calls.dispatch(call)
        if not outcomes:
            raise _interrupt(call.id)
        content = self._tools.content_of(outcomes[0])
        if isinstance(outcomes[0], ToolDenied | ToolTimeout | ToolFailure):
            raise import_module("langchain_core.tools").ToolException(content)
        return content


def _interrupt(call_id: str) -> Exception:
    """Return the exception that interrupts the graph while a call waits for an approval."""
    wait = import_module("langgraph.types").Interrupt({_OURS: call_id}, id=call_id)
    return import_module("langgraph.errors").GraphInterrupt((wait,))


class _Work:
    """One call of the graph."""

    def __init__(self, run: Run, host: RunHost, board: Board, calls: EngineCalls) -> None:
        self._run = run
        self._host = host
        self._board = board
        self._calls = calls
        self._held = _HeldCalls(run, calls)
        # The messages on the board: of this session by id, of earlier ones by content.
        self._shown: set[str] = set()
        self._left = list(board.produced())

    async def aclose(self) -> None:
        """End the calls that the graph left open."""
        await self._held.aclose()

    async def done_by(self, graph: Any) -> object:
        """Run *graph*; return its output, None if that is the text on the board."""
        graph = await self._prepare(graph)
        config = {
            "configurable": {"thread_id": self._run.id},
            "callbacks": self._held.handlers(),
        }
        options: dict[str, Any] = {"durability": "sync"}
        if self._run.dependencies is not None:
            options["context"] = self._run.dependencies
        given: object = self._input(graph)
        state = await graph.aget_state(config)
        if look_up(state, "config", "configurable", "checkpoint_id"):
            self._shown.update(self._seeded_ids())
            given = await self._read_answers(state)
        while True:
            state = await self._run_once(graph, given, config, options)
            if not as_items(look_up(state, "interrupts")):
                return self._output(look_up(state, "values"))
            given = await self._read_answers(state)

    async def _prepare(self, graph: Any) -> Any:
        """Return the graph with the run's tools, and the run's log for its checkpoints."""
        run = self._run
        tools = _RunTools(run, self._calls).to_native()
        if not hasattr(graph, "astream"):
            made = graph(tools)
            graph = await made if asyncio.iscoroutine(made) else made
        elif tools:
            names = ", ".join(tool.name for tool in tools)
            raise Failed(
                ErrorCode.INVALID_REQUEST,
                f"the graph was compiled without the run's tools ({names}): give "
                "as_engine(lambda tools: create_agent(model, tools=[*tools, ...]))",
            )
        self._held.ours = frozenset(tool.name for tool in tools)
        return graph.copy({"checkpointer": await open_saver(run, self._host)})

    # What goes in and comes out

    def _input(self, graph: Any) -> dict[str, Any]:
        given: dict[str, Any] = dict(self._run.request.inputs)
        if "messages" not in graph.channels:
            return given
        messages = [_to_native(message) for message in self._board.seeded()]
        if self._run.instructions is not None:
            messages.insert(0, {"role": "system", "content": self._run.instructions})
        ids = self._seeded_ids()
        self._shown.update(ids)
        given["messages"] = [
            {**message, "id": ident} for message, ident in zip(messages, ids, strict=True)
        ]
        return given

    def _seeded_ids(self) -> list[str]:
        count = len(self._board.seeded()) + (self._run.instructions is not None)
        return [f"{self._run.id}-{self._run.attempt}-{number}" for number in range(count)]

    async def _run_once(self, graph: Any, given: object, config: Any, options: Any) -> object:
        """Run the graph until it ends or waits; return its state."""
        modes = ["values", "messages"] if self._run.is_watched else ["values"]
        async for mode, chunk in graph.astream(given, config, stream_mode=modes, **options):
            if mode == "values":
                self._add_to_board(as_items(look_up(chunk, "messages")))
        return await graph.aget_state(config)

    def _add_to_board(self, messages: Sequence[object]) -> None:
        """Add the state's messages that the board lacks."""
        for native in messages:
            ident = as_text(look_up(native, "id"))
            if ident in self._shown:
                continue
            self._shown.add(ident)
            message = read_message(native)
            if message in self._left:
                self._left.remove(message)
            else:
                self._board.append(message)

    async def _read_answers(self, state: object) -> object:
        """Return what the graph continues with: the answers to its questions, or None.

        Raises:
            Parked: Some are unanswered.
        """
        waits: list[Pending] = [*self._run.tools.pending]
        answers: dict[str, Json] = {}
        for wait in as_items(look_up(state, "interrupts")):
            if look_up(wait, "value", _OURS) is not None:
                continue
            ident = as_text(look_up(wait, "id"))
            try:
                answers[ident] = await self._host.ask_user(ask_of(wait), key=ident)
            except Parked as parked:
                waits += parked.pending
        if waits:
            raise self._calls.end(Parked(*waits))
        return import_module("langgraph.types").Command(resume=answers) if answers else None

    def _output(self, state: object) -> object:
        if as_items(look_up(state, "messages")):
            structured = look_up(state, "structured_response")
            if structured is None and not (self._board.answer() or "").strip():
                self._refuse_empty()
            return None if structured is None else as_json(structured)
        return as_json(state)

    def _refuse_empty(self) -> None:
        if not self._run.agent.allow_empty:
            text = "the graph ended with an empty reply: no text and no structured response"
            raise Failed(AgentError(ErrorCode.EMPTY_REPLY, text, origin=Origin.MODEL))


class _HeldCalls:
    """The model and tool calls in progress.

    Attributes:
        ours: The names of the run's own tools, which pass its gates by themselves.
    """

    def __init__(self, run: Run, calls: EngineCalls) -> None:
        self.ours: frozenset[str] = frozenset()
        self._run = run
        self._calls = calls
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._open: dict[object, _Held] = {}

    async def aclose(self) -> None:
        """Cancel the calls that have not ended."""
        left, self._open = [held.task for held in self._open.values()], {}
        for task in left:
            task.cancel()
        for task in left:
            with suppress(BaseException):
                await task

    def handlers(self) -> list[object]:
        """Return the callback handlers of the graph.

        Async code calls the first; plain code, in threads of its own, the second, because
        exceptions of an async handler would be swallowed there.
        """
        works: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
            "on_chat_model_start": self.begin_model,
            "on_llm_new_token": self.show,
            "on_llm_end": self.end_model,
            "on_llm_error": self.fail_model,
            "on_tool_start": self.begin_tool,
            "on_tool_end": self.end_tool,
            "on_tool_error": self.fail_tool,
        }
        callbacks = import_module("langchain_core.callbacks")
        return [
            self._handler(callbacks.AsyncCallbackHandler, self._async_hook, works),
            self._handler(callbacks.BaseCallbackHandler, self._plain_hook, works),
        ]

    def _handler(self, base: type[Any], make: Any, works: Mapping[str, Any]) -> object:
        names: dict[str, Any] = {name: make(work) for name, work in works.items()}
        return type("UpshotHandler", (base,), {**names, "raise_error": True, "run_inline": True})()

    def _async_hook(self, work: Callable[..., Coroutine[Any, Any, None]]) -> object:
        async def hook(handler: Any, *given: Any, **facts: Any) -> None:
            if asyncio.get_running_loop() is self._loop:
                await work(*given, **facts)

        return hook

    def _plain_hook(self, work: Callable[..., Coroutine[Any, Any, None]]) -> object:
        def hook(handler: Any, *given: Any, **facts: Any) -> None:
            if threading.get_ident() != self._thread:
                asyncio.run_coroutine_threadsafe(work(*given, **facts), self._loop).result()

        return hook

    async def begin_model(
        self, serialized: object, messages: Sequence[Any], *, run_id: object, **facts: Any
    ) -> None:
        """Delay a model call until the run allows it.

        Raises:
            Signal: What ends the run.
        """
        if self._run.handoff is not None:
            raise self._calls.hand_over()
        held = _Held()
        metadata, offered = look_up(facts, "metadata"), look_up(facts, "invocation_params", "tools")
        provider, model = look_up(metadata, "ls_provider"), look_up(metadata, "ls_model_name")
        name = f"{as_text(provider)}:{as_text(model)}"
        held.task = asyncio.create_task(
            self._calls.ask(
                name,
                ModelRequest(
                    [read_message(message) for message in messages[0]],
                    tools=tuple(map(_to_spec, as_items(offered))),
                ),
                held.work,
                held.stream,
                tries_once=True,
            )
        )
        await self._wait_for_start(run_id, held)

    async def begin_tool(
        self, serialized: object, written: str, *, run_id: object, **facts: Any
    ) -> None:
        """Delay a call of one of the graph's own tools until the run allows it.

        Raises:
            Signal: What ends the run.
            Exception: What interrupts the graph, because the call waits for an approval.
        """
        name, ident = as_text(look_up(serialized, "name")), as_text(facts.get("tool_call_id"))
        if name in self.ours:
            _CALL_ID.set(ident or str(run_id))
            return
        given = facts.get("inputs")
        arguments = as_arguments(written if given is None else given)
        held = _Held()
        call = ToolCall(ident or str(run_id), name, arguments)
        about = as_text(look_up(serialized, "description"))
        held.task = asyncio.create_task(
            self._calls.call_tool(call, about, held.work, repeats=False)
        )
        if await self._wait_for_start(run_id, held):
            return
        outcome: ToolOutcome | None = held.task.result()
        if outcome is None:
            raise _interrupt(call.id)
        if not self._calls.is_read(name):
            raise self._calls.end(Failed(_refusal(outcome)))

    async def _wait_for_start(self, key: object, held: _Held) -> bool:
        """Wait until the run allows a call; return False if the call ended without that."""
        self._open[key] = held
        begun = asyncio.ensure_future(held.begun.wait())
        try:
            await asyncio.wait({held.task, begun}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if held.begun.is_set():
            return True
        del self._open[key]
        # An exception of the call ends the run.
        await held.task
        return False

    async def show(
        self, token: object, *, run_id: object, chunk: object = None, **facts: Any
    ) -> None:
        """Pass on a piece of a reply."""
        held = self._open.get(run_id)
        if held is not None:
            for delta in _deltas(look_up(chunk, "message")):
                held.pieces.put_nowait(delta)

    async def end_model(self, response: Any, *, run_id: object, **facts: Any) -> None:
        """End a model call with its reply."""
        reply = read_langchain_message(response.generations[0][0].message)
        await self._end_call(run_id, reply)

    async def fail_model(self, error: BaseException, *, run_id: object, **facts: Any) -> None:
        """End a model call with what its client raised."""
        await self._end_call(run_id, failed_reply(to_failure(error), error))

    async def end_tool(self, output: object, *, run_id: object, **facts: Any) -> None:
        """End a tool call with what it returned."""
        await self._end_call(run_id, _value_of(output))

    async def fail_tool(self, error: BaseException, *, run_id: object, **facts: Any) -> None:
        """End a tool call with what it raised."""
        await self._end_call(run_id, _tool_error(error))

    async def _end_call(self, key: object, came: object) -> None:
        """End a call with its outcome.

        Raises:
            Signal: What ends the run.
        """
        held = self._open.pop(key, None)
        if held is None:
            return
        if isinstance(came, ModelResponse) and isinstance(came.raw, asyncio.CancelledError):
            held.task.cancel()
        held.pieces.put_nowait(None)
        held.came.set_result(came)
        await asyncio.wait({held.task})
        if held.task.cancelled():
            return
        if (error := held.task.exception()) is not None:
            raise error
        reply: object = held.task.result()
        # The graph itself raises what the client raised.
        if isinstance(reply, ModelResponse) and reply.error is not None and not _has_failed(came):
            raise self._calls.fail(reply, reply.error)


def _has_failed(came: object) -> bool:
    return isinstance(came, ModelResponse) and came.error is not None


class _Held:
    """One call in progress."""

    task: asyncio.Task[Any]

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.pieces: asyncio.Queue[StreamItem | None] = asyncio.Queue()

    async def work(self) -> Any:
        """Allow the call, and wait for its outcome."""
        self.begun.set()
        came = await self.came
        if isinstance(came, Exception):
            raise came
        return came

    async def stream(self) -> AsyncIterator[StreamItem]:
        """Allow the call, and yield the pieces of its reply as they arrive."""
        self.begun.set()
        while (piece := await self.pieces.get()) is not None:
            yield piece
        yield await self.came


def _value_of(output: object) -> object:
    """Return what a tool returned, as JSON; a ``ToolMessage`` about an error becomes one."""
    content = look_up(output, "content")
    if look_up(output, "tool_call_id") is None or content is None:
        return as_json(output)
    text = read_langchain_text(content)
    if look_up(output, "status") == "error":
        return ToolError(text, retryable=True)
    known = parse_json(text)
    return known if isinstance(known, dict | list | int | float) else text


def _tool_error(error: BaseException) -> ToolError:
    if any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__):
        return ToolError("it waits for an answer", code=DEFERRED, effect="none")
    return ToolError(f"{type(error).__name__}: {error}", retryable=False)


def _refusal(outcome: ToolOutcome) -> AgentError:
    """Return why the run ends at a call that the graph wants to make and must not."""
    name = outcome.tool_name
    if isinstance(outcome, ToolDenied):
        text = f"the call of {name} was refused ({outcome.reason}): {outcome.details}"
        is_limit = outcome.reason == DeniedReason.BUDGET
        code = ErrorCode.BUDGET_EXCEEDED if is_limit else ErrorCode.POLICY_DENIED
        return AgentError(code, text, origin=Origin.LIMIT if is_limit else Origin.HOST)
    if isinstance(outcome, ToolFailure) and outcome.code is ErrorCode.INTERRUPTED:
        text = f"{name} was cut off, and its effect is unknown: {outcome.error}"
    else:
        text = (
            f"{name} was called before the process ended, and the graph has lost its result; "
            "it is not called again"
        )
    hint = "a tool of the run (Agent(tools=)) gets its outcome from the log"
    return AgentError(ErrorCode.INTERRUPTED, f"{text}: {hint}", origin=Origin.ENGINE)


def _to_native(message: Message) -> dict[str, Any]:
    """Return a message in the form that LangChain reads."""
    if message.role is Role.TOOL:
        return {
            "role": "tool",
            "content": message.text,
            "tool_call_id": message.tool_call_id,
            "name": message.name,
        }
    made: dict[str, Any] = {"role": str(message.role), "content": _content(message)}
    if message.tool_calls:
        made["tool_calls"] = [_to_native_call(call) for call in message.tool_calls]
    return made


def _to_native_call(call: ToolCall) -> dict[str, Any]:
    given = call.arguments
    text = given if isinstance(given, str) else encode_json(given).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _content(message: Message) -> object:
    if not any(isinstance(part, Image) for part in message.parts):
        return message.text
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, Image) and part.url:
            blocks.append({"type": "image_url", "image_url": {"url": part.url}})
        elif isinstance(part, Image) and isinstance(part.data, bytes):
            blocks.append(_image_block(part))
    return blocks


def _image_block(part: Image) -> dict[str, Any]:
    from base64 import b64encode

    assert part.data is not None
    text = b64encode(part.data).decode()
    return {"type": "image", "base64": text, "mime_type": part.media_type}


def _to_spec(tool: object) -> ToolSpec:
    """Return a tool as it is offered to a model, from the forms of OpenAI and Anthropic."""
    inner = look_up(tool, "function")
    inner = tool if inner is None else inner
    schema = look_up(inner, "parameters")
    form = as_json(look_up(inner, "input_schema") if schema is None else schema)
    parameters: JsonObject = form if isinstance(form, dict) else {}
    return ToolSpec(
        name=as_text(look_up(inner, "name")) or as_text(look_up(inner, "type")),
        description=as_text(look_up(inner, "description")),
        parameters=parameters,
    )


def _deltas(chunk: object) -> list[StreamItem]:
    """Return the pieces of a reply in one chunk."""
    made: list[StreamItem] = []
    for thought in read_langchain_message(chunk).reasoning:
        if thought.text:
            made.append(ReasoningDelta(text=thought.text))
    if text := read_langchain_text(look_up(chunk, "content")):
        made.append(TextDelta(text=text))
    for piece in as_items(look_up(chunk, "tool_call_chunks")):
        made.append(
            ToolCallDelta(
                index=as_count(look_up(piece, "index")) or 0,
                call_id=as_text(look_up(piece, "id")),
                name=as_text(look_up(piece, "name")),
                arguments=as_text(look_up(piece, "args")),
            )
        )
    return made


_TAG: Final = "~"


async def open_saver(run: Run, host: RunHost) -> Any:
    """Return a checkpointer with the writes of the attempt's earlier sessions.

    Args:
        run: The run whose log it writes to.
        host: Its host.
    """
    memory = import_module("langgraph.checkpoint.memory").InMemorySaver
    log = _Log(run, host)

    async def aput(self: Any, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        # A checkpoint contains only the channels that are new in it.
        values = checkpoint["channel_values"]
        fresh = {name: values[name] for name in versions if name in values}
        given = _own(config), {**checkpoint, "channel_values": fresh}, metadata, versions
        await log.write(self, "put", given)
        return memory.put(self, config, checkpoint, metadata, versions)

    async def aput_writes(self: Any, config: Any, writes: Any, task: str, path: str = "") -> None:
        await log.write(self, "put_writes", (_own(config), list(writes), task, path))
        memory.put_writes(self, config, writes, task, path)

    saver: Any = type("LogSaver", (memory,), {"aput": aput, "aput_writes": aput_writes})()
    await log.read(saver)
    return saver


class _Log:
    """The checkpoint steps of one attempt."""

    def __init__(self, run: Run, host: RunHost) -> None:
        self._prefix = f"langgraph-{run.attempt}-"
        self._host = host
        self._count = 0

    async def read(self, saver: Any) -> None:
        """Repeat in *saver* the writes that the log has."""
        while self._host.is_settled(key := self._key(self._count + 1)):
            value = await self._host.step(key, Effect.READ, _nothing)
            self._count += 1
            name, kind, form = cast("list[Any]", value)
            given = saver.serde.loads_typed((kind, msgspec.msgpack.encode(_from_json(form))))
            getattr(saver, name)(*given)

    async def write(self, saver: Any, name: str, given: tuple[Any, ...]) -> None:
        """Log one write."""
        kind, data = saver.serde.dumps_typed(given)
        value: list[Json] = [name, kind, _to_json(msgspec.msgpack.decode(data, strict=False))]
        self._count += 1
        await self._host.step(self._key(self._count), Effect.READ, lambda: value)

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number}"


def _nothing() -> None:
    """The body of a settled step, which never runs."""


def _own(config: Any) -> dict[str, Any]:
    """Return the part of *config* that says where something is stored."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    given = config["configurable"]
    return {"configurable": {name: given[name] for name in names if name in given}}


def _to_json(value: object) -> Json:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_to_json(item) for item in cast("list[object]", value)]
        case dict():
            items = cast("dict[object, object]", value).items()
            if all(isinstance(key, str) and key != _TAG for key, _ in items):
                return {str(key): _to_json(item) for key, item in items}
            return {_TAG: ["map", [[_to_json(key), _to_json(item)] for key, item in items]]}
        case msgspec.msgpack.Ext():
            data = bytes(value.data)
            try:
                inner = _to_json(msgspec.msgpack.decode(data, strict=False))
            except msgspec.DecodeError:
                return {_TAG: ["raw", value.code, _text(data)]}
            return {_TAG: ["ext", value.code, inner]}
        case _:
            return {_TAG: ["bytes", _text(bytes(cast("bytes", value)))]}


def _from_json(form: Any) -> object:
    match form:
        case list():
            return [_from_json(item) for item in cast("list[Any]", form)]
        case {"~": ["map", items]}:
            return {_key(_from_json(key)): _from_json(item) for key, item in items}
        case {"~": ["ext", code, inner]}:
            return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(_from_json(inner)))
        case {"~": ["raw", code, text]}:
            return msgspec.msgpack.Ext(code, base64.b64decode(text))
        case {"~": ["bytes", text]}:
            return base64.b64decode(text)
        case dict():
            return {key: _from_json(item) for key, item in cast("dict[str, Any]", form).items()}
        case _:
            return form


def _key(value: object) -> Any:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
