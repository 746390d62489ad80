"""Signals: values that any process sends to a run, and that its engine waits for by name.

A signal is stored like an answer to a question, beside the log, whether or not the run waits for
it yet. If the run is parked and waits for it, it becomes due. A session looks for stored signals
when it starts to wait, and once more when its park is on disk, so none is missed in between.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, Unpack
from uuid import uuid4

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.structs import Json
from upshot.contract.pending import Answer
from upshot.contract.protocols import Journal, RunFilters
from upshot.entry.resume import read_begun, runs_above
from upshot.errors import Misuse
from upshot.journal.shared import PlacedAnswer, needs_shared
from upshot.state.run_state import item_of
from upshot.state.signals import EXPIRED, check_signal_name, numbers_of, signal_item

Delivery: TypeAlias = Literal["delivered", "repeated", "ended"]
"""The outcome of sending a signal: it is stored for the run; an earlier one had its key; or the run
had ended, and nothing was stored."""

_PAGE = 500


async def send_signal(
    run_id: str, name: str, value: Json, *, journal: Journal, key: str = "", by: str = ""
) -> Delivery:
    """Send a signal to one run; see ``RunHandle.signal``."""
    check_signal_name(name)
    shared, past = needs_shared(journal), await read_begun(run_id, journal)
    if past.ended:
        return "ended"
    sent = _answer(name, value, by)
    kept = await shared.placed_answers(run_id)
    key = key or uuid4().hex
    # A fork has taken signals that were sent to the run that it comes from.
    taken = numbers_of(name, (id for id, got in past.answers_given.items() if got != EXPIRED))
    number = 1 + max(taken, default=0)
    while True:
        item = signal_item(f"{name}#{number}")
        new = PlacedAnswer(run_id=run_id, item=item, answer=sent, at=SYSTEM_CLOCK.now(), key=key)
        standing = next((one for one in kept if one.key == key), None)
        standing = standing or await shared.place_answer(new)
        if standing == new:
            break
        if standing is not None and standing.key == key:
            return "repeated"
        number += 1
    past = await read_begun(run_id, journal)
    if any(item_of(past, one) == item for one in past.waits.values()):
        root = run_id
        async for _, outer in runs_above(past, run_id, journal):
            root = outer
        await shared.make_due(root, "answered")
    return "delivered"


async def broadcast_signal(
    name: str,
    value: Json,
    *,
    journal: Journal,
    key: str = "",
    by: str = "",
    **filters: Unpack[RunFilters],
) -> list[str]:
    """Send a signal to every run that has not ended; see ``upshot.broadcast``."""
    check_signal_name(name)
    key, before, found = key or uuid4().hex, "", list[str]()
    while page := await journal.runs(**{"limit": _PAGE, **filters, "before": before}):
        for run in page:
            if run.ended:
                continue
            delivery = await send_signal(run.run_id, name, value, journal=journal, key=key, by=by)
            found += [run.run_id] if delivery != "ended" else []
        before = page[-1].run_id
    return found


def _answer(name: str, value: Json, by: str) -> Answer:
    try:
        return Answer(name, value, by=by)
    except Misuse as error:
        raise Misuse(f"the signal {name!r} cannot be sent: {error}") from error
