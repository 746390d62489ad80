"""Notes that users attach to runs, such as thumbs and labels."""

from __future__ import annotations

from datetime import UTC, datetime

from upshot.contract.base.checks import Allowed, check_argument
from upshot.contract.base.json_values import to_json
from upshot.contract.base.structs import Json
from upshot.contract.protocols import Note
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.journal.shared import needs_shared
from upshot.runs.plan import Where, check_run_id

_STRING = Allowed("a string", (str,))
_NAME_CHARS, _VALUE_BYTES = 100, 10_000


async def keep_note(run_id: str, name: str, value: Json, *, by: str, journal: Where) -> None:
    """Store a note on a run; see ``upshot.note``."""
    check_run_id(run_id)
    check_argument("name", name, _STRING)
    check_argument("by", by, _STRING)
    if not 0 < len(name) <= _NAME_CHARS:
        raise Misuse(f"name has {len(name)} characters: give from 1 to {_NAME_CHARS}")
    try:
        size = len(to_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Misuse(f"value cannot be JSON: {error}") from error
    if size > _VALUE_BYTES:
        raise Misuse(f"value is {size} bytes of JSON: give at most {_VALUE_BYTES}")
    async with open_journal(journal) as opened:
        if not await opened.runs(run_id=run_id):
            raise Misuse(f"the journal has no run {run_id!r}")
        note = Note(run_id=run_id, name=name, value=value, by=by, at=datetime.now(UTC))
        await needs_shared(opened).keep_note(note)
