"""Scripts as JSON, for ``scripted:FILE`` on a command line."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import msgspec

from ..contract import AgentError, ModelResponse, ToolCall
from ..contract.article import kind_of
from ..contract.json_fault import json_fault
from ..errors import Misuse
from .scripted import Reply, ScriptedModel

__all__ = ["open_script"]

_FORMS = (
    'a text, a call {"name": ..., "arguments": {...}}, a list of calls, '
    '{"error": {"code": ..., "message": ...}}, or the fields of a ModelResponse'
)


def open_script(where: str) -> ScriptedModel:
    """Make the model that plays the script *where*.

    Args:
        where: The path of a JSON file, or the JSON itself if it begins with "[" or a quotation
            mark: a list of replies, or one text. A reply is a text, a call
            ``{"name": ..., "arguments": {...}}`` (its id is made up unless it is given), a list
            of calls, ``{"error": {"code": ..., "message": ...}}``, or the fields of a
            ``ModelResponse`` such as content and usage.

    Raises:
        Misuse: There is no such file, or it holds no script.
    """
    inline = where.startswith(("[", '"'))
    what = "the script" if inline else f"the script {where!r}"
    if not where:
        raise Misuse('scripted: needs a script: write scripted:FILE.json or scripted:["Hello"]')
    script = _parse(where if inline else _read(where), what)
    if isinstance(script, str):
        script = [script]
    if not isinstance(script, list):
        raise Misuse(f"{what} is no list: give a JSON list of replies; a reply is {_FORMS}")
    items = cast("list[object]", script)
    replies = [_to_reply(item, place, what) for place, item in enumerate(items)]
    return ScriptedModel(replies, name="scripted:script" if inline else f"scripted:{where}")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Misuse(f"cannot read the script {path!r}: {error.strerror or error}") from error


def _parse(data: bytes | str, what: str) -> object:
    if not data.strip():
        raise Misuse(f"{what} is empty: give a JSON list of replies")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Misuse(f"{what} is no JSON: {json_fault(error)}") from error


def _to_reply(item: object, place: int, what: str) -> Reply:
    try:
        if isinstance(item, str):
            return item
        if isinstance(item, list):
            calls = cast("list[object]", item)
            return [_to_call(call, f"call-{place}-{index}") for index, call in enumerate(calls)]
        if isinstance(item, dict):
            return _to_other(cast("dict[str, object]", item), place)
    except msgspec.ValidationError as error:
        raise Misuse(f"reply {place} of {what} cannot be read: {error}") from error
    raise Misuse(f"reply {place} of {what} is {kind_of(item)}: a reply is {_FORMS}")


def _to_other(fields: dict[str, object], place: int) -> Reply:
    if "name" in fields:
        return _to_call(fields, f"call-{place}")
    if set(fields) == {"error"}:
        return msgspec.convert(fields["error"], AgentError)
    unknown = sorted(set(fields) - {"kind", *ModelResponse.__struct_fields__})
    if unknown:
        raise msgspec.ValidationError(f"{unknown[0]!r} is no field of a ModelResponse")
    calls = fields.get("tool_calls")
    if isinstance(calls, list):
        calls = cast("list[object]", calls)
        named = [_with_id(call, f"call-{place}-{index}") for index, call in enumerate(calls)]
        fields = {**fields, "tool_calls": named}
    return msgspec.convert({"kind": "model_response", **fields}, ModelResponse)


def _to_call(call: object, ident: str) -> ToolCall:
    return msgspec.convert(_with_id(call, ident), ToolCall)


def _with_id(call: object, ident: str) -> object:
    if not isinstance(call, dict):
        return call
    return {"kind": "tool_call", "id": ident, **cast("dict[str, object]", call)}
