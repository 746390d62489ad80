"""The events of a run, one line each, with the number that ``fork --at`` takes."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from datetime import datetime
from typing import TypeAlias

import msgspec
from rich.text import Text

from upshot.cli.report import pending_text
from upshot.contract.base.structs import JsonObject, RunEvent
from upshot.contract.base.words import clean, duration
from upshot.contract.codec import encode
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    RunSettled,
    RunStarted,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.model_calls import ModelReplied
from upshot.contract.tool_calls import outcome_to_model_content
from upshot.state.activity import ending_of_reply, ending_of_tool
from upshot.state.run_state import RunState

_MAX_CHARS = 400
# Shown before the rest, or the same in all.
_ENVELOPE = ("kind", "run_id", "seq", "time", "attempt", "schema_version", "path")
# Between two events no process worked on the run; a shorter gap is not worth a line.
_WAIT_S = 1.0

Stated: TypeAlias = "tuple[Event, RunState]"


async def event_lines(events: AsyncIterable[Stated]) -> AsyncIterator[Text]:
    """A line for each event: its number, its moment in UTC, its kind and what it says.

    Args:
        events: Those of one run with the state after each, as ``states`` gives them.

    Yields:
        The lines; between two sessions one more, which tells how long the run waited.
    """
    before: datetime | None = None
    was_parked = False
    async for event, state in events:
        if not isinstance(event, RunEvent):
            continue
        if was_parked and before is not None and event.time is not None:
            waited_s = (event.time - before).total_seconds()
            if waited_s >= _WAIT_S:
                yield Text(f"{'':24}nobody worked on it for {duration(waited_s)}", "dim")
        was_parked, before = isinstance(event, RunSettled), event.time or before
        time = "" if event.time is None else f"{event.time:%m-%d %H:%M:%S}"
        kind = str(getattr(event, "kind", ""))
        yield Text.assemble(
            (f"{event.seq:>6}  {time:<16}", "dim"),
            (f"{kind:<20} ", "bold"),
            clean(_said(event, state), _MAX_CHARS),
        )


def _said(event: Event, state: RunState) -> str:
    match event:
        case RunStarted():
            return event.request.text
        case ModelReplied(response=response):
            ended = ending_of_reply(response)
            return f"{ended.word}: {response.content or ended.detail}"
        case ToolStarted(call=call, arguments=arguments):
            return f"{call.name} {_json(arguments)} ({call.id})"
        case ToolSettled(record=record):
            ended = ending_of_tool(record.outcome)
            said = outcome_to_model_content(record.outcome)
            return f"{record.tool_name} ({record.call_id}) {ended.word}: {said}"
        case ApprovalRequested(pending=pending):
            return pending_text(pending)
        case ApprovalAnswered():
            return _json(event.answer)
        case RunSettled(result=result):
            said = result.error.message if result.error is not None else result.content or ""
            return f"{result.status}: {said}"
        case _:
            return _rest(event)


def _rest(event: Event) -> str:
    fields: JsonObject = msgspec.json.decode(encode(event))
    return _json({name: one for name, one in fields.items() if name not in _ENVELOPE})


def _json(value: object) -> str:
    return encode(value).decode()
