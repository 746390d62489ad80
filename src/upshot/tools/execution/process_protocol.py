"""What a tool's own process is told, and what it tells: one JSON line each."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject


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
    """

    message: str
    code: str | None = None
    retryable: bool = True
    retry_after_s: float | None = None
    effect: Effect | None = None
    cut: bool = False


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
