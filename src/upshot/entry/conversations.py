"""Begins turns of a conversation: takes the turn, and puts what was said before the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.events import REDACTED
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.protocols import Journal, RunSummary
from upshot.entry.resume import read_past, with_outcomes
from upshot.errors import JournalError, Misuse
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.run_list import TurnClaim, TurnInTheWay
from upshot.runs.plan import Plan, RunOptions, check_encodable
from upshot.runs.redaction import lift_secrets
from upshot.runs.run_context import current_run
from upshot.state.run_state import RunState
from upshot.state.summary import OWNERS, owner_of
from upshot.state.turns import PREPARED, ConversationState, Turn, told_of, turn_of


def with_conversation(request: Request, options: RunOptions, journal: Journal | None) -> Request:
    """*request* of the conversation that the call names.

    Raises:
        Misuse: The request names another one, or there is no journal.
    """
    id = options.get("conversation")
    if id and journal is None:
        raise Misuse("a conversation is kept in a journal: give journal= with conversation=")
    if not id or id == request.context_id:
        return request
    check_encodable("conversation", id)
    if request.context_id:
        raise Misuse(
            f"conversation is {id!r}, and the request's context_id is {request.context_id!r}: "
            "give one of them"
        )
    return replace(request, context_id=id)


def names_conversation(request: object, options: RunOptions) -> bool:
    """Whether the call is of a conversation, as far as it says so itself."""
    named = request.context_id if isinstance(request, Request) else ""
    return bool(options.get("conversation") or named)


class Part(msgspec.Struct, frozen=True):
    """How a run takes part in its conversation.

    Attributes:
        conversation: The conversation.
        head: The first run of its turn, "" where it takes none.
        sees: Whether it is given the messages.
        tells: Whether it is told what waits, and does not wait for that.
    """

    conversation: str
    head: str
    sees: bool = True
    tells: bool = False

    @property
    def claim(self) -> TurnClaim | None:
        """The turn to take, None for none."""
        return TurnClaim(self.conversation, self.head, self.tells) if self.head else None


async def part_of(
    plan: Plan, options: RunOptions, journal: Journal, *, head: str, sees: bool
) -> Part | None:
    """How a run that is about to begin takes part in its conversation; None where it does not.

    Args:
        plan: The run.
        options: Of the call.
        journal: Where its log goes.
        head: The first run of the turn, where the request was handed over; else "".
        sees: Whether a run that it was handed to is given the messages.
    """
    id = plan.request.context_id
    if not id:
        return None
    is_inside = not head and await _is_inside(plan, options, journal)
    if is_inside and not options.get("conversation"):
        return None
    if not hasattr(journal, "claim_turn"):
        raise Misuse(
            f"{type(journal).__name__} keeps no conversations, since it has no claim_turn(): give "
            "the path of a journal, or a request without a context_id"
        )
    takes_turn = not is_inside and options.get("remember") is not False
    tells = options.get("if_waiting") == "tell"
    return Part(id, (head or plan.run_id) if takes_turn else "", sees, tells)


async def _is_inside(plan: Plan, options: RunOptions, journal: Journal) -> bool:
    """Whether it is a child run of another run of the conversation."""
    id, link = plan.request.context_id, current_run.get()
    if link is not None and link.context.plan.request.context_id == id:
        return True
    parents = await journal.runs(run_id=plan.parent_run_id) if plan.parent_run_id else ()
    return any(parent.context_id == id for parent in parents)


async def check_not_redacted(runs: Sequence[RunSummary], journal: Journal) -> None:
    """Refuse to go on with a conversation of which these are *runs*, where it was redacted."""
    for run in runs:
        if run.request == REDACTED and run.events:
            # It may be what a user said; the log tells.
            await read_past(run.run_id, journal)


async def joined(plan: Plan, options: RunOptions, journal: Journal, part: Part) -> Plan:
    """*plan* with what was said in the conversation, and what is still to be told of it.

    Raises:
        Misuse: A history is given, and the conversation has one.
    """
    found = await _read(part.conversation, plan, journal, without=part.head)
    await check_not_redacted(found.runs[:1], journal)
    if found.seed.revision and options.get("history"):
        raise Misuse(
            f"history is given, and conversation {part.conversation!r} has its own by now: give a "
            "history with its first turn only"
        )
    earlier = (*found.undone, *(found.waiting if part.tells else ()))
    told = told_of(earlier)
    said = found.messages if part.sees else ()
    messages = with_outcomes(said, plan.request)
    is_prepared = plan.prepare is not None or plan.resume_from is not None
    is_named = bool(said) and messages is said and not (plan.secrets or is_prepared)
    return replace(
        plan,
        history=(*messages, *plan.history, *(() if told is None else (told,))),
        asked=tuple(message for _, message in found.asked) if said else (),
        attributes=_with_owner(plan.attributes, found.runs),
        taint=plan.taint or (found.taint if said or earlier else None),
        named_seed=(found.seed, said) if is_named else None,
        turn=Turn(
            head="" if part.head == plan.run_id else part.head,
            revision=found.seed.revision,
            remember=bool(part.head),
            known=PREPARED.known if is_prepared else len(messages),
            earlier=earlier,
            tokens=found.tokens if said else None,
        ),
    )


def _with_owner(attributes: JsonObject, runs: Sequence[RunSummary]) -> JsonObject:
    """The attributes of a turn; one that says no user is the user's whose conversation it is."""
    if any(owner_of(attributes)) or not runs:
        return attributes
    named = zip(OWNERS, (runs[0].owner, runs[0].tenant), strict=True)
    return {**attributes, **{name: value for name, value in named if value}}


async def _read(id: str, plan: Plan, journal: Journal, *, without: str = "") -> ConversationState:
    """Read the conversation of a run, with its secrets in the place of their marks."""
    secrets = plan.secrets
    read = (lambda: lift_secrets(secrets, hides_others=False)) if secrets else None
    # Those that have turns have this.
    return await cast("MemoryJournal", journal).read_turns(id, read=read, without=without)


async def asked_before(turn: Turn, plan: Plan, journal: Journal) -> tuple[Message, ...]:
    """What the user said in the turns before one that goes on."""
    if turn.known <= 0:
        return ()
    found = await _read(plan.request.context_id, plan, journal)
    return tuple(message for revision, message in found.asked if revision <= turn.revision)


def claim_again(past: RunState) -> TurnClaim | None:
    """The turn that a run takes again which goes on; None where it has none.

    Turns that wait are passed, for they may have passed it.
    """
    started = past.started
    turn = None if started is None else turn_of(started.options)
    if started is None or turn is None or not turn.remember:
        return None
    return TurnClaim(started.request.context_id, turn.head or started.run_id, passes=True)


async def check_not_passed(plan: Plan, past: RunState, journal: Journal) -> None:
    """See that a turn that was stopped goes on only while no other one was committed since.

    Raises:
        Misuse: One was, or it was itself.
    """
    turn, id = plan.turn, plan.request.context_id
    # One that waits may have been passed; one that has an end is only handed back.
    if turn is None or not turn.remember or past.last_settled is not None:
        return
    now = (await cast("MemoryJournal", journal).conversation(id)).revision
    if now != turn.revision:
        raise Misuse(
            f"run {plan.run_id} was stopped, and its conversation {id!r} has gone on since: begin "
            "another turn"
        )


async def conflicting(plan: Plan, journal: Journal, other: TurnInTheWay) -> Plan:
    """*plan* of a run that ends before it begins, since another one has the turn."""
    pending: list[Any] = []
    if other.status == Status.INPUT_REQUIRED:
        past = await read_past(other.run_id, journal)
        pending = [to_free_json(msgspec.to_builtins(one))[0] for one in past.pending]
    error = AgentError(
        ErrorCode.CONFLICT,
        _in_the_way(plan.request.context_id, other),
        retryable=True,
        origin=Origin.CALLER,
        details={"run_id": other.run_id, "status": other.status, "pending": pending},
    )
    # Nothing of it is logged: the same request may be made again, under the same id.
    return replace(plan, journal=None, conflict=error)


def taken_error(run_id: str, conversation: str, other: TurnInTheWay) -> JournalError:
    """The exception for a turn that cannot go on, since another one is under way."""
    said = _in_the_way(conversation, other)
    return JournalError(f"run {run_id} cannot go on now: {said}", run_id=run_id)


def _in_the_way(conversation: str, other: TurnInTheWay) -> str:
    """What the other turn does, and how to go on."""
    what = _WHAT[other.status].format(run_id=other.run_id)
    return f"Run {other.run_id} has the turn of conversation {conversation!r} and {what}"


_WHAT = {
    "running": "is under way: wait for its end.",
    "input_required": (
        "waits for answers: resume({run_id!r}, ..., answers=[...]), or begin all the same with "
        "if_waiting='tell'."
    ),
    "died": (
        "its process ended: go on with resume({run_id!r}, ...), or end it with "
        "cancel({run_id!r}, ...)."
    ),
}
