"""Compares two runs by their logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from upshot.contract.agent_spec import HANDOFF_STATE_KEY, HandoffEvent
from upshot.contract.base.enums import DeniedReason, Role, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject, Value
from upshot.contract.events import (
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    Decided,
    Event,
    RunResumed,
    RunSettled,
    RunStarted,
    StepStarted,
    ToolSettled,
    ToolStarted,
    Warned,
)
from upshot.contract.message import Message
from upshot.contract.model_calls import ModelReplied, ModelStarted
from upshot.contract.tool_calls import ToolDenied, ToolOutcome
from upshot.state.child_runs import child_of
from upshot.state.request_digests import chained
from upshot.state.run_state import STOPPED, RunState
from upshot.tools.artifacts import READER_NAME


class Fact(NamedTuple):
    """The part of an event that is compared between two runs.

    Attributes:
        seq: Its place in the log.
        kind: Its kind.
        value: The value to compare.
    """

    seq: int
    kind: str
    value: Json


class Variable(NamedTuple):
    """A variable of the board.

    Attributes:
        seq: The event that set it last.
        value: Its value.
    """

    seq: int
    value: Json


class View(NamedTuple):
    """The variables of the board at a point where the run touches something outside.

    Attributes:
        seq: The event of that point.
        variables: By name.
    """

    seq: int
    variables: Mapping[str, Variable]


class ComparedEvents(NamedTuple):
    """The parts of a log that are compared.

    Attributes:
        facts: What the engine requested and wrote, and how it ended, in order.
        seen: The variables at model calls, tool calls, child runs and the end. The key names the
            point in the same way in every session.
        events: The log.
    """

    facts: list[Fact]
    seen: dict[str, View]
    events: Sequence[Event]

    def messages_sent(self, seq: int) -> list[str]:
        """Return the digests of all messages in the model request of event *seq*."""
        state = RunState()
        for event in self.events:
            state.add(event)
            if isinstance(event, ModelStarted) and event.seq == seq:
                break
        return state.sent

    def messages_of(self, seq: int) -> list[Message | None]:
        """Return the messages of the model request of event *seq*; None for one not in the log."""
        boards = [event.messages for event in self.events if isinstance(event, BoardChanged)]
        known = [message for messages in boards for message in messages]
        found: list[Message | None] = []
        before, at = "", 0
        for digest in self.messages_sent(seq):
            # Nearly always it is the message after the last one found.
            places = [*range(at, len(known)), *range(at)]
            place = next((one for one in places if _has_digest(digest, before, known[one])), None)
            found.append(None if place is None else known[place])
            at = at if place is None else place + 1
            before = digest
        return found


def _has_digest(digest: str, before: str, message: Message) -> bool:
    """Whether *digest* is that of a conversation which ends with *message*."""
    return digest in (chained(before, message, is_named=named) for named in (False, True))


def facts_of(
    events: Sequence[Event],
    *,
    is_record: bool = True,
    is_left_out: Callable[[int], bool] = lambda _: False,
    show: Callable[[Json], Json] = lambda value: value,
) -> ComparedEvents:
    """Return the parts of a log that are compared.

    Leaves out what an interrupted session lost, and the end of a run that was stopped from outside.

    Args:
        events: The log.
        is_record: Whether a model call without a reply was lost with its process. In a replay,
            it is a call that the record does not have.
        is_left_out: Whether the replay skipped the event with that number, because it was given
            the outcome of the whole step that the event belongs to.
        show: Masks a value for users.
    """
    reader = _Reader(is_left_out, show)
    for event in events:
        reader.add(event)
    facts = reader.facts(is_record=is_record)
    return ComparedEvents(facts, reader.seen, events)


class _Reader:
    """Reads a log. Forgets what an attempt did before it was started again.

    Attributes:
        seen: As in ``ComparedEvents``.
    """

    def __init__(self, is_left_out: Callable[[int], bool], show: Callable[[Json], Json]) -> None:
        self._is_left_out = is_left_out
        self._show = show
        self._facts: list[Fact] = []
        self.seen: dict[str, View] = {}
        self._asked: dict[int, Fact] = {}
        # The position of each model call within its attempt.
        self._places: dict[int, int] = {}
        self._variables: dict[str, Variable] = {}
        self._began = self._attempt = 0
        self._last: Event | None = None

    def add(self, event: Event) -> None:
        """Read the next event."""
        self._last = event
        match event:
            case AttemptStarted():
                self._start_attempt(event)
            case RunResumed():
                # Interrupted deciders were asked again; and a run resumes only after a stop.
                last = self._facts[-1].kind if self._facts else ""
                ends = (*_STOP, "decided") if last == "run_settled" else ("decided",)
                while self._facts[self._began :] and self._facts[-1].kind in ends:
                    self._facts.pop()
            case BoardChanged():
                self._variables |= {
                    name: Variable(event.seq, self._show(value))
                    for name, value in event.variables.items()
                }
            case ModelReplied():
                self._asked.pop(event.turn, None)
            case ModelStarted() | ToolStarted() | StepStarted() | HandoffEvent():
                if self._is_left_out(event.seq):
                    return
                self._read_start(event)
            case AttemptEnded() if event.line.status not in STOPPED:
                self._record_view(event, "end")
            case _:
                pass
        self._facts += (self._fact(event, part) for part in _compared_parts(event))

    def _read_start(self, event: Event) -> None:
        match event:
            case ModelStarted(purpose=""):
                self._add_model_call(event)
            case ToolStarted():
                self._record_view(event, f"tool {event.call.id} {event.call.name}")
            case StepStarted() if (child := child_of(event.key)) is not None:
                self._record_view(event, f"run {child}")
            case _:
                pass

    def facts(self, *, is_record: bool) -> list[Fact]:
        """Return the facts, after all events were added."""
        last = self._last
        if isinstance(last, RunSettled) and last.result.status is Status.INPUT_REQUIRED:
            # A replay has the answers, so it does not wait where earlier sessions waited.
            self._record_view(last, "wait")
        lost = {fact.seq for fact in self._asked.values()} if is_record else set[int]()
        kept = [fact for fact in self._facts if fact.seq not in lost]
        return _without_stop(_in_call_order(kept))

    def _start_attempt(self, event: AttemptStarted) -> None:
        if event.attempt == self._attempt:
            # The attempt was interrupted before its board was seeded, and started again.
            del self._facts[self._began :]
        self._began, self._attempt = len(self._facts), event.attempt
        self._asked, self._places, self._variables = {}, {}, {}

    def _add_model_call(self, event: ModelStarted) -> None:
        if event.turn in self._asked:
            self._facts.remove(self._asked[event.turn])
        call: JsonObject = {"model": event.model}
        if (request := event.request) is not None:
            call |= {part: getattr(request, part) for part in _PARTS}
        fact = self._fact(event, call)
        self._asked[event.turn] = fact
        self._facts.append(fact)
        place = self._places.setdefault(event.turn, len(self._places))
        self._record_view(event, f"model {place}")

    def _record_view(self, event: Event, point: str) -> None:
        self.seen.setdefault(f"{self._attempt} {point}", View(event.seq, {**self._variables}))

    def _fact(self, event: Event, value: Json) -> Fact:
        return Fact(event.seq, event.kind, self._show(value))


def _without_stop(facts: list[Fact]) -> list[Fact]:
    last = facts[-1] if facts else None
    if last is None or last.kind != "run_settled" or _object(last.value)["status"] not in STOPPED:
        return facts
    return [fact for fact in facts if fact.kind not in _STOP]


def _in_call_order(facts: list[Fact]) -> list[Fact]:
    """Return the facts with the outcomes of one reply in the order of its calls.

    If one call waited for an answer, the board has the outcomes of later calls before it. A replay
    has the answers and does not wait.
    """
    ordered: list[Fact] = []
    sorted_facts: list[Fact] = []
    places: dict[Json, int] = {}

    def place(fact: Fact) -> int:
        return places.get(_message_of(fact).get("tool_call_id"), len(places))

    for fact in facts:
        message = _message_of(fact)
        if message.get("role") == Role.TOOL:
            sorted_facts.append(fact)
            continue
        ordered += sorted(sorted_facts, key=place)
        sorted_facts = []
        content = message.get("content")
        parts = map(_object, content if isinstance(content, list) else ())
        calls = [part for part in parts if part.get("kind") == "tool_call"]
        if calls:
            places = {call.get("id"): number for number, call in enumerate(calls)}
        ordered.append(fact)
    return ordered + sorted(sorted_facts, key=place)


def _message_of(fact: Fact) -> JsonObject:
    return _object(_object(fact.value).get("message"))


def _compared_parts(event: Event) -> Iterator[JsonObject]:
    match event:
        case AttemptStarted():
            yield {"attempt": event.attempt, "feedback": event.feedback}
        case BoardChanged(seeded=False):
            # One by one: a run that parked between two messages logged them separately.
            for message in event.messages:
                yield _json({"channel": event.channel, "message": message})
        case HandoffEvent():
            yield {"to_agent_id": event.to_agent_id, "reason": event.reason, "note": event.note}
        case Decided(stage=""):
            yield _json({"decider": event.decider, "decision": event.decision})
        case AttemptEnded(line=line):
            yield {
                "status": str(line.status),
                "content": line.content,
                "reason": line.revise_reason,
            }
        case RunSettled(result=result) if result.status is not Status.INPUT_REQUIRED:
            code = None if result.error is None else str(result.error.code)
            state = {
                name: value for name, value in result.state.items() if name != HANDOFF_STATE_KEY
            }
            value = {"status": str(result.status), "error": code, "state": state}
            yield _json(value | {"output": result.output, "content": result.content})
        case _:
            pass


_ASKED = "model_started"
# The events that log the end of a stopped run.
_STOP = ("run_settled", "attempt_ended")
_MAX_TEXT = 200
# The parts of a request that the log has digests of.
_PARTS = ("instructions", "tools", "settings", "messages")
# The fields of an agent that go into a model request.
_ASKS_WITH = ("instructions", "tools", "handoffs", "output_schema", "settings")
# Warnings of engines that their graph or machine has changed since the run started.
_CHANGED = ("graph_changed", "machine_changed")
_NOTHING = Fact(0, "", None)
_NEVER = Variable(0, None)


class Difference(Value, frozen=True, kw_only=True):
    """The first difference between a recorded run and its replay.

    Attributes:
        seq: The recorded event, 0 if the record has nothing more.
        kind: The kind of the recorded event, or of the replayed one if there is none.
        part: For a model call, the part that differs: "model", "instructions", "tools",
            "settings" (with the output schema) or "messages"; otherwise "".
        recorded: What the record has, None if it has nothing more.
        replayed: What the replay did, None if it did nothing more.
        asked: What was requested that the record does not have, "" if nothing was.
    """

    seq: int = 0
    kind: str = ""
    part: str = ""
    recorded: Json = None
    replayed: Json = None
    asked: str = ""


def missing_call(
    recorded: Iterable[Event], replayed: Iterable[Event], *, is_left_out: Callable[[int], bool]
) -> Difference | None:
    """Return the first recorded tool call that was not made again, None if all were.

    The order does not matter, because parallel calls settle in any order.

    Args:
        recorded: The log.
        replayed: The log of the replay.
        is_left_out: See ``facts_of``.
    """
    made = Counter(map(_call_of, _settlements(replayed)))
    for event in _settlements(recorded):
        call = _call_of(event)
        if is_left_out(event.seq):
            continue
        if not made[call]:
            call_object: Json = {"call_id": call[0], "tool_name": call[1]}
            return Difference(seq=event.seq, kind=event.kind, recorded=call_object)
        made[call] -= 1
    return None


def changed_agent(recorded: Iterable[Event], replayed: Iterable[Event]) -> Difference | None:
    """Return the first session that had another agent than the replay, None if there is none.

    Compares what goes into a model request, as far as an AgentSpec has it, and the graph or
    machine, as far as its engine warns that it has changed.
    """
    recorded, replayed = list(recorded), list(replayed)
    now = next((event.agent for event in replayed if isinstance(event, RunStarted)), None)
    for event in recorded:
        if now is None or not isinstance(event, RunStarted | RunResumed) or event.agent is None:
            continue
        was = event.agent
        names = [name for name in _ASKS_WITH if getattr(was, name) != getattr(now, name)]
        if names:
            before, again = ({name: getattr(one, name) for name in names} for one in (was, now))
            return Difference(
                seq=event.seq, kind=event.kind, recorded=_json(before), replayed=_json(again)
            )
    known = [event.warning for event in recorded if isinstance(event, Warned)]
    for event in replayed:
        if not isinstance(event, Warned) or event.warning in known:
            continue
        if event.warning.code in _CHANGED:
            warning: JsonObject = {"code": event.warning.code, "message": event.warning.message}
            return Difference(kind=event.kind, replayed=warning)
    return None


def changed_tool(recorded: Iterable[Event], versions: Mapping[str, str]) -> Difference | None:
    """Return the first tool call of a model whose tool has changed or is missing now.

    Args:
        recorded: The log.
        versions: The versions of the agent's tools now, by name.
    """
    asked: set[str] = set()
    withheld: tuple[str, ...] = ()
    for event in recorded:
        if isinstance(event, ModelStarted) and not event.purpose:
            withheld = event.withheld
        if isinstance(event, ModelReplied):
            asked.update(call.id for call in event.response.tool_calls)
        if not isinstance(event, ToolSettled) or event.record.call_id not in asked:
            continue
        record, name = event.record, event.record.tool_name
        was_there = not _is_unknown(record.outcome)
        # A decider left it out of the request, and does so again.
        is_there = (name in versions or name == READER_NAME) and (was_there or name not in withheld)
        version = versions.get(name, record.tool_version)
        if was_there != is_there or (record.tool_version and version != record.tool_version):
            tool_facts: JsonObject = {"call_id": record.call_id, "tool_name": name}
            was = tool_facts | {"tool_version": record.tool_version} if was_there else None
            now = tool_facts | {"tool_version": version} if is_there else None
            return Difference(seq=event.seq, kind=event.kind, recorded=was, replayed=now)
    return None


def first_difference(recorded: ComparedEvents, replayed: ComparedEvents) -> Difference | None:
    """Return the first difference between two runs, None if there is none.

    A record that ends before the run does is compared up to its end. Variables are compared where
    the run touches something outside, and not when they are set, because a run that parks and
    resumes sets some of them again.
    """
    difference = _first_different_fact(recorded, replayed)
    for point, view in recorded.seen.items():
        if difference is not None and difference.seq and difference.seq < view.seq:
            break
        again = replayed.seen.get(point)
        found = None if again is None else _first_variable(view, again)
        if found is not None:
            return found
    return difference


def _first_different_fact(recorded: ComparedEvents, replayed: ComparedEvents) -> Difference | None:
    is_whole = bool(recorded.facts) and recorded.facts[-1].kind == "run_settled"
    for one, other in zip_longest(recorded.facts, replayed.facts, fillvalue=_NOTHING):
        if one is _NOTHING and not is_whole:
            return None
        if (one.kind, one.value) != (other.kind, other.value):
            if one.kind == other.kind == _ASKED:
                return _first_part(recorded, replayed, one, other)
            replayed_fact = {"kind": other.kind, **_object(other.value)} if other.kind else None
            kind = one.kind or other.kind
            return Difference(seq=one.seq, kind=kind, recorded=one.value, replayed=replayed_fact)
    return None


def _first_part(
    recorded: ComparedEvents, replayed: ComparedEvents, one: Fact, other: Fact
) -> Difference:
    """Return which part of two model requests differs, and for messages the first difference."""
    ours, again = _object(one.value), _object(other.value)
    part = next(name for name in ("model", *_PARTS) if ours.get(name) != again.get(name))
    was, now = ({"model": side["model"], part: side.get(part)} for side in (ours, again))
    if part == "messages":
        before, after = recorded.messages_sent(one.seq), replayed.messages_sent(other.seq)
        pairs = zip_longest(before, after)
        index = next((at for at, (a, b) in enumerate(pairs) if a != b), len(before))
        was[part] = {"index": index, **_describe_message(before, index, recorded.events)}
        now[part] = {"index": index, **_describe_message(after, index, replayed.events)}
    return Difference(
        seq=one.seq, kind=_ASKED, part=part, recorded=was, replayed={"kind": _ASKED, **now}
    )


def _describe_message(chain: list[str], index: int, events: Sequence[Event]) -> JsonObject:
    """Return the role and shortened text of a request's message, if it is in the log."""
    if index >= len(chain):
        return {"role": None, "text": None}
    before = chain[index - 1] if index else ""
    boards = (event for event in reversed(events) if isinstance(event, BoardChanged))
    for message in (one for event in boards for one in reversed(event.messages)):
        if _has_digest(chain[index], before, message):
            calls = ", ".join(f"calls {call.name}" for call in message.tool_calls)
            text = " ".join(filter(None, (message.text, calls)))
            return {"role": str(message.role), "text": text[:_MAX_TEXT]}
    # The engine made it for this request; it was never on a board.
    return {"role": None, "text": None, "digest": chain[index]}


def _first_variable(recorded: View, replayed: View) -> Difference | None:
    """Return the differing variable that was set first, None if all are equal."""
    known, found = recorded.variables, replayed.variables
    differing = [
        name
        for name in {**known, **found}
        if name not in known or name not in found or known[name].value != found[name].value
    ]
    if not differing:
        return None
    # Variables that the record does not have come last.
    name = min(differing, key=lambda name: (name not in known, known.get(name, _NEVER).seq))
    was, now = (
        {"variable": name, "value": side[name].value} if name in side else None
        for side in (known, found)
    )
    seq = known[name].seq if name in known else 0
    return Difference(seq=seq, kind="board_changed", recorded=was, replayed=now)


def _is_unknown(outcome: ToolOutcome) -> bool:
    return isinstance(outcome, ToolDenied) and outcome.reason == DeniedReason.UNKNOWN_TOOL


def _settlements(events: Iterable[Event]) -> Iterator[ToolSettled]:
    return (event for event in events if isinstance(event, ToolSettled))


def _call_of(event: ToolSettled) -> tuple[str, str]:
    return event.record.call_id, event.record.tool_name


def _json(value: object) -> JsonObject:
    return _object(to_free_json(value)[0])


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
