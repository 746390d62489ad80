"""Reads a log to resume or fork a run: its state, its history, and the checks before that."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.base.checks import did_you_mean, format_value
from upshot.contract.base.enums import DeniedReason, Effect, Role, Status
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.effects import ledger_of
from upshot.contract.events import (
    ApprovalAnswered,
    Event,
    RunSettled,
    RunStarted,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.message import Message, Unknown
from upshot.contract.model_calls import Request
from upshot.contract.pending import Approve, Edit, TaintOrigin
from upshot.contract.protocols import Engine, Journal, Note
from upshot.contract.result import AgentResult
from upshot.contract.run_control import SPEC_VERSION, Checkpoint
from upshot.contract.tool_calls import ToolCall, ToolDenied, ToolRecord, outcome_to_model_content
from upshot.errors import Misuse
from upshot.journal.artifact_store import StoredArtifact
from upshot.journal.export_file import ExportedRun, read_lines, write_lines
from upshot.journal.opening import open_journal
from upshot.journal.shared import shared_journal
from upshot.runs.callbacks import call, raised
from upshot.runs.plan import (
    ASK_WRITES_OPTION,
    UNLOGGED,
    Plan,
    RunOptions,
    Where,
    check_run_id,
    lacks,
)
from upshot.runs.redaction import lift_secrets, masking_reader
from upshot.runs.resumption import (
    is_asked,
    is_under_way,
    point_of,
    reads_checkpoints,
    usage_so_far,
)
from upshot.state.board import Board
from upshot.state.child_runs import FORKED_FROM, TURN_OPTION, end_step, origins_of
from upshot.state.redacted_events import redaction_error
from upshot.state.run_state import RunState
from upshot.state.stored_events import read_event, seeds_of, with_seed
from upshot.state.turns import PREPARED

T = TypeVar("T")
# The nearest id is searched among this many of the newest runs.
_MAX_NAMED = 1_000


async def read_past(run_id: str, journal: Journal, *, secrets: Sequence[str] = ()) -> RunState:
    """Fold the log of a run; raise Misuse if it has none or was redacted."""
    past = RunState()
    await fold_new_events(past, run_id, journal, secrets=secrets)
    if past.started is None:
        if await journal.runs(run_id=run_id):
            raise Misuse(f"the journal lists the run {run_id!r}, but has no events of it")
        ids = [summary.run_id for summary in await journal.runs(limit=_MAX_NAMED)]
        hint = did_you_mean(run_id, ids, "`upshot runs` lists those it has")
        raise Misuse(f"the journal has no run {run_id!r}: {hint}")
    if past.started.redacted is not None:
        raise redaction_error(run_id, past.started.redacted)
    return past


async def read_begun(run_id: str, journal: Journal) -> RunState:
    """Fold the log of a run. The result is empty if the run was submitted and has not started.

    Raises:
        Misuse: There is no such run.
    """
    past, shared = RunState(), shared_journal(journal)
    await fold_new_events(past, run_id, journal)
    if past.started is not None or (shared and await shared.submission(run_id)):
        return past
    return await read_past(run_id, journal)


async def fold_new_events(
    past: RunState, run_id: str, journal: Journal, *, secrets: Sequence[str] = ()
) -> None:
    """Fold what was logged since *past* was read, with secrets in place of their marks."""
    # Tools and models work with the real values.
    read = lift_secrets(secrets, hides_others=False)
    if past.started is not None:
        read(past.started)
    async for event in journal.events(run_id, after=past.seq):
        if isinstance(event, RunStarted):
            past.show = masking_reader(secrets, event)
        whole = await with_seed(read(event), seeds_of(journal), past)
        read_event(past, whole)


async def runs_above(
    past: RunState, run_id: str, journal: Journal
) -> AsyncIterator[tuple[RunState, str]]:
    """Yield the logs and ids of the runs around a child run, the nearest first."""
    inner, inner_id = past, run_id
    while inner.started is not None and inner.started.parent_run_id:
        outer, outer_id = RunState(), inner.started.parent_run_id
        await fold_new_events(outer, outer_id, journal)
        if inner_id not in outer.children:
            # The caller named this parent, or its log is elsewhere.
            return
        yield outer, outer_id
        inner, inner_id = outer, outer_id


async def with_settlements(result: AgentResult[T], journal: Journal) -> AgentResult[T]:
    """Return *result*, read from a log, with its unknown effects as settled since.

    Only ``settled`` of the outcomes is filled in; what the log says stays.
    """
    records = await settled_since(result.tool_records, result.run_id, journal)
    if records is result.tool_records:
        return result
    known = {one.call_id: one.outcome for one in records}
    outcomes = tuple(known.get(one.call_id, one) for one in result.tool_outcomes)
    return replace(result, tool_records=records, tool_outcomes=outcomes)


async def settled_since(
    records: tuple[ToolRecord, ...], run_id: str, journal: Journal
) -> tuple[ToolRecord, ...]:
    """Return *records* of a run, with the ledger's settlements of unknown effects."""
    ledger = ledger_of(journal)
    if ledger is None or not any(map(_is_open, records)):
        return records
    entries = await ledger.effects(run_id=run_id)
    known = {one.call_id: one.settled for one in entries if one.settled is not None}
    if known.keys().isdisjoint(one.call_id for one in records if _is_open(one)):
        return records
    return tuple(
        replace(one, outcome=replace(one.outcome, settled=known.get(one.call_id)))
        if _is_open(one)
        else one
        for one in records
    )


def _is_open(record: ToolRecord) -> bool:
    return record.outcome.effect is Effect.UNKNOWN and record.outcome.settled is None


async def read_children(past: RunState, journal: Journal) -> None:
    """Find the usage of child runs that had not ended when the log was written."""
    origins = set[str]() if past.started is None else set(origins_of(past.started.options))
    for run_id, spent in past.children.items():
        # If it has ended, the parent's log has its usage, and its own need not be read.
        if spent is not None and spent.is_final:
            continue
        child = RunState()
        await fold_new_events(child, run_id, journal)
        # A child run that had not ended when its parent was forked runs again.
        if child.started is not None and child.started.parent_run_id not in origins:
            await read_children(child, journal)
            found = past.children_found[run_id] = usage_so_far(child)
            if child.last_settled is not None and found.is_final:
                end = end_step(run_id, found, child.last_settled.result.error)
                past.ends_found = (*past.ends_found, end)


def history_of(
    request: Request, options: RunOptions
) -> tuple[Sequence[Message], TaintOrigin | None]:
    """Return the messages that a run starts with, by its options, and what tainted them.

    A call that was not made, such as one that still waits for approval, is shown as cancelled:
    providers reject a conversation in which a call has no outcome.
    """
    history = options.get("history") or ()
    if isinstance(history, AgentResult):
        taint = history.taint
        taint = None if taint is None else taint.seen_from(history.run_id)
        messages_so_far: Sequence[Message] = history.all_messages()
        board = history.last_board
        if isinstance(board, Board) and board.compacted is not None:
            messages_so_far = board.sent()
        return with_outcomes(messages_so_far, request), taint
    return (with_outcomes(_messages(history), request) if history else ()), None


def _messages(history: object) -> tuple[Message, ...]:
    items = (
        tuple(cast("Iterable[object]", history)) if isinstance(history, Iterable) else (history,)
    )
    for item in items:
        if not isinstance(item, Message):
            wanted = "messages, such as Message('user', 'Hi')"
            raise Misuse(f"history must be {wanted}, got {format_value(item)} in it")
    return cast("tuple[Message, ...]", items)


def with_outcomes(messages: Sequence[Message], request: Request) -> Sequence[Message]:
    """Return *messages* with an outcome added for each call that has none.

    An outcome may come anywhere after its call, and may be the request itself.
    """
    waiting = _unanswered_calls([*messages, request.to_message()])
    if not any(waiting.values()):
        return messages
    closed: list[Message] = []
    missing: list[ToolCall] = []
    for place, message in enumerate(messages):
        if message.role is not Role.TOOL:
            closed += map(_cancelled_outcome, missing)
            missing = []
        missing += waiting.get(place, ())
        closed.append(message)
    return [*closed, *map(_cancelled_outcome, missing)]


def _unanswered_calls(messages: Sequence[Message]) -> dict[int, list[ToolCall]]:
    """Return the calls that no later message answers, by the index of their reply."""
    waiting = {place: list(one.tool_calls) for place, one in enumerate(messages)}
    replies = [(place, one) for place, one in enumerate(messages) if one.role is Role.TOOL]
    # An outcome without an id fits any call, so those that name theirs come first.
    for place, outcome in sorted(replies, key=lambda one: not one[1].tool_call_id):
        _remove_answered(waiting, place, outcome.tool_call_id)
    return waiting


def _remove_answered(waiting: dict[int, list[ToolCall]], place: int, call_id: str | None) -> None:
    """Remove the call that the outcome at *place* answers.

    It is the nearest one before it, because providers reuse ids.
    """
    for before in range(place - 1, -1, -1):
        for number, asked in enumerate(waiting[before]):
            if not call_id or asked.id == call_id:
                del waiting[before][number]
                return


def _cancelled_outcome(call: ToolCall) -> Message:
    outcome = ToolDenied(
        call_id=call.id,
        tool_name=call.name,
        reason=DeniedReason.CANCELLED,
        details="the conversation went on without it",
    )
    return Message(
        Role.TOOL, outcome_to_model_content(outcome), tool_call_id=call.id, name=call.name
    )


async def check_checkpoint(checkpoint: Checkpoint | None, engine: Engine, agent_id: str) -> None:
    """Check that a checkpoint belongs to this agent, and that its engine can start there.

    Raises:
        Misuse: It belongs to another agent, or the engine cannot.
    """
    if checkpoint is None:
        return
    if checkpoint.agent_id and checkpoint.agent_id != agent_id:
        raise Misuse(
            f"the checkpoint is of agent {checkpoint.agent_id!r}, and the run is for {agent_id!r}: "
            "give the agent that made it"
        )
    name = type(engine).__name__
    if checkpoint.spec_version != SPEC_VERSION:
        raise Misuse(
            f"the checkpoint is of the form {checkpoint.spec_version!r}, and this version reads "
            f"{SPEC_VERSION!r}"
        )
    if not callable(getattr(engine, "can_resume", None)):
        if reads_checkpoints(engine):
            return
        raise Misuse(f"{name} cannot resume: it has no can_resume(checkpoint)")
    if not await _can_resume(engine, checkpoint):
        raise Misuse(f"{name} cannot resume from the checkpoint at step {checkpoint.step!r}")


def check_unlogged(past: RunState, plan: Plan) -> None:
    """Check that a resumed run is given again the options that a log cannot store.

    Raises:
        Misuse: It is missing or differs: its tools would get something else, or be called without a
            guard.
    """
    if getattr(plan.engine, "only_waits", False):
        return
    for name, otherwise in UNLOGGED.items():
        logged, now = past.options.get(name), plan.given(name)
        if logged and lacks(logged, now):
            but = f", and has {_join_names(now)} now" if now else ""
            raise Misuse(
                f"run {plan.run_id!r} was given {name} ({_join_names(logged)}), which no log can "
                f"hold{but}: give it again with resume(..., {name}=...){otherwise}"
            )


def _join_names(names: Json) -> str:
    return ", ".join(map(str, names)) if isinstance(names, list) else str(names)


async def check_onward(past: RunState, plan: Plan) -> None:
    """Ask an engine whether it can continue from where the log of its run ends."""
    engine = plan.engine
    if not is_under_way(past) or not is_asked(engine):
        return
    point = point_of(past)
    if not await _can_resume(engine, point):
        name = type(engine).__name__
        place = f"at step {point.step!r}" if point.step else "where no checkpoint was made"
        raise Misuse(
            f"{name} cannot continue run {plan.run_id!r}, which stopped {place}: start another "
            "run, or make its can_resume(checkpoint) return True"
        )


async def _can_resume(engine: Engine, checkpoint: Checkpoint) -> bool:
    """Return what ``can_resume`` of an engine says."""
    name = type(engine).__name__
    try:
        return bool(await call(cast("Any", engine).can_resume, checkpoint))
    except Exception as error:
        # The caller's engine failed; nothing has started.
        raise Misuse(raised(f"{name}.can_resume", error)) from error


async def fork_run(
    run_id: str, *, at: int, journal: Where, conversation: str = "", ask_writes: bool = False
) -> str:
    """See ``fork``."""
    check_run_id(run_id)
    if not isinstance(conversation, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"conversation must be a string, got {format_value(conversation)}")
    if not isinstance(at, int) or isinstance(at, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"at is {at!r:.60}: give the seq of an event of the run, from 1")
    async with open_journal(journal, create=False) as opened:
        new_id = f"run-{token_hex(8)}"
        with tempfile.TemporaryDirectory(prefix="upshot-") as folder:
            whole, part = os.path.join(folder, "whole"), os.path.join(folder, "part")
            # Export and import: every journal can then fork, and checks what it imports.
            events = await opened.export(run_id, whole)
            if not 1 <= at <= events:
                raise Misuse(f"run {run_id} has no event {at}: give one from 1 to {events}")
            new = _Fork(new_id, at, conversation, ask_writes)
            await asyncio.to_thread(_write_fork, whole, part, new)
            return await opened.import_(part)


class _Fork(NamedTuple):
    """The arguments of a fork; see ``fork``."""

    run_id: str
    at: int
    conversation: str
    ask_writes: bool


def _write_fork(whole: str, part: str, new: _Fork) -> None:
    """Write the first events of the run in *whole* to *part*, as a new run.

    Approvals in them do not count in the fork; ``RunState.forked_at`` tells them from its own.
    """
    at, approved = new.at, _Approved()
    bodies: list[bytes] = []
    artifacts: list[StoredArtifact] = []
    last: Event | None = None
    for line in read_lines(whole):
        if isinstance(line, StoredArtifact):
            artifacts.append(line)
        elif isinstance(line, Note):
            continue
        elif line.entry.seq <= at:
            last = line.event
            event = line.event
            if isinstance(event, RunStarted):
                if event.redacted is not None:
                    raise redaction_error(event.run_id, event.redacted)
                event = _to_forked_start(event, new)
            bodies.append(_to_forked_event(event, line.entry.seq, new.run_id))
            approved.add(event)
    if isinstance(last, RunSettled) and last.result.status is not Status.INPUT_REQUIRED:
        raise Misuse(f"the run has ended at event {at}: fork it at an earlier one")
    approved.check(at)
    kept = [one for one in artifacts if any(one.id.encode() in body for body in bodies)]
    # Ids of artifacts are hard to guess, so nothing else in the log reads like one.
    names = {one.id.encode(): f"art-{token_hex(12)}".encode() for one in kept}
    # The fork gets copies: the other run may be removed with its artifacts.
    renamed = [replace(one, id=names[one.id.encode()].decode(), run_id=new.run_id) for one in kept]
    bodies = [_replace_ids(body, names) for body in bodies]
    write_lines(part, ExportedRun(new.run_id, len(bodies), bodies, len(renamed), renamed))


class _Approved:
    """Collects the approved calls of a run that have not started."""

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}

    def add(self, event: Event) -> None:
        """Process the next event."""
        match event:
            case ApprovalAnswered(answer=Approve() | Edit()):
                self._calls[event.call_id] = event.seq
            case ToolStarted(call=call):
                self._calls.pop(call.id, None)
            case ToolSettled():
                self._calls.pop(event.record.call_id, None)
            case _:
                pass

    def check(self, at: int) -> None:
        """Raise Misuse if a call was approved and had not started at the event *at*."""
        if self._calls:
            raise Misuse(
                f"a call that was approved had not started at event {at}, and needs a new "
                f"approval: fork the run at event {min(self._calls.values()) - 1} or earlier"
            )


def _replace_ids(body: bytes, names: dict[bytes, bytes]) -> bytes:
    for old, new in names.items():
        body = body.replace(old, new)
    return body


def _to_forked_event(event: Event, seq: int, new_id: str) -> bytes:
    if isinstance(event, Unknown):
        raise Misuse(f"event {seq} is of a kind that this version does not know")
    return encode(replace(event, run_id=new_id))


def _to_forked_start(event: RunStarted, new: _Fork) -> RunStarted:
    """Return the first event of a fork; its only conversation is the one that the call names."""
    conversation = new.conversation
    origins = event.options.get(FORKED_FROM)
    known = origins if isinstance(origins, list) else []
    origin: Json = {"run_id": event.run_id, "seq": new.at}
    options = {**event.options, FORKED_FROM: [*known, origin]}
    options.pop(TURN_OPTION, None)
    if new.ask_writes:
        options[ASK_WRITES_OPTION] = True
    if conversation:
        # The messages on its board that come from another conversation were not said in this one.
        options[TURN_OPTION] = msgspec.to_builtins(PREPARED)
    # It may hold the id that the caller chose for the other run.
    request = replace(event.request, run_id="", context_id=conversation)
    return replace(event, options=options, request=request)
