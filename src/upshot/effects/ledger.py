"""Ledger: functions whose effect is made only once, whoever calls them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import secrets
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent import futures
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack, cast

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.enums import DeniedReason
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.effects import EffectEntry, EffectFilters, EffectLedger
from upshot.contract.protocols import Journal
from upshot.contract.settings import Budget
from upshot.contract.tool_calls import (
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
)
from upshot.contract.tool_context import ToolContext
from upshot.effects.settling import needs_ledger, settle
from upshot.errors import AlreadyDone, Conflict, EffectError, EffectUnknown, InProgress, Misuse
from upshot.journal.opening import open_journal
from upshot.tools.definition.body import is_async, read_body
from upshot.tools.definition.identity import OnRepeat
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import NotDone, named
from upshot.tools.definition.tool_options import UnknownEffect, VerifyHook
from upshot.tools.execution.effect_claim import IN_PROGRESS
from upshot.tools.toolbox import Toolbox

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Place: TypeAlias = str | os.PathLike[str] | Journal

_NO_LIMITS = Budget(max_turns=None, max_depth=None, tool_timeout_s=None)
# A new log after this many calls: what a Toolbox remembers grows with each.
_CALLS_A_LOG = 1_000
_KEY = "key"
# As for a tool that does not return an object: each can repeat the output of the other.
_VALUE = "result"
_LOST = "not_kept"
_NAME_CHARS = 64
# The hook of the current call, since one tool is shared by all keys.
_asked_verify: ContextVar[VerifyHook | None] = ContextVar("upshot_verify", default=None)


class Codec(Protocol):
    """Converts a function's return value to JSON and back, for the calls that repeat it."""

    def encode(self, value: Any) -> Json:
        """Return *value* as JSON."""
        ...

    def decode(self, value: Json) -> Any:
        """Return the value that ``encode`` was given."""
        ...


@dataclass(eq=False)
class _Ticket:
    """A call in progress: the journal's thread says when it may run, the caller how it ended."""

    verify: VerifyHook | None = None
    started: futures.Future[ToolContext] = field(default_factory=futures.Future[ToolContext])
    ended: futures.Future[JsonObject] = field(default_factory=futures.Future[JsonObject])

    @contextmanager
    def given_up(self) -> Generator[None]:
        """Settle the call as not made if its caller is stopped before it may run."""
        try:
            yield
        except BaseException:
            self.ended.set_exception(NotDone("its caller was stopped before it ran"))
            raise

    @contextmanager
    def settle_as_made(self, value: object, codec: Codec | None) -> Generator[None]:
        """Settle the call as made; an error of the codec is raised once that is safe."""
        try:
            kept = _encode_output(value, codec)
        except BaseException:
            self.ended.set_result({_LOST: type(value).__name__})
            with suppress(Exception):
                yield
            raise
        self.ended.set_result(kept)
        yield


@dataclass(eq=False)
class _Log:
    """A Toolbox with a separate log, for some calls of one tool."""

    box: Toolbox
    left: int = _CALLS_A_LOG


class _Home:
    """The event loop of the open journal, in its own thread unless a loop was given."""

    def __init__(self, place: Place, loop: asyncio.AbstractEventLoop | None) -> None:
        self.pid = os.getpid()
        self.tickets: dict[str, _Ticket] = {}
        self._place = place
        self._stack = AsyncExitStack()
        self._journal: asyncio.Task[Journal] | None = None
        self._logs: dict[Tool, _Log] = {}
        self._is_own = loop is None
        self.is_closed = threading.Event()
        self.loop = loop or asyncio.new_event_loop()
        if self._is_own:
            threading.Thread(target=self._run_loop, name="upshot-ledger", daemon=True).start()

    def _run_loop(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
            self.is_closed.set()

    def submit(self, work: Coroutine[Any, Any, T]) -> futures.Future[T]:
        """Start *work* in the loop; returns at once."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def journal(self) -> Journal:
        """Return the journal; the first call opens it."""
        if self._journal is None:
            opening = self._stack.enter_async_context(open_journal(self._place))
            self._journal = asyncio.ensure_future(opening)
        return await asyncio.shield(self._journal)

    async def ledger(self) -> EffectLedger:
        """Return the ledger of the journal."""
        return needs_ledger(await self.journal())

    async def dispatch(self, tool: Tool, arguments: JsonObject, ticket: _Ticket) -> ToolOutcome:
        """Bring a call to its outcome; the caller runs the function when its ticket says so."""
        await self.ledger()
        log = self._logs.get(tool)
        if log is None or log.left <= 0:
            log = self._logs[tool] = _Log(await self._new_box(tool))
        log.left -= 1
        call_id = secrets.token_hex(8)
        self.tickets[call_id] = ticket
        token = _asked_verify.set(ticket.verify)
        try:
            (outcome,) = await log.box.dispatch([ToolCall(call_id, tool.name, arguments)])
            # The caller gets the outcome only once it is on disk.
            await log.box.flush()
            return outcome
        finally:
            _asked_verify.reset(token)
            del self.tickets[call_id]

    async def _new_box(self, tool: Tool) -> Toolbox:
        journal = await self.journal()
        identity = RunInfo(agent_id="ledger", run_id=f"ledger-{secrets.token_hex(8)}")
        body = read_body(tool.name, tool.description, tool.parameters, self._wait_for_caller)
        made = tool.but(body=body)
        return Toolbox(
            [made],
            journal=journal,
            identity=identity,
            budget=_NO_LIMITS,
            keeps_outputs=True,
        )

    async def _wait_for_caller(self, context: ToolContext, arguments: JsonObject) -> JsonObject:
        """The body of every tool: the caller runs the function and reports how it ended."""
        ticket = self.tickets[context.call_id]
        ticket.started.set_result(context)
        return await asyncio.wrap_future(ticket.ended)

    async def close(self) -> None:
        """Close the journal."""
        await self._stack.aclose()
        if self._is_own:
            self.loop.call_soon(self.loop.stop)
        else:
            self.is_closed.set()


class Ledger:
    """Makes effects only once, for plain and async functions of any program.

    It shares the rows of a journal with runs: an effect that a run made is known here, and vice
    versa, if both use the same effect name and key. Calls may come from any thread, any event loop,
    and from processes that were forked before the first call.

    Args:
        journal: A journal's place, such as ``"effects.db"`` or the URL of a PostgreSQL database; or
            an open journal, given in the event loop where it was opened.

    Raises:
        Misuse: An open journal was given outside of its event loop.
    """

    def __init__(self, journal: Place) -> None:
        self._place = journal
        self._loop: asyncio.AbstractEventLoop | None = None
        if not isinstance(journal, str | os.PathLike):
            self._loop = _running_loop()
            if self._loop is None:
                raise Misuse(
                    "an open journal belongs to its event loop: make the Ledger there, or give "
                    "the place of the journal"
                )
        self._home: _Home | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Ledger({self._place!r})"

    def _current_home(self) -> _Home:
        with self._lock:
            # Threads and connections do not survive a fork; SQLite's refuse to be opened after it.
            if self._home is None or self._home.pid != os.getpid():
                self._home = _Home(self._place, self._loop)
            return self._home

    # -- functions

    def once(
        self,
        *key: str | Callable[[JsonObject], str | None],
        effect_name: str = "",
        verify: VerifyHook | None = None,
        may_differ: str | tuple[str, ...] = (),
        on_repeat: OnRepeat = "repeat",
        keep: timedelta | None = None,
        wait_s: float | None = 60.0,
        codec: Codec | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function, plain or async, so that its effect is made only once for each key.

        The decorated function keeps its signature, name, docstring and type. A second call with the
        same key returns what the first returned, without running the function.

        Args:
            key: The names of the parameters that identify the effect, or one pure function of all
                arguments that JSON can express; if it returns None, the call has no identity.
            effect_name: The name of the effect, which a tool may share; "" is the function's name.
            verify: Asked whether a call of unknown effect took effect; see ``VerifyHook``.
            may_differ: Parameters that may differ in a second call.
            on_repeat: "repeat" returns the first output, "deny" raises AlreadyDone.
            keep: How long after its end the effect is not made again; None means forever.
            wait_s: Seconds to wait for another call of the same effect that is in progress; None
                waits without a limit.
            codec: Converts the function's return value to JSON and back; None expects JSON.

        Returns:
            The decorator. The decorated function also raises:

            - EffectUnknown: An earlier call may have made the effect.
            - InProgress: Another call is making it, and did not end within *wait_s*.
            - Conflict: It was made with other arguments.
            - AlreadyDone: It was made, and *on_repeat* is "deny" or its output was not kept.

        Raises:
            Misuse: No parameter is named, or the function does not have it.
        """
        if not key:
            raise Misuse("once needs the name of a parameter: @ledger.once('order_id')")

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            signature = inspect.signature(function)
            first = key[0]
            once = first if callable(first) else cast("tuple[str, ...]", key)
            tool = _tool_of(function, tuple(signature.parameters), once, wait_s)
            tool = tool.but(
                effect_name=effect_name,
                verify=verify,
                may_differ=may_differ,
                on_repeat=on_repeat,
                keep=keep,
            )

            def arguments_of(*args: P.args, **kwargs: P.kwargs) -> JsonObject:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                named = () if callable(once) else once
                return _as_json(bound.arguments, named)

            if is_async(function):

                @functools.wraps(function)
                async def call_async(*args: P.args, **kwargs: P.kwargs) -> object:
                    body = functools.partial(function, *args, **kwargs)
                    given = arguments_of(*args, **kwargs)
                    return await self._run_async(
                        tool, given, cast("Callable[[], Awaitable[object]]", body), codec
                    )

                return cast("Callable[P, R]", call_async)

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> R:
                body = functools.partial(function, *args, **kwargs)
                found = self._run(tool, arguments_of(*args, **kwargs), body, codec)
                return cast("R", found)

            return call

        return decorate

    def call(self, key: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function* once for *key*; if it is async, await the result.

        Args:
            key: Identifies the effect, such as ``"refund:7"``.
            function: The function that makes the effect.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            What the function returned, now or the first time.

        Raises:
            EffectError: As for ``once``.
        """
        tool, body = _keyed_tool(), functools.partial(function, *args, **kwargs)
        if is_async(function):
            awaited = cast("Callable[[], Awaitable[object]]", body)
            return cast("R", self._run_async(tool, {_KEY: key}, awaited, None))
        return cast("R", self._run(tool, {_KEY: key}, body, None))

    @asynccontextmanager
    async def effect(
        self, key: str, *, verify: VerifyHook | None = None
    ) -> AsyncGenerator[BlockEffect]:
        """Make the effect of *key* in a block, which reports how it ended.

        ``effect.applied(value)`` says that it was made, ``effect.none(why)`` that it certainly was
        not. If the block ends without either, the effect is unknown.

        Raises:
            AlreadyDone: It was made before; ``output`` is the value.
            EffectError: As for ``once``.
        """
        home, ticket = self._current_home(), _Ticket(verify)
        outcome = home.submit(home.dispatch(_keyed_tool(), {_KEY: key}, ticket))
        with ticket.given_up():
            await asyncio.wrap_future(_first_of(ticket.started, outcome))
        if not ticket.started.done():
            settled = await asyncio.wrap_future(outcome)
            output = _output_of(settled, None)
            raise AlreadyDone(f"{key} was already done", settled.repeats, output=output)
        block = BlockEffect(ticket.started.result().idempotency_key)
        try:
            yield block
        except BaseException as error:
            block.end(ticket, error)
            await asyncio.shield(asyncio.wrap_future(outcome))
            raise
        block.end(ticket, None)
        await asyncio.shield(asyncio.wrap_future(outcome))

    # -- the ledger

    async def effects(self, **filters: Unpack[EffectFilters]) -> tuple[EffectEntry, ...]:
        """Return the effects that match, the unknown ones first; see ``EffectFilters``."""
        home = self._current_home()

        async def read() -> tuple[EffectEntry, ...]:
            return tuple(await (await home.ledger()).effects(**filters))

        return await asyncio.wrap_future(home.submit(read()))

    async def settle(self, id: str, *, applied: bool, by: str, note: str = "") -> EffectEntry:
        """Settle an unknown effect and return its entry; the first settlement counts.

        Args:
            id: The id of the effect.
            applied: Whether it was made. If not, its key is free again.
            by: Who found out.
            note: What they saw.

        Raises:
            Misuse: There is no such effect, or it is not unknown.
        """
        home = self._current_home()

        async def work() -> EffectEntry:
            return await settle(await home.ledger(), id, applied=applied, by=by, note=note)

        return await asyncio.wrap_future(home.submit(work()))

    async def aclose(self) -> None:
        """Close the journal; later calls open it again."""
        with self._lock:
            home, self._home = self._home, None
        if home is not None and home.pid == os.getpid():
            await asyncio.wrap_future(home.submit(home.close()))
            await asyncio.to_thread(home.is_closed.wait)

    # -- inside

    def _run(
        self, tool: Tool, arguments: JsonObject, body: Callable[[], object], codec: Codec | None
    ) -> object:
        home, ticket = self._current_home(), _Ticket()
        if _running_loop() is home.loop:
            raise Misuse(
                f"{tool.name} is a plain function, and would block the event loop of the open "
                "journal forever: make it async, call it in a thread, or give the Ledger a place"
            )
        outcome = home.submit(home.dispatch(tool, arguments, ticket))
        with ticket.given_up():
            _first_of(ticket.started, outcome).result()
        if not ticket.started.done():
            return _output_of(outcome.result(), codec)
        try:
            value = body()
        except BaseException as error:
            ticket.ended.set_exception(_to_exception(error))
            outcome.result()
            raise
        with ticket.settle_as_made(value, codec):
            outcome.result()
        return value

    async def _run_async(
        self,
        tool: Tool,
        arguments: JsonObject,
        body: Callable[[], Awaitable[object]],
        codec: Codec | None,
    ) -> object:
        home, ticket = self._current_home(), _Ticket()
        outcome = home.submit(home.dispatch(tool, arguments, ticket))
        with ticket.given_up():
            await asyncio.wrap_future(_first_of(ticket.started, outcome))
        if not ticket.started.done():
            return _output_of(await asyncio.wrap_future(outcome), codec)
        try:
            value = await body()
        except BaseException as error:
            ticket.ended.set_exception(_to_exception(error))
            # Waited for even if the task is cancelled, so that the ledger knows what happened.
            await asyncio.shield(asyncio.wrap_future(outcome))
            raise
        with ticket.settle_as_made(value, codec):
            await asyncio.shield(asyncio.wrap_future(outcome))
        return value


class BlockEffect:
    """The effect of a block of ``Ledger.effect``; the block reports on it how it ended.

    Attributes:
        idempotency_key: Pass it to a service that recognises repetitions.
    """

    def __init__(self, idempotency_key: str) -> None:
        self.idempotency_key = idempotency_key
        self._value: JsonObject | None = None
        self._why: str | None = None

    def applied(self, value: Json = None) -> None:
        """Report that the effect was made; a later block finds *value* in ``AlreadyDone.output``.

        Raises:
            Misuse: The block has already reported how it ended.
        """
        self._check_unreported()
        self._value = _encode_output(value, None)

    def none(self, why: str) -> None:
        """Report that the effect certainly was not made, so that its key is free.

        Raises:
            Misuse: The block has already reported how it ended.
        """
        self._check_unreported()
        self._why = why

    def _check_unreported(self) -> None:
        if self._value is not None or self._why is not None:
            raise Misuse("the block has already reported how the effect ended: report it once")

    def end(self, ticket: _Ticket, error: BaseException | None) -> None:
        """Settle the call; an exception of the block counts if nothing was reported."""
        if self._value is not None:
            ticket.ended.set_result(self._value)
        elif self._why is not None:
            ticket.ended.set_exception(NotDone(self._why))
        elif error is not None:
            ticket.ended.set_exception(_to_exception(error))
        else:
            reason = "the block was left without effect.applied() or effect.none()"
            ticket.ended.set_exception(RuntimeError(reason))


# -- tools of functions


def _unused_body(arguments: JsonObject) -> JsonObject:
    raise NotImplementedError("the body is replaced where the journal is open")


def _tool_of(
    function: Callable[..., object],
    parameters: tuple[str, ...],
    once: tuple[str, ...] | Callable[[JsonObject], str | None],
    wait_s: float | None,
) -> Tool:
    name = str(getattr(function, "__name__", type(function).__name__))
    clean = "".join(one if one.isalnum() and one.isascii() else "_" for one in name)
    schema: JsonObject = {"type": "object", "properties": {one: {} for one in parameters}}
    made = Tool.from_schema(
        clean[:_NAME_CHARS] or "function",
        inspect.getdoc(function) or "",
        schema,
        _unused_body,
        effect="write",
        error_key=None,
    )
    return made.but(once=once, repeatable=True, claim_wait_s=wait_s)


@functools.cache
def _keyed_tool() -> Tool:
    """Return the tool of all effects that are identified by a text."""
    made = Tool.from_schema(
        "effect",
        "An effect that is identified by a text.",
        {"type": "object", "properties": {_KEY: {"type": "string"}}},
        _unused_body,
        effect="write",
        error_key=None,
    )
    return made.but(once=_text_key, repeatable=True, verify=_verify_block)


def _text_key(arguments: JsonObject) -> str:
    return str(arguments[_KEY])


async def _verify_block(asked: UnknownEffect) -> object:
    hook = _asked_verify.get()
    answer = None if hook is None else hook(asked)
    return await answer if inspect.isawaitable(answer) else answer


def _as_json(arguments: dict[str, Any], named: tuple[str, ...]) -> JsonObject:
    """Return the arguments that JSON can express.

    Raises:
        Misuse: JSON cannot express an argument that identifies the effect.
    """
    kept: JsonObject = {}
    for name, value in arguments.items():
        try:
            plain, lossy = to_free_json(value)
        except UnserializableError:
            plain, lossy = None, ("",)
        if not lossy:
            kept[name] = plain
        elif name in named:
            raise Misuse(
                f"{name} identifies the effect, and JSON cannot express {value!r:.60}: pass a text "
                "or a number"
            )
    return kept


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


# -- what a call gives


def _encode_output(value: object, codec: Codec | None) -> JsonObject:
    """Return a value as the ledger stores it."""
    try:
        plain, lossy = to_free_json(value if codec is None else codec.encode(value))
    except UnserializableError:
        plain, lossy = None, ("",)
    return {_LOST: type(value).__name__} if lossy else {_VALUE: plain}


def _to_exception(error: BaseException) -> Exception:
    """Return what settles a call whose function raised *error*; an exit counts as an exception."""
    return error if isinstance(error, Exception) else RuntimeError(named(error))


def _output_of(outcome: ToolOutcome, codec: Codec | None) -> Any:
    """Return the output of a call that did not run.

    Raises:
        EffectError: There is no output to return.
    """
    ref = outcome.repeats
    match outcome:
        case ToolExecutionResult(output=output) if output and _LOST not in output:
            # A tool's output may be any object.
            value = output[_VALUE] if output.keys() == {_VALUE} else output
            return value if codec is None else codec.decode(value)
        case ToolExecutionResult(output=output):
            kind = output.get(_LOST, "its output")
            text = f"the effect was already made, and {kind} was not kept: give a codec"
            raise AlreadyDone(text, ref)
        case ToolDenied(reason=DeniedReason.EFFECT_UNKNOWN, details=details):
            raise EffectUnknown(details, ref)
        case ToolDenied(reason=DeniedReason.CONFLICT, details=details):
            raise Conflict(details, ref)
        case ToolDenied(reason=DeniedReason.DUPLICATE, details=details):
            raise AlreadyDone(details, ref)
        case ToolFailure(code=code, error=text):
            kind = InProgress if code == IN_PROGRESS else EffectUnknown
            raise kind(text, ref)
        case _:
            raise EffectError(f"the call was not made: {outcome!r}", ref)


def _first_of(*given: futures.Future[Any]) -> futures.Future[None]:
    """Return a future that is done as soon as one of *given* is."""
    first: futures.Future[None] = futures.Future()

    def end(_: object) -> None:
        # Two may end at once, in two threads.
        with suppress(futures.InvalidStateError):
            first.set_result(None)

    for one in given:
        one.add_done_callback(end)
    return first
