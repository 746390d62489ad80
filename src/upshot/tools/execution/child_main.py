"""The second of a tool's own two processes: it imports the function and calls it.

It is told an ``Order`` and tells ``Line``s, one JSON line each.
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
    """What the process shall do.

    Attributes:
        module: Where the function is.
        file: That module's file.
        name: The function's name in it.
        tool: The tool's name.
        arguments: Valid arguments.
        cpu_s: Processor seconds, None for no limit.
        memory_bytes: Size of the address space, None for no limit.
        context: What its ``ToolContext`` tells, by field.
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
    """The function tells how far it is.

    Attributes:
        text: For the user.
        data: For programs.
    """

    text: str
    data: Json = None


class Gave(_Line, frozen=True):
    """The function returned.

    Attributes:
        value: What, as free JSON.
        lossy: Paths of what JSON cannot hold.
    """

    value: Json
    lossy: tuple[str, ...] = ()


class Raise(_Line, frozen=True):
    """The function raised.

    Attributes:
        message: What.
        code: A word for it, None for none.
        retryable: Whether the same call may be made again.
        retry_after_s: Seconds to wait before that.
        effect: What it did outside, None where it does not say.
        cut: Whether it was ended by a limit, or ended itself, and not by its own word.
        unsent: Whether another try may succeed, if what was raised proves that nothing was sent;
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
    """The function returned what JSON cannot hold.

    Attributes:
        message: Why.
    """

    message: str


class Unloadable(_Line, frozen=True):
    """The function was not found.

    Attributes:
        message: Why.
    """

    message: str


class Exited(_Line, frozen=True):
    """The process has ended, and all that it had started.

    Attributes:
        status: Its exit code; below 0 the signal that ended it.
    """

    status: int


Line: TypeAlias = Began | Progressed | Gave | Raise | Unwritable | Unloadable | Exited

_decoder = msgspec.json.Decoder(Line)


def encode_line(line: Line | Order) -> bytes:
    """*line* with its line feed."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(data: bytes) -> Line | None:
    """Read a line; None for what is none, such as one that a kill has cut."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        return None


MEMORY_LIMIT = "memory_limit"
_PARTS = get_args(Part)


def work(order: bytes) -> NoReturn:
    """Do what *order* says, tell of it on standard output, and end the process."""
    mouth = _Mouth()
    try:
        _obey(msgspec.json.decode(order, type=Order), mouth)
    except BaseException as error:  # this process has no caller that could be told
        mouth.say(_raised(error))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Neither threads nor exit handlers of the tool may keep it: its answer is given.
    os._exit(0)


class _Mouth:
    """Where lines go; what the tool prints goes to standard error."""

    def __init__(self) -> None:
        # A copy is not handed on to programs that the tool starts.
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
            # Progress never fails a tool, as it does not elsewhere.
            return


def _obey(order: Order, mouth: _Mouth) -> None:
    try:
        _limit(order)
        body = _find(order)
        values = body.build(order.arguments)
    except Exception as error:  # a foreign module is imported, and may do anything
        mouth.say(Unloadable(f"{order.name} of {order.module or order.file}: {named(error)}"))
        return
    mouth.say(Began())
    # It sees nothing of the caller's objects, and nobody can tell it that it was given up.
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


def _limit(order: Order) -> None:
    if order.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (order.memory_bytes, order.memory_bytes))
    if order.cpu_s is not None:
        seconds = math.ceil(order.cpu_s)
        # The second, hard one is for a tool that ignores the signal of the first.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def _find(order: Order) -> FunctionBody:
    found: object = _load(order.module, order.file)
    for part in order.name.split("."):
        found = getattr(found, part)
    if isinstance(found, Tool):
        return cast("FunctionBody", found.body)
    # Made a tool under another name, as by tool(...)(function).
    function = cast("Callable[..., object]", found)
    return FunctionBody(function, order.tool)


def _load(module: str, file: str) -> ModuleType:
    if module:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not file or not (module == error.name or module.startswith(f"{error.name}.")):
                raise
    # Not "__main__": what a script does only when it is run must not be done again.
    name = module or "__upshot_main__"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _raised(error: BaseException) -> Raise:
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
