"""Start turns of a conversation: claim the turn, and put earlier messages before the request."""

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
from upshot.state.turns import PREPARED, ConversationState, Turn, note_on_calls, turn_of


def with_conversation(request: Request, options: RunOptions, journal: Journal | None) -> Request:
    """Return *request* with the conversation that the call names.

    Raises:
        Misuse: The request names another conversation, or there is no journal.
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
    """Whether the call itself names a conversation."""
    named = request.context_id if isinstance(request, Request) else ""
    return bool(options.get("conversation") or named)


class Part(msgspec.Struct, frozen=True):
    """How a run takes part in its conversation.

    Attributes:
        conversation: The conversation.
        head: The first run of its turn; "" if it has no turn.
        sees: Whether it gets the messages of the conversation.
        tells: Whether it starts even if another turn waits, and is informed of what it waits for.
    """

    conversation: str
    head: str
    sees: bool = True
    tells: bool = False

    @property
    def claim(self) -> TurnClaim | None:
        """The turn to claim; None for none."""
        return TurnClaim(self.conversation, self.head, self.tells) if self.head else None


async def part_of(
    plan: Plan, options: RunOptions, journal: Journal, *, head: str, sees: bool
) -> Part | None:
    """Return how a new run takes part in its conversation, or None if it does not.

    Args:
        plan: The plan of the run.
        options: The options of the call.
        journal: The journal that stores its log.
        head: The first run of the turn if the request was handed over; else "".
        sees: Whether a run that receives a handoff gets the messages.
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
    """Refuse to continue a conversation with these *runs* if it was redacted."""
    for run in runs:
        if run.request == REDACTED and run.events:
            # The user may have written the marker; the log says whether it was redacted.
            await read_past(run.run_id, journal)


async def with_earlier_turns(plan: Plan, options: RunOptions, journal: Journal, part: Part) -> Plan:
    """Return *plan* with the messages of the conversation and notes on its uncommitted turns.

    Raises:
        Misuse: A history is given, and the conversation has messages.
    """
    found = await _read_conversation(part.conversation, plan, journal, without=part.head)
    await check_not_redacted(found.runs[:1], journal)
    if found.seed.revision and options.get("history"):
        raise Misuse(
            f"history is given, and conversation {part.conversation!r} has messages already: give "
            "a history with its first turn only"
        )
    earlier = (*found.undone, *(found.waiting if part.tells else ()))
    note = note_on_calls(earlier)
    earlier_messages = found.messages if part.sees else ()
    messages = with_outcomes(earlier_messages, plan.request)
    is_prepared = plan.is_prepared or plan.resume_from is not None
    is_named = (
        bool(earlier_messages)
        and messages is earlier_messages
        and not (plan.secrets or is_prepared)
    )
    return replace(
        plan,
        history=(*messages, *plan.history, *(() if note is None else (note,))),
        asked=tuple(message for _, message in found.asked) if earlier_messages else (),
        attributes=_with_owner(plan.attributes, found.runs),
        taint=plan.taint or (found.taint if earlier_messages or earlier else None),
        named_seed=(found.seed, earlier_messages) if is_named else None,
        turn=Turn(
            head="" if part.head == plan.run_id else part.head,
            revision=found.seed.revision,
            remember=bool(part.head),
            known=PREPARED.known if is_prepared else len(messages),
            earlier=earlier,
            tokens=found.tokens if earlier_messages else None,
        ),
    )


def _with_owner(attributes: JsonObject, runs: Sequence[RunSummary]) -> JsonObject:
    """Return the attributes of a turn; without a user, it gets the owner of the conversation."""
    if any(owner_of(attributes)) or not runs:
        return attributes
    named = zip(OWNERS, (runs[0].owner, runs[0].tenant), strict=True)
    return {**attributes, **{name: value for name, value in named if value}}


async def _read_conversation(
    id: str, plan: Plan, journal: Journal, *, without: str = ""
) -> ConversationState:
    """Read the conversation of a run, with secrets in place of their marks."""
    secrets = plan.secrets
    read = (lambda: lift_secrets(secrets, hides_others=False)) if secrets else None
    # Every journal with turns has this method.
    return await cast("MemoryJournal", journal).read_turns(id, read=read, without=without)


async def asked_before(turn: Turn, plan: Plan, journal: Journal) -> tuple[Message, ...]:
    """Return the user's messages in the turns before one that is resumed."""
    if turn.known <= 0:
        return ()
    found = await _read_conversation(plan.request.context_id, plan, journal)
    return tuple(message for revision, message in found.asked if revision <= turn.revision)


def claim_again(past: RunState) -> TurnClaim | None:
    """Return the turn that a resumed run claims again, or None if it has none.

    It passes turns that wait for answers, because they may have passed it.
    """
    started = past.started
    turn = None if started is None else turn_of(started.options)
    if started is None or turn is None or not turn.remember:
        return None
    return TurnClaim(started.request.context_id, turn.head or started.run_id, passes=True)


async def check_not_passed(plan: Plan, past: RunState, journal: Journal) -> None:
    """Check that no other turn was committed since a stopped turn, which is to continue.

    Raises:
        Misuse: Another turn was committed, or this one was.
    """
    turn, id = plan.turn, plan.request.context_id
    # A parked turn may have been passed; a settled one only returns its result.
    if turn is None or not turn.remember or past.last_settled is not None:
        return
    now = (await cast("MemoryJournal", journal).conversation(id)).revision
    if now != turn.revision:
        raise Misuse(
            f"run {plan.run_id} was stopped, and its conversation {id!r} has continued since: "
            "start another turn"
        )


async def conflicting(plan: Plan, journal: Journal, other: TurnInTheWay) -> Plan:
    """Return *plan* for a run that ends before it starts, because another one has the turn."""
    pending: list[Any] = []
    if other.status == Status.INPUT_REQUIRED:
        past = await read_past(other.run_id, journal)
        pending = [to_free_json(msgspec.to_builtins(one))[0] for one in past.pending]
    error = AgentError(
        ErrorCode.CONFLICT,
        _describe_conflict(plan.request.context_id, other),
        retryable=True,
        origin=Origin.CALLER,
        details={"run_id": other.run_id, "status": other.status, "pending": pending},
    )
    # Nothing is logged: the same request may be made again, under the same id.
    return replace(plan, journal=None, conflict=error)


def conversation_taken_error(run_id: str, conversation: str, other: TurnInTheWay) -> JournalError:
    """Return the exception for a turn that cannot continue, because another one is running."""
    text = _describe_conflict(conversation, other)
    return JournalError(f"run {run_id} cannot continue now: {text}", run_id=run_id)


def _describe_conflict(conversation: str, other: TurnInTheWay) -> str:
    """Describe the other turn, and how to proceed."""
    what = _WHAT[other.status].format(run_id=other.run_id)
    return f"Run {other.run_id} has the turn of conversation {conversation!r} and {what}"


_WHAT = {
    "running": "is under way: wait for its end.",
    "input_required": (
        "waits for answers: resume({run_id!r}, ..., answers=[...]), or start anyway with "
        "if_waiting='tell'."
    ),
    "died": (
        "its process ended: continue it with resume({run_id!r}, ...), or end it with "
        "cancel({run_id!r}, ...)."
    ),
}
