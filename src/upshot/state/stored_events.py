"""The stored form of events, and how the rest of each event is derived.

A fact is in the log once. What earlier events of the same run already say is left out when an event
is stored: the arguments of a call are in the reply, the text of an outcome is in the event that
settled it, the result is in everything before. ``to_stored`` leaves it out and ``filled`` puts it
back. Both use the state of the log before the event, so that one undoes the other: a value is left
out only if the derived value equals it. ``literal`` names the few fields that look as if they had
been left out and were not.

``journal.events`` returns events as stored. ``states`` returns whole events, each with the state of
the run after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import chain
from operator import is_not, methodcaller
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import force_setattr

from upshot.contract.base.enums import Effect, Role, Status
from upshot.contract.base.json_values import to_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.events import (
    ApprovalRequested,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    Event,
    RunResumed,
    RunSettled,
    SeedReference,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.message import (
    MAIN_CHANNEL,
    TAINTED,
    Artifact,
    Message,
    Part,
    Text,
    Unknown,
    mark_tainted,
    without_mark,
)
from upshot.contract.model_calls import (
    UNFINISHED,
    CountedCall,
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    RequestDigests,
    counted,
    counted_run,
    is_unmeasured_answer,
    sum_of,
)
from upshot.contract.pending import Pending, PendingApproval, PendingExternal
from upshot.contract.result import OUTPUT_VAR, AgentResult
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolCall,
    ToolRecord,
    fence,
    outcome_to_model_content,
    plain_text_of,
)
from upshot.contract.usage import Cost, Usage
from upshot.errors import JournalError
from upshot.state.board import Board
from upshot.state.child_runs import FORKED_FROM
from upshot.state.request_digests import chain_of, digest_of_messages
from upshot.state.run_effects import child_runs_in, effects_in
from upshot.state.run_state import LogIndex, RunState, item_of
from upshot.state.summary import answer_text, calls_in, tools_in

S = TypeVar("S", bound=msgspec.Struct)
# A started tool's call is stored with its id only. Copied, because creating one runs checks.
_UNNAMED = ToolCall("", "")
_NO_REQUEST = RequestDigests()
_copy: Callable[[Any], Any] = methodcaller("__copy__")
_NO_NAMES = {"call_id": "", "tool_name": ""}
# Reads the messages of a conversation at a revision.
Seeds: TypeAlias = Callable[[SeedReference], Awaitable[Iterable[Message]]]
# What a state says that the fields of an event will contain, by field name.
Derived = dict[str, Any]


def to_stored(state: RunState, event: Event) -> Event:
    """Return *event* without what the log already has.

    Args:
        state: The state of the run before the event.
        event: Whole and stamped; it is not changed.
    """
    if type(event) is BoardChanged:
        return _by_reference(state, event)
    nested, derive = _DERIVE.get(type(event), _WHOLE)
    if derive is None or isinstance(event, Unknown):
        return event
    whole: msgspec.Struct = getattr(event, nested) if nested else event
    less, literal = _omit_derived(whole, derive(state, event))
    if type(event) is ToolStarted:
        literal += _leave_out_call(state, event, less)
    elif type(event) is ToolSettled:
        literal += _leave_out_names(event.record, less)
    elif type(event) is ModelStarted:
        literal += _leave_out_request(state, event, less)
    if nested and less:
        less = Derived({nested: _copy_with(whole, less)})
    if type(event) is RunSettled:
        less |= _list_fields(state, event)
    if literal:
        less["literal"] = (*event.literal, *literal)
    return _copy_with(event, less) if less else event


def filled(state: RunState, event: Event) -> Event:
    """Return a stored *event* with all that the log says about it.

    Args:
        state: The state of the run before the event.
        event: As the journal returns it; it is not changed.
    """
    if isinstance(event, BoardChanged):
        return _resolve_refs(state, event)
    nested, derive = _DERIVE.get(type(event), _WHOLE)
    if derive is None or isinstance(event, Unknown):
        return event
    if isinstance(event, ToolStarted):
        event = _with_call(state, event)
    elif isinstance(event, ToolSettled):
        event = _with_names(state, event)
    elif isinstance(event, ModelStarted):
        event = _with_request(state, event)
    derived = derive(state, event)
    part: msgspec.Struct = getattr(event, nested) if nested else event
    more = _restore_derived(part, derived, event.literal)
    if isinstance(event, RunSettled):
        # In a log read from a file, the result has its cost but not in its usage.
        result = event.result
        more["usage"] = result.usage.with_cost(result.cost if result.usage else None)
    changes: Derived = {nested: _copy_with(part, more)} if nested and more else more
    if event.literal:
        changes["literal"] = ()
    if isinstance(event, RunSettled):
        changes |= {name: _defaults_of(RunSettled)[name] for name in _LISTED}
    return _copy_with(event, changes) if changes else event


def read_event(state: RunState, stored: Event) -> Event:
    """Fold an event as the journal returns it.

    Args:
        state: The state of the run before the event.
        stored: As it is stored, with the conversation messages that it refers to.

    Returns:
        The event, whole except for a result, which is built only on request: see
        ``result_of``.
    """
    if type(stored) is not RunSettled:
        stored = filled(state, stored)
    state.add(stored)
    return stored


def seeds_of(journal: object) -> Seeds | None:
    """Return the function that reads conversation messages from *journal*; None if it has none."""
    return getattr(journal, "seed_messages", None)


async def with_seed(event: Event, seeds: Seeds | None, state: RunState | None = None) -> Event:
    """Return *event* with the conversation messages that it refers to, if it refers to any.

    Args:
        event: As it is stored.
        seeds: See ``states``.
        state: The state of the run before the event, which is updated; None if it is not needed.

    Raises:
        JournalError: They cannot be read, or are not the messages that the run started with.
    """
    if type(event) is not BoardChanged or (seed := event.seed) is None:
        return event
    if seeds is None:
        raise _seed_error(event, seed, "cannot be read here")
    known = tuple(await seeds(seed))
    whole = with_messages(event, known)
    if state is not None:
        name_seed(state, seed, known)
    return whole


def name_seed(state: RunState, seed: SeedReference, messages: tuple[Message, ...]) -> None:
    """Record in *state* that the run starts with *messages* and its log only refers to them.

    Neither they nor their request digests are logged again.
    """
    state.named_seed = seed, messages
    state.sent = chain_of(messages)


def with_messages(event: BoardChanged, messages: Iterable[Message]) -> BoardChanged:
    """Return *event*, which refers to messages of a conversation, with these *messages*.

    Raises:
        JournalError: They are not the messages that the run started with.
    """
    seed, known = event.seed or SeedReference(), tuple(messages)
    if digest_of_messages(known) == seed.digest:
        return _copy_with(event, {"messages": (*known, *event.messages), "seed": None})
    raise _seed_error(event, seed, "has other messages now")


def _seed_error(event: BoardChanged, seed: SeedReference, what: str) -> JournalError:
    return JournalError(
        f"run {event.run_id!r} started with revision {seed.revision} of the conversation "
        f"{seed.conversation!r}, which {what}: read the log with seeds= that returns its messages",
        run_id=event.run_id,
        seq=event.seq,
    )


async def states(
    events: AsyncIterable[Event] | Iterable[Event],
    *,
    read: Callable[[Event], Event] | None = None,
    seeds: Seeds | None = None,
) -> AsyncIterator[tuple[Event, RunState]]:
    """Read the log of a run: every event whole, with the state of the run after it.

    Args:
        events: From the first on, as ``journal.events(run_id)`` returns them.
        read: Called with each of them first; ``lift_secrets(secrets)`` returns one that replaces
            the marks by the run's secrets, or by ``***``. None leaves the marks.
        seeds: Returns the messages of a conversation that a run started with, if its log only
            refers to them; ``journal.seed_messages`` is one. None cannot read such a log.

    Yields:
        The event and the state. It is always the same state object, which the next event changes.

    Raises:
        JournalError: This version does not know the kind of an event, or *seeds* is needed and
            does not return the right messages.
    """
    state = RunState()
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield await next_event(state, event, read, seeds), state
    else:
        for event in events:
            yield await next_event(state, event, read, seeds), state


async def next_event(
    state: RunState, event: Event, read: Callable[[Event], Event] | None, seeds: Seeds | None
) -> Event:
    """Fold the next event of a log; returns it whole. See ``states``."""
    event = await with_seed(event if read is None else read(event), seeds, state)
    event = read_event(state, event)
    return filled(state, event) if type(event) is RunSettled else event


def result_of(state: RunState) -> AgentResult[Json] | None:
    """Return the result of the last session, None if it was cut off or none has ended."""
    settled = state.last_settled
    if settled is None:
        return None
    return cast("RunSettled", filled(state, settled)).result


# -- leaving out and putting back


def _omit_derived(value: msgspec.Struct, derived: Derived) -> tuple[Derived, tuple[str, ...]]:
    """Return defaults for the fields of *value* that can be derived, and the names of fields that
    look as if they had been left out and were not.
    """
    defaults, less, literal = _defaults_of(type(value)), Derived(), ()
    for name, known in derived.items():
        given, default = getattr(value, name), defaults[name]
        if given is known or _is_same(given, known):
            if given is not default:
                less[name] = default
        elif given == default:
            literal += (name,)
    return less, literal


def _restore_derived(value: msgspec.Struct, derived: Derived, literal: tuple[str, ...]) -> Derived:
    """Return the values of the fields of *value* that were left out."""
    defaults = _defaults_of(type(value))
    return {
        name: known
        for name, known in derived.items()
        if getattr(value, name) == defaults[name] and name not in literal
    }


def _copy_with(value: S, fields: Mapping[str, Any]) -> S:
    copy: S = _copy(value)
    for name, field in fields.items():
        force_setattr(copy, name, field)
    return copy


@cache
def _defaults_of(kind: type[msgspec.Struct]) -> Derived:
    """Return the defaults of the fields of a struct. Do not change default objects."""
    found: Derived = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = cast("Callable[[], Any]", field.default_factory)()
        elif field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
    return found


def _is_same(given: Any, known: Any) -> bool:
    """Whether two values are equal, and equal as JSON."""
    if given is known:
        return True
    kind: Any = given.__class__
    if kind is not type(known) or given != known:
        return False
    # 1, 1.0 and True are equal in Python but different in JSON.
    if kind is tuple and not any(map(is_not, given, known)):
        return True
    return not issubclass(kind, dict | list | tuple) or to_json(given) == to_json(known)


# -- what each event can be derived from; fields that are always written are not listed


def _of_model_started(state: RunState, event: ModelStarted) -> Derived:
    return {"turn": state.turn + 1, "model": state.model}


def _leave_out_request(state: RunState, event: ModelStarted, less: Derived) -> tuple[str, ...]:
    """Keep only the digests of new messages if the rest is as in the previous request; returns the
    names of literal fields.
    """
    given = event.request
    if given is None:
        return ()
    last = None if state.open_model is None else state.open_model.request
    if last is None or not (sent := given.added or state.sent):
        return ()
    # Compared field by field, because this runs in each step and creating another is slower.
    if (
        given.messages == sent[-1]
        and given.count == len(state.sent) + len(given.added)
        and given.tools == last.tools
        and given.settings == last.settings
        and given.instructions == last.instructions
    ):
        less["request"] = lean = _copy(_NO_REQUEST)
        force_setattr(lean, "added", given.added)
        return ()
    return ("request",) if _is_lean(given) else ()


def _with_request(state: RunState, event: ModelStarted) -> ModelStarted:
    given = event.request
    if given is None or not _is_lean(given):
        return event
    if "request" in event.literal:
        literal = tuple(name for name in event.literal if name != "request")
        return _copy_with(event, {"literal": literal})
    known = _request_after(state, given.added)
    return event if known is None else _copy_with(event, {"request": known})


def _is_lean(request: RequestDigests) -> bool:
    return not (request.count or request.messages)


def _request_after(state: RunState, added: tuple[str, ...]) -> RequestDigests | None:
    """Return the previous request with more messages; None if there is none."""
    last = None if state.open_model is None else state.open_model.request
    sent = added or state.sent
    if last is None or not sent:
        return None
    return RequestDigests(
        instructions=last.instructions,
        tools=last.tools,
        settings=last.settings,
        messages=sent[-1],
        count=len(state.sent) + len(added),
        added=added,
    )


def _of_model_call(state: RunState, event: ModelRetried | ModelReplied) -> Derived:
    asked = state.open_model
    if asked is None:
        return {}
    derived: Derived = {"turn": asked.turn, "model": asked.model, "tries": state.tries + 1}
    return derived if type(event) is ModelRetried else {**derived, "purpose": asked.purpose}


def _of_tool_started(state: RunState, event: ToolStarted) -> Derived:
    derived: Derived = {"turn": state.turn}
    if (last := _index(state).started_tools.get(event.call.name)) is not None:
        derived["effect"] = last.effect
        derived["idempotent"] = last.idempotent
        derived["tool_version"] = last.tool_version
    return derived


def _leave_out_call(state: RunState, event: ToolStarted, less: Derived) -> tuple[str, ...]:
    """Keep only the id of a call that is in the last reply, and only changed arguments; returns the
    names of literal fields.
    """
    asked, call, arguments = state.call_of(event.call.id), event.call, event.arguments
    literal: tuple[str, ...] = ()
    if asked is not None and (asked is call or _is_same_call(asked, call)):
        less["call"] = _copy_with(_UNNAMED, {"id": asked.id})
    elif not call.name:
        literal = ("call",)
    given = _object_of(call)
    if given is arguments:
        less["arguments"] = {}
    # A difference can express arguments that were added or changed, but not removed ones.
    elif given.keys() <= arguments.keys():
        less["arguments"] = {
            name: value
            for name, value in arguments.items()
            if name not in given or not _is_same(value, given[name])
        }
    else:
        literal += ("arguments",)
    return literal


def _with_call(state: RunState, event: ToolStarted) -> ToolStarted:
    call, arguments = event.call, event.arguments
    asked = state.call_of(call.id)
    if not call.name and asked is not None and "call" not in event.literal:
        call = asked
    if "arguments" not in event.literal:
        arguments = {**_object_of(call), **arguments}
    literal = tuple(name for name in event.literal if name not in ("arguments", "call"))
    return _copy_with(event, {"call": call, "arguments": arguments, "literal": literal})


def _is_same_call(asked: ToolCall, call: ToolCall) -> bool:
    return asked == call and _is_same(asked.arguments, call.arguments)


def _object_of(call: ToolCall) -> JsonObject:
    """Return the arguments of *call* as an object, empty if they are not an object."""
    if isinstance(call.arguments, dict):
        return call.arguments
    try:
        read: object = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return {}
    return cast("JsonObject", read) if isinstance(read, dict) else {}


def _of_record(state: RunState, event: ToolSettled) -> Derived:
    given = event.record
    started, call = state.unsettled.get(given.call_id), _call_of(state, given.call_id)
    outcome = given.outcome
    derived: Derived = {
        "run_id": event.run_id,
        "parent_run_id": "" if state.started is None else state.started.parent_run_id,
        "turn": state.turn,
    }
    if isinstance(outcome, ToolArtifactReference):
        derived["artifact_id"] = outcome.artifact_id
    if call is not None:
        derived["tool_name"] = call.name
        derived["arguments_given"] = call.arguments
        if (last := _index(state).settled_tools.get(call.name)) is not None:
            derived["tool_version"] = last.tool_version
            derived["declared_effect"] = last.declared_effect
            derived["trace"] = last.trace
            derived["mode"] = last.mode
            derived["trust"] = last.trust
    text = _index(state).texts[given.call_id] = outcome_to_model_content(outcome)
    if started is not None:
        # The start of this call overrides what the last call of the tool says.
        derived |= {
            "turn": started.turn,
            "tool_version": started.tool_version,
            "declared_effect": started.effect,
            "arguments_validated": started.arguments,
            "arguments_executed": started.arguments,
            "argument_bytes": len(to_json(started.arguments)),
            "output_bytes": len(text.encode(errors="replace")),
            "idempotency_key": started.idempotency_key,
            "step": started.step,
            "started_at": started.time,
            "attempts": 1,
        }
    if given.effect is Effect.UNKNOWN:
        # The effect ledger reads these from the event alone.
        for name in ("tool_name", "idempotency_key", "started_at"):
            derived.pop(name, None)
    return derived


def _leave_out_names(record: ToolRecord, less: Derived) -> tuple[str, ...]:
    """Leave call id and tool name out of an outcome if its record has the same; returns the names
    of literal fields.
    """
    outcome = record.outcome
    if outcome.call_id == record.call_id and outcome.tool_name == record.tool_name:
        less["outcome"] = _copy_with(outcome, _NO_NAMES)
        return ()
    return () if outcome.call_id or outcome.tool_name else ("outcome",)


def _with_names(state: RunState, event: ToolSettled) -> ToolSettled:
    record, outcome = event.record, event.record.outcome
    if outcome.call_id or outcome.tool_name or "outcome" in event.literal:
        return event
    name, id = record.tool_name, record.call_id
    if not name and "tool_name" not in event.literal:
        call = _call_of(state, id)
        name = "" if call is None else call.name
    named = _copy_with(outcome, {"call_id": id, "tool_name": name})
    return _copy_with(event, {"record": _copy_with(record, {"outcome": named})})


def _call_of(state: RunState, call_id: str) -> ToolCall | None:
    started = state.unsettled.get(call_id)
    return state.call_of(call_id) if started is None else started.call


def _of_pending(state: RunState, event: ApprovalRequested) -> Derived:
    call = state.call_of(event.pending.call_id)
    if call is None:
        return {}
    return {"tool_name": call.name, "arguments": _object_of(call)}


def _of_attempt_started(state: RunState, event: AttemptStarted) -> Derived:
    return {"feedback": "" if state.line is None else state.line.feedback}


def _of_attempt_ended(state: RunState, event: AttemptEnded) -> Derived:
    return {"attempt": event.attempt, "content": state.board.answer()}


def _of_run_resumed(state: RunState, event: RunResumed) -> Derived:
    return {
        "agent": state.agent,
        "options": state.options,
        "interrupted_calls": tuple(state.unsettled),
    }


def _index(state: RunState) -> LogIndex:
    """Return the index of the log, created at the start of the log."""
    if state.index is None:
        state.index = LogIndex()
    return state.index


# -- messages by reference


def _by_reference(state: RunState, event: BoardChanged) -> Event:
    """Return *event* with references to replies and outcomes in place of their messages."""
    if not event.messages or event.seeded:
        return event if state.named_seed is None else _with_named_seed(state.named_seed, event)
    found: list[int] = []
    for message in event.messages:
        seq = _reference_to(state, message)
        if seq is None:
            return event
        found.append(seq)
    return _copy_with(event, {"messages": (), "refs": tuple(found)})


def _with_named_seed(
    named: tuple[SeedReference, tuple[Message, ...]], event: BoardChanged
) -> BoardChanged:
    """Return *event* with a reference to the conversation messages, if it starts with them."""
    seed, known = named
    is_main = event.seeded and event.channel == MAIN_CHANNEL
    if not is_main or event.messages[: len(known)] != known:
        return event
    return _copy_with(event, {"messages": event.messages[len(known) :], "seed": seed})


def _reference_to(state: RunState, message: Message) -> int | None:
    """Return the event whose reply or outcome *message* is, None if it is neither."""
    index = _index(state)
    if message.role is Role.ASSISTANT:
        for seq in reversed(index.replies):
            return seq if _is_of_reply(message, index.replies[seq]) else None
        return None
    seq = index.settled_at.get(message.tool_call_id or "")
    if message.role is not Role.TOOL or seq is None:
        return None
    return seq if _is_of_record(message, index.records[seq], state, seq) else None


def _is_of_reply(message: Message, reply: ModelResponse) -> bool:
    """Whether *message* was made from *reply*."""
    parts = reply.parts
    # Usually its content is the reply's own object, so there is no need to build it again.
    if message.content is parts and len(parts) and type(parts[0]) is not Text:
        is_unnamed = message.tool_call_id is None and not message.name
        return is_unnamed and _is_bare(message, paused=reply.paused)
    return reply.to_message() == without_mark(message)


def _is_of_record(message: Message, record: ToolRecord, state: RunState, seq: int) -> bool:
    """Whether the tool message *message* shows the outcome in *record*."""
    is_named = message.tool_call_id == record.call_id and message.name == record.tool_name
    return is_named and _is_bare(message) and message.content == _model_text_of(state, record, seq)


_MARKED: JsonObject = {TAINTED: True}


def _is_bare(message: Message, *, paused: bool = False) -> bool:
    """Whether nothing was added to a message that upshot made."""
    return message.paused == paused and message.metadata in ({}, _MARKED)


def _resolve_refs(state: RunState, event: BoardChanged) -> Event:
    if not event.refs:
        return event
    index = _index(state)
    try:
        messages = tuple(
            index.replies[seq].to_message()
            if seq in index.replies
            else _message_of(state, index.records[seq], seq)
            for seq in event.refs
        )
        if state.taint is not None:
            # As they were on the board; the log does not record the marks.
            messages = tuple(map(mark_tainted, messages))
    except KeyError as error:
        raise JournalError(
            f"event {event.seq} of run {event.run_id!r} shows what event {error} is, which is "
            "not a reply or outcome of its attempt that was read: read the log from its first "
            "event on",
            run_id=event.run_id,
            seq=event.seq,
        ) from None
    return _copy_with(event, {"messages": messages, "refs": ()})


def _message_of(state: RunState, record: ToolRecord, seq: int) -> Message:
    """Return the message that shows the outcome of a call to the model."""
    text = _model_text_of(state, record, seq)
    return Message(Role.TOOL, text, tool_call_id=record.call_id, name=record.tool_name)


def _model_text_of(state: RunState, record: ToolRecord, seq: int) -> str:
    """Return the text of a call's outcome as the model reads it."""
    text = plain_text_of(record.outcome) or _index(state).texts.get(record.call_id)
    text = text or outcome_to_model_content(record.outcome)
    if record.is_untrusted:
        text = fence(text, run_id=_run_id_at(state, seq), call_id=record.call_id)
    return text


def _run_id_at(state: RunState, seq: int) -> str:
    """Return the id of the run when event *seq* was written; a fork has events of its origin."""
    started = state.started
    if started is None:
        return ""
    origins = started.options.get(FORKED_FROM)
    for origin in origins if isinstance(origins, list) else []:
        if isinstance(origin, dict) and seq <= cast("int", origin.get("seq", 0)):
            return str(origin.get("run_id", ""))
    return started.run_id


# -- the result


def _of_result(state: RunState, event: RunSettled) -> Derived:
    """Return what the log says of the result of a session that ends with *event*."""
    given, board, started = event.result, state.board, state.started
    request = None if started is None else started.request
    content = board.answer()
    records = tuple(state.records)
    status = given.status
    derived: Derived = {
        "run_id": event.run_id,
        "agent_id": state.agent.id,
        "parent_run_id": "" if started is None else started.parent_run_id,
        "task_id": "" if request is None else request.task_id,
        "context_id": "" if request is None else request.context_id,
        "metadata": {} if request is None else request.metadata,
        "attempts": state.attempt or 1,
        "content": content,
        "messages": board.produced(),
        "seeded": board.seeded(),
        "output": board.copy_of(OUTPUT_VAR) if board.has(OUTPUT_VAR) else content,
        "tool_records": records,
        "tool_outcomes": tuple(record.outcome for record in records),
        "effects": effects_in(state, event.run_id, is_over=status is not Status.INPUT_REQUIRED),
        "child_runs": child_runs_in(state),
        "artifacts": (*channel_artifacts(board, _channels_of(state)), *state.stored),
        "state": state.state,
        "warnings": tuple(state.warnings),
        "taint": state.taint,
        "attempt_log": tuple(state.lines),
        "pending": state.open_pending(),
        "started_at": state.started_at,
        "ended_at": _ended_at(state, given),
        "rate_limit": state.last_rate_limit,
    }
    if state.last_call is not None:
        derived["finish_reason"] = state.last_call.finish_reason
        derived["provider_data"] = state.last_call.provider_data
    if status is Status.INTERRUPTED and state.interrupt is not None:
        derived |= {"cause": state.interrupt.cause, "detail": state.interrupt.detail}
    return derived if state.show is None else {n: state.show(v) for n, v in derived.items()}


def _asks_in(state: RunState, event: RunSettled) -> dict[str, Pending]:
    """Return the open pending items of the run itself; the inbox is made from them."""
    return {
        item_of(state, one): one
        for one in event.result.pending
        if not (one.run_id or (isinstance(one, PendingApproval) and one.call_id in state.answers))
    }


# Fields of run_settled that only journals read.
_LISTED = ("asks", "effect", "answer", "tools", "took_s", "due_at", "calls")


def _list_fields(state: RunState, event: RunSettled) -> Derived:
    """Return what the list of runs shows of a settled run."""
    asks, time = _asks_in(state, event), event.time
    return {
        "asks": asks,
        "effect": event.result.effect,
        "answer": answer_text(event.result),
        "tools": tools_in(state.records, asks) if state.records or asks else (),
        "took_s": 0.0 if time is None else state.time.worked_until(time),
        "due_at": _first_deadline(event),
        "calls": calls_in(
            state.responses, state.records, state.agent.model, waits=state.approved_in, at=time
        ),
    }


def _first_deadline(event: RunSettled) -> datetime | None:
    """Return when the first wait of a parked run, or of its child runs, fails; None for never."""
    waits = (one for one in event.result.pending if isinstance(one, PendingExternal))
    ends = (one.expires_at for one in waits if one.expires_at is not None)
    # An engine may park again with a wait that is over: that is no reason to continue once more.
    return min((end for end in ends if event.time is None or end > event.time), default=None)


def used_in(state: RunState) -> tuple[Usage, Cost | None]:
    """Return what a run and its child runs used, according to its log."""
    return sum_of(_calls_of(state))


def unmeasured_answers_in(state: RunState) -> int:
    """How many replies to a run and its child runs came without their usage, as its log says."""
    responses = chain(state.responses, (event.response for event in state.reported))
    children = (spent.unmeasured_answers for spent in state.children.values() if spent is not None)
    return sum(map(is_unmeasured_answer, responses)) + sum(children)


def _calls_of(state: RunState) -> Iterable[CountedCall]:
    yield from map(counted, state.responses)
    yield from (counted(event.response) for event in state.reported)
    for spent in state.children.values():
        if spent is not None:
            yield counted_run(spent.usage, spent.cost)
    yield from [UNFINISHED] * state.lost_calls


def _ended_at(state: RunState, given: AgentResult[Json]) -> object:
    # A run that starts from a checkpoint started before its log did.
    began = given.started_at or state.started_at
    if began is None or not given.duration_ms:
        return began
    return began + timedelta(milliseconds=given.duration_ms)


def _channels_of(state: RunState) -> Iterable[str]:
    channels = state.options.get("artifacts")
    return [str(one) for one in channels] if isinstance(channels, list) else []


def channel_artifacts(board: Board, channels: Iterable[str]) -> list[Artifact]:
    """Return the messages of *channels* as artifacts, one for each channel with messages.

    The messages of the main channel are the result's messages, and no artifact.
    """
    found: list[Artifact] = []
    for channel in dict.fromkeys(channels):
        if channel == MAIN_CHANNEL:
            continue
        parts: tuple[Part, ...] = tuple(
            part for message in board.messages(channel) for part in message.parts
        )
        if parts:
            found.append(Artifact(channel, parts))
    return found


# For events with nothing to derive.
_WHOLE: tuple[str, None] = ("", None)
_DERIVE: dict[type, tuple[str, Callable[[RunState, Any], Derived]]] = {
    ModelStarted: ("", _of_model_started),
    ModelRetried: ("", _of_model_call),
    ModelReplied: ("", _of_model_call),
    ToolStarted: ("", _of_tool_started),
    ToolSettled: ("record", _of_record),
    ApprovalRequested: ("pending", _of_pending),
    AttemptStarted: ("", _of_attempt_started),
    AttemptEnded: ("line", _of_attempt_ended),
    RunResumed: ("", _of_run_resumed),
    RunSettled: ("result", _of_result),
}
