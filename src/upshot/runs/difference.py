"""Difference: where a run that was replayed did another thing than the record says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from ..contract import (
    HANDOFF_STATE_KEY,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    Decided,
    DeniedReason,
    Event,
    HandoffEvent,
    Json,
    JsonObject,
    ModelReplied,
    ModelStarted,
    RunResumed,
    RunSettled,
    RunStarted,
    Status,
    ToolDenied,
    ToolOutcome,
    ToolSettled,
    to_free_json,
)
from ..contract.value import Value
from ..tools.artifacts import READER_NAME

__all__ = [
    "Difference",
    "Fact",
    "changed_agent",
    "changed_tool",
    "facts_of",
    "first_difference",
    "missing_call",
]

# What of an agent a model is asked with.
_ASKS_WITH = ("instructions", "tools", "handoffs", "output_schema", "settings")
# How a run ends that somebody outside has stopped.
_STOPPED = (Status.INTERRUPTED, Status.CANCELED)


class Difference(Value, frozen=True, kw_only=True):
    """The first thing that a replayed run did otherwise.

    Attributes:
        seq: Of the recorded event, 0 where the record has nothing more.
        kind: The kind of the recorded event, or of the replayed one where there is none.
        recorded: What the record says, None where it has nothing more.
        replayed: What was done, None where nothing more was.
        asked: What was asked for that the record does not have, "" if nothing was.
    """

    seq: int = 0
    kind: str = ""
    recorded: Json = None
    replayed: Json = None
    asked: str = ""


class Fact(NamedTuple):
    """What counts of an event, when two runs are compared.

    Attributes:
        seq: Its place in the log.
        kind: Its kind.
        said: What is compared.
    """

    seq: int
    kind: str
    said: Json


_NOTHING = Fact(0, "", None)


def facts_of(events: Iterable[Event], *, is_record: bool = True) -> list[Fact]:
    """What counts of a log: what an engine asked for, what it wrote, and how it ended.

    What a sitting lost that was cut off is left out, and so is the end of a run that somebody
    outside has stopped.

    Args:
        events: The log.
        is_record: Whether a model call without a reply was lost with its process; in a replay it
            is what the record does not have.
    """
    facts: list[Fact] = []
    asked: dict[int, Fact] = {}
    began = attempt = 0
    for event in events:
        if isinstance(event, AttemptStarted):
            if event.attempt == attempt:
                # It was cut off before its board stood, and begun once more.
                del facts[began:]
            began, attempt, asked = len(facts), event.attempt, {}
        if isinstance(event, RunResumed):
            # Deciders that were cut off were asked anew.
            while facts[began:] and facts[-1].kind == "decided":
                facts.pop()
        if isinstance(event, ModelStarted) and not event.purpose:
            if event.turn in asked:
                facts.remove(asked[event.turn])
            asked[event.turn] = _fact(event, {"model": event.model, "messages": event.messages})
            facts.append(asked[event.turn])
            continue
        if isinstance(event, ModelReplied):
            asked.pop(event.turn, None)
            continue
        facts += (_fact(event, said) for said in _said_by(event))
    lost = {fact.seq for fact in asked.values()} if is_record else set[int]()
    return _without_stop([fact for fact in facts if fact.seq not in lost])


def missing_call(recorded: Iterable[Event], replayed: Iterable[Event]) -> Difference | None:
    """The first recorded tool call that was not made again, None where all were.

    Their order is left aside: calls side by side settle as they come.
    """
    made = Counter(map(_call_of, _settled(replayed)))
    for event in _settled(recorded):
        call = _call_of(event)
        if not made[call]:
            said: Json = {"call_id": call[0], "tool_name": call[1]}
            return Difference(seq=event.seq, kind=event.kind, recorded=said)
        made[call] -= 1
    return None


def changed_agent(recorded: Iterable[Event], replayed: Iterable[Event]) -> Difference | None:
    """The first sitting that was begun with another agent, None where all had the same.

    What is compared is what a model is asked with, as far as an agent in names says it.
    """
    now = next((event.agent for event in replayed if isinstance(event, RunStarted)), None)
    for event in recorded:
        if now is None or not isinstance(event, RunStarted | RunResumed) or event.agent is None:
            continue
        was = event.agent
        names = [name for name in _ASKS_WITH if getattr(was, name) != getattr(now, name)]
        if names:
            said, again = ({name: getattr(one, name) for name in names} for one in (was, now))
            return Difference(
                seq=event.seq, kind=event.kind, recorded=_json(said), replayed=_json(again)
            )
    return None


def changed_tool(recorded: Iterable[Event], versions: Mapping[str, str]) -> Difference | None:
    """The first call of a model's whose tool is another one now, or is not there any more.

    Args:
        recorded: The log.
        versions: Of the tools that the agent has now, by name.
    """
    asked: set[str] = set()
    for event in recorded:
        if isinstance(event, ModelReplied):
            asked.update(call.id for call in event.response.tool_calls)
        if not isinstance(event, ToolSettled) or event.record.call_id not in asked:
            continue
        record, name = event.record, event.record.tool_name
        was_there = not _is_unknown(record.outcome)
        is_there = name in versions or name == READER_NAME
        version = versions.get(name, record.tool_version)
        if was_there != is_there or (record.tool_version and version != record.tool_version):
            said: JsonObject = {"call_id": record.call_id, "tool_name": name}
            was = said | {"tool_version": record.tool_version} if was_there else None
            now = said | {"tool_version": version} if is_there else None
            return Difference(seq=event.seq, kind=event.kind, recorded=was, replayed=now)
    return None


def first_difference(recorded: list[Fact], replayed: list[Fact]) -> Difference | None:
    """The first place at which two runs part, None where they do not.

    A record that ends before the run did is compared as far as it goes.
    """
    is_whole = bool(recorded) and recorded[-1].kind == "run_settled"
    for one, other in zip_longest(recorded, replayed, fillvalue=_NOTHING):
        if one is _NOTHING and not is_whole:
            return None
        if (one.kind, one.said) != (other.kind, other.said):
            replayed_fact = {"kind": other.kind, **_object(other.said)} if other.kind else None
            kind = one.kind or other.kind
            return Difference(seq=one.seq, kind=kind, recorded=one.said, replayed=replayed_fact)
    return None


def _is_unknown(outcome: ToolOutcome) -> bool:
    return isinstance(outcome, ToolDenied) and outcome.reason == DeniedReason.UNKNOWN_TOOL


def _settled(events: Iterable[Event]) -> Iterator[ToolSettled]:
    return (event for event in events if isinstance(event, ToolSettled))


def _call_of(event: ToolSettled) -> tuple[str, str]:
    return event.record.call_id, event.record.tool_name


def _without_stop(facts: list[Fact]) -> list[Fact]:
    last = facts[-1] if facts else None
    if last is None or last.kind != "run_settled" or _object(last.said)["status"] not in _STOPPED:
        return facts
    return [fact for fact in facts if fact.kind not in ("run_settled", "attempt_ended")]


def _said_by(event: Event) -> Iterator[JsonObject]:
    match event:
        case AttemptStarted():
            yield {"attempt": event.attempt, "feedback": event.feedback}
        case BoardChanged(seeded=False):
            # One by one: who was parked between two messages wrote them apart.
            for message in event.messages:
                yield _json({"channel": event.channel, "message": message})
            for name, value in event.variables.items():
                yield _json({"variable": name, "value": value})
        case HandoffEvent():
            yield {"to_agent_id": event.to_agent_id, "reason": event.reason, "note": event.note}
        case Decided():
            yield _json({"decider": event.decider, "decision": event.decision})
        case AttemptEnded(line=line):
            yield {
                "status": str(line.status),
                "content": line.content,
                "reason": line.revise_reason,
            }
        case RunSettled(result=result) if result.status is not Status.INPUT_REQUIRED:
            code = None if result.error is None else str(result.error.code)
            state = {name: said for name, said in result.state.items() if name != HANDOFF_STATE_KEY}
            said = {"status": str(result.status), "error": code, "state": state}
            yield _json(said | {"output": result.output, "content": result.content})
        case _:
            pass


def _fact(event: Event, said: Json) -> Fact:
    return Fact(event.seq, event.kind, said)


def _json(value: object) -> JsonObject:
    return _object(to_free_json(value)[0])


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
