"""Keeps the checkpoints of a graph of LangGraph in the log of the run that it works in.

Each write of the graph is a step of the run. A session that goes on reads these steps, in order,
and the graph finds its place as with any checkpointer. A value is written as JSON, with its texts
in plain sight, so that secrets in it are masked as everywhere in the log.

Source:
    langgraph-checkpoint 4.3 (``memory``, ``serde/jsonplus.py``), whose values are MessagePack with
    extensions that hold MessagePack again; read in 2026.
"""

from __future__ import annotations

import base64
from importlib import import_module
from typing import Any, Final, cast

import msgspec

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run

_TAG: Final = "~"


async def open_saver(run: Run, host: RunHost) -> Any:
    """A checkpointer with what earlier sessions of the attempt wrote.

    Args:
        run: Whose log it writes to.
        host: Its host.
    """
    memory = import_module("langgraph.checkpoint.memory").InMemorySaver
    log = _Log(run, host)

    async def aput(self: Any, config: Any, checkpoint: Any, metadata: Any, versions: Any) -> Any:
        # Only channels that are new in it are kept with a checkpoint.
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
    """The steps of one attempt."""

    def __init__(self, run: Run, host: RunHost) -> None:
        self._prefix = f"langgraph-{run.attempt}-"
        self._host = host
        self._count = 0

    async def read(self, saver: Any) -> None:
        """Have *saver* do again what the log has."""
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
    """The body of a step that is settled, which is not run."""


def _own(config: Any) -> dict[str, Any]:
    """What of *config* says where something is kept."""
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
