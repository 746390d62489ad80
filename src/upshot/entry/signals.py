"""Signals: values that any process sends to a run, and that its engine waits for by name.

A signal is stored like an answer to a question, beside the log, whether or not the run waits for
it yet. If the run is parked and waits for it, it becomes due. A session looks for stored signals
when it starts to wait, and once more when its park is on disk, so none is missed in between.

Of a chain of handoffs, the last run gets a signal. What an earlier run got and has not read is
passed on when the next run starts. If the request is handed over while a signal is being sent, the
sender sends it to the next run too; the key makes these one.
"""

from __future__ import annotations

from typing import Literal, TypeAlias
from uuid import uuid4

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.structs import Json
from upshot.contract.pending import Answer
from upshot.contract.protocols import Journal
from upshot.entry.resume import read_begun, runs_above
from upshot.errors import Misuse
from upshot.journal.shared import PlacedAnswer, SharedJournal, needs_shared
from upshot.state.child_runs import CHAIN_OPTION, child_id
from upshot.state.run_state import RunState, item_of
from upshot.state.signals import (
    EXPIRED,
    check_signal_name,
    numbers_of,
    signal_item,
    signal_of_item,
)

Delivery: TypeAlias = Literal["delivered", "repeated", "ended"]
"""The outcome of sending a signal: it is stored for the run; an earlier one had its key; or the run
has ended, and nothing reads it."""


async def send_signal(
    run_id: str, name: str, value: Json, *, journal: Journal, key: str = "", by: str = ""
) -> Delivery:
    """Send a signal to one run; see ``RunHandle.signal``."""
    check_signal_name(name)
    sent, key = _answer(name, value, by), key or uuid4().hex
    past = await read_begun(run_id, journal)
    shared = needs_shared(journal)
    kept = await shared.placed_answers(run_id)
    is_known = any(one.key == key for one in kept)
    if is_known or await _has_been_read(key, run_id, past, journal):
        return "repeated"
    if past.ended:
        return "ended"
    number = 1 + max(_numbers_read(name, past), default=0)
    while True:
        item = signal_item(f"{name}#{number}")
        new = PlacedAnswer(run_id=run_id, item=item, answer=sent, at=SYSTEM_CLOCK.now(), key=key)
        standing = await shared.place_answer(new)
        if standing == new:
            break
        if standing is not None and standing.key == key:
            return "repeated"
        number += 1
    past = await read_begun(run_id, journal)
    if past.ended and number not in _numbers_read(name, past) and not _hands_over(past):
        # It ended at the same moment.
        return "ended"
    if any(item_of(past, one) == item for one in past.waits.values()):
        root = run_id
        async for _, outer in runs_above(past, run_id, journal):
            root = outer
        await shared.make_due(root, "answered")
    return "delivered"


def _hands_over(past: RunState) -> bool:
    settled = past.last_settled
    return settled is not None and settled.result.handoff is not None


async def pass_signals_on(run_id: str, next_id: str, journal: Journal) -> None:
    """Send the signals that a run has not read to the next run of its chain of handoffs."""
    shared = needs_shared(journal)
    left = [one for one in await shared.placed_answers(run_id) if signal_of_item(one.item)[1]]
    past = await read_begun(run_id, journal) if left else RunState()
    for one in left:
        name, number = signal_of_item(one.item)
        if number not in _numbers_read(name, past) and isinstance(one.answer, Answer):
            value, by = one.answer.value, one.answer.by
            await send_signal(next_id, name, value, journal=journal, key=one.key, by=by)


async def _has_been_read(key: str, run_id: str, past: RunState, journal: Journal) -> bool:
    """Whether an earlier run of the chain of handoffs has read the signal with this key."""
    shared = needs_shared(journal)
    while run_id := await _run_before(run_id, past, shared):
        past = await read_begun(run_id, journal)
        for one in await shared.placed_answers(run_id):
            name, number = signal_of_item(one.item)
            if one.key == key and number in _numbers_read(name, past):
                return True
    return False


async def _run_before(run_id: str, past: RunState, shared: SharedJournal) -> str:
    """Return the run that handed its request over to this one, "" if there is none."""
    if past.started is None:
        new = await shared.submission(run_id)
        return "" if new is None else new.after
    before = past.started.parent_run_id or ""
    return before if run_id == child_id(CHAIN_OPTION, before) else ""


def _numbers_read(name: str, past: RunState) -> set[int]:
    """Return the numbers of the signals of a name that a run has read."""
    # A fork has read signals that were sent to the run that it comes from.
    return numbers_of(name, (id for id, got in past.answers_given.items() if got != EXPIRED))


def _answer(name: str, value: Json, by: str) -> Answer:
    try:
        return Answer(name, value, by=by)
    except Misuse as error:
        raise Misuse(f"the signal {name!r} cannot be sent: {error}") from error
