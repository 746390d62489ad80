"""The worker process of an isolated tool: it imports the function and calls it.

It reads an ``Order`` and writes ``Line`` messages, each as one line of JSON.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import math
import os
import resource
import sys
import threading
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, NoReturn, TypeAlias, cast, get_args

import msgspec

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Part
from upshot.contract.tool_context import CancelToken, make_context
from upshot.native.unsent import find_proof
from upshot.tools.definition.body import FunctionBody
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError, named


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process should run.

    Attributes:
        module: The module of the function.
        file: The file of that module.
        name: The name of the function in the module.
        tool: The name of the tool.
        arguments: Valid arguments.
        cpu_s: Processor seconds, None for no limit.
        memory_bytes: Size of the address space, None for no limit.
        context: The fields of its ``ToolContext``.
    """

    module: str
    file: str
    name: str
    tool: str
    arguments: JsonObject
    cpu_s: float | None
    memory_bytes: int | None
    context: JsonObject


class _Line(msgspec.Struct, frozen=True, tag_field="kind", tag=str.lower):
    pass


class Began(_Line, frozen=True):
    """The function is about to be called."""


class Progressed(_Line, frozen=True):
    """The function reports its progress.

    Attributes:
        text: For the user.
        data: For programs.
    """

    text: str
    data: Json = None


class Gave(_Line, frozen=True):
    """The function returned.

    Attributes:
        value: The returned value as free JSON.
        lossy: Paths of values that JSON cannot represent.
    """

    value: Json
    lossy: tuple[str, ...] = ()


class Raise(_Line, frozen=True):
    """The function raised.

    Attributes:
        message: The text of the exception.
        code: A word for the error, or None.
        retryable: Whether the same call may be made again.
        retry_after_s: Seconds to wait before that.
        effect: What it changed outside; None if it does not say.
        cut: Whether it was ended by a limit or exited, rather than raising an ordinary error.
        unsent: Whether a retry may succeed, if the exception proves that nothing was sent;
            None if it proves nothing.
    """

    message: str
    code: str | None = None
    retryable: bool = True
    retry_after_s: float | None = None
    effect: Effect | None = None
    cut: bool = False
    unsent: bool | None = None


class Unwritable(_Line, frozen=True):
    """The function returned a value that JSON cannot represent.

    Attributes:
        message: Why.
    """

    message: str


class Unloadable(_Line, frozen=True):
    """The function could not be found or imported.

    Attributes:
        message: Why.
    """

    message: str


class Exited(_Line, frozen=True):
    """The process has ended, along with everything it had started.

    Attributes:
        status: Its exit code; if negative, the signal that ended it.
    """

    status: int


Line: TypeAlias = Began | Progressed | Gave | Raise | Unwritable | Unloadable | Exited

_decoder = msgspec.json.Decoder(Line)


def encode_line(line: Line | Order) -> bytes:
    """Encode *line*, with its line feed."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(data: bytes) -> Line | None:
    """Decode a line; None if it is not one, for instance because a kill cut it short."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None


MEMORY_LIMIT = "memory_limit"
_PARTS = get_args(Part)


def work(order: bytes) -> NoReturn:
    """Carry out *order*, report on standard output, and end the process."""
    mouth = _LineWriter()
    try:
        _run_order(msgspec.json.decode(order, type=Order), mouth)
    except BaseException as error:  # this process has no caller that could catch it
        mouth.say(_to_raise(error))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # The answer is written, so neither threads nor exit handlers of the tool may delay the end.
    os._exit(0)


class _LineWriter:
    """Writes lines to the caller; what the tool prints is redirected to standard error."""

    def __init__(self) -> None:
        # A duplicated descriptor is not inherited by programs that the tool starts.
        self._fd = os.dup(1)
        self._lock = threading.Lock()
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def say(self, line: Line) -> None:
        left = memoryview(encode_line(line))
        with self._lock:
            while left:
                left = left[os.write(self._fd, left) :]

    def tell(self, text: str, data: Json = None) -> None:
        try:
            self.say(Progressed(str(text), to_free_json(data)[0]))
        except (UnserializableError, OSError):
            # Reporting progress never fails a tool.
            return


def _run_order(order: Order, mouth: _LineWriter) -> None:
    try:
        _set_limits(order)
        body = _load_body(order)
        values = body.build(order.arguments)
    except Exception as error:  # importing a foreign module may raise anything
        mouth.say(Unloadable(f"{order.name} of {order.module or order.file}: {named(error)}"))
        return
    mouth.say(Began())
    # The process has none of the caller's objects, and cannot learn that it was abandoned.
    context = make_context(order.context, cancelled=CancelToken(), tell=mouth.tell)
    value = body.start(values, context)
    if inspect.iscoroutine(value):
        value = asyncio.run(cast("Coroutine[Any, Any, object]", value))
    try:
        converted, lossy = to_free_json(value)
    except UnserializableError as error:
        mouth.say(Unwritable(str(error)))
        return
    if isinstance(value, _PARTS):
        converted = {"result": converted}
    mouth.say(Gave(converted, tuple(lossy)))


def _set_limits(order: Order) -> None:
    if order.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (order.memory_bytes, order.memory_bytes))
    if order.cpu_s is not None:
        seconds = math.ceil(order.cpu_s)
        # The second, hard limit is for a tool that ignores the signal of the first.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def _load_body(order: Order) -> FunctionBody:
    found: object = _load(order.module, order.file)
    for part in order.name.split("."):
        found = getattr(found, part)
    if isinstance(found, Tool):
        return cast("FunctionBody", found.body)
    # Turned into a tool under another name, as with tool(...)(function).
    function = cast("Callable[..., object]", found)
    return FunctionBody(function, order.tool)


def _load(module: str, file: str) -> ModuleType:
    if module:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not file or not (module == error.name or module.startswith(f"{error.name}.")):
                raise
    # Not "__main__", so that the code a script runs only as a program is not run again.
    name = module or "__upshot_main__"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _to_raise(error: BaseException) -> Raise:
    if isinstance(error, ToolError):
        return Raise(
            error.message, error.code, error.retryable, error.retry_after_s, effect=error.effect
        )
    if isinstance(error, MemoryError):
        return Raise("The tool needed more memory than it may use.", MEMORY_LIMIT, cut=True)
    proof = find_proof(error)
    return Raise(
        named(error),
        cut=not isinstance(error, Exception),
        unsent=None if proof is None else proof.retryable,
    )
