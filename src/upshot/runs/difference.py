"""Difference: where a run that was replayed did another thing than the record says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest

from ..contract import (
    DeniedReason,
    Event,
    Json,
    JsonObject,
    ModelReplied,
    RunResumed,
    RunStarted,
    ToolDenied,
    ToolOutcome,
    ToolSettled,
    Warned,
    to_free_json,
)
from ..contract.value import Value
from ..tools.artifacts import READER_NAME
from .facts import Fact, Facts, Variable, View, facts_of

__all__ = [
    "Difference",
    "changed_agent",
    "changed_tool",
    "facts_of",
    "first_difference",
    "missing_call",
]

# What of an agent a model is asked with.
_ASKS_WITH = ("instructions", "tools", "handoffs", "output_schema", "settings")
# How engines tell that what they go through is not what the run began with.
_CHANGED = ("graph_changed", "machine_changed")
_NOTHING = Fact(0, "", None)
_NEVER = Variable(0, None)


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


def missing_call(
    recorded: Iterable[Event], replayed: Iterable[Event], *, is_left_out: Callable[[int], bool]
) -> Difference | None:
    """The first recorded tool call that was not made again, None where all were.

    Their order is left aside: calls side by side settle as they come.

    Args:
        recorded: The log.
        replayed: That of the replay.
        is_left_out: See ``facts_of``.
    """
    made = Counter(map(_call_of, _settled(replayed)))
    for event in _settled(recorded):
        call = _call_of(event)
        if is_left_out(event.seq):
            continue
        if not made[call]:
            said: Json = {"call_id": call[0], "tool_name": call[1]}
            return Difference(seq=event.seq, kind=event.kind, recorded=said)
        made[call] -= 1
    return None


def changed_agent(recorded: Iterable[Event], replayed: Iterable[Event]) -> Difference | None:
    """The first sitting that was begun with another agent, None where all had the same.

    What is compared is what a model is asked with, as far as an agent in names says it, and the
    graph or machine, as far as its engine tells that it has changed.
    """
    recorded, replayed = list(recorded), list(replayed)
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
    known = [event.warning for event in recorded if isinstance(event, Warned)]
    for event in replayed:
        if not isinstance(event, Warned) or event.warning in known:
            continue
        if event.warning.code in _CHANGED:
            told: JsonObject = {"code": event.warning.code, "message": event.warning.message}
            return Difference(kind=event.kind, replayed=told)
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


def first_difference(recorded: Facts, replayed: Facts) -> Difference | None:
    """The first place at which two runs part, None where they do not.

    A record that ends before the run did is compared as far as it goes. Variables are compared
    where somebody outside has to do with the run, and not each time that one is set: who was
    parked and goes on sets them once more.
    """
    said = _first_said(recorded.said, replayed.said)
    for point, view in recorded.seen.items():
        if said is not None and said.seq and said.seq < view.seq:
            break
        again = replayed.seen.get(point)
        found = None if again is None else _first_variable(view, again)
        if found is not None:
            return found
    return said


def _first_said(recorded: list[Fact], replayed: list[Fact]) -> Difference | None:
    is_whole = bool(recorded) and recorded[-1].kind == "run_settled"
    for one, other in zip_longest(recorded, replayed, fillvalue=_NOTHING):
        if one is _NOTHING and not is_whole:
            return None
        if (one.kind, one.said) != (other.kind, other.said):
            replayed_fact = {"kind": other.kind, **_object(other.said)} if other.kind else None
            kind = one.kind or other.kind
            return Difference(seq=one.seq, kind=kind, recorded=one.said, replayed=replayed_fact)
    return None


def _first_variable(recorded: View, replayed: View) -> Difference | None:
    """The variable that was set first of those that are not the same, None where all are."""
    known, found = recorded.variables, replayed.variables
    differing = [
        name
        for name in {**known, **found}
        if name not in known or name not in found or known[name].value != found[name].value
    ]
    if not differing:
        return None
    # What the record does not have comes last.
    name = min(differing, key=lambda name: (name not in known, known.get(name, _NEVER).seq))
    was, now = (
        {"variable": name, "value": side[name].value} if name in side else None
        for side in (known, found)
    )
    seq = known[name].seq if name in known else 0
    return Difference(seq=seq, kind="board_changed", recorded=was, replayed=now)


def _is_unknown(outcome: ToolOutcome) -> bool:
    return isinstance(outcome, ToolDenied) and outcome.reason == DeniedReason.UNKNOWN_TOOL


def _settled(events: Iterable[Event]) -> Iterator[ToolSettled]:
    return (event for event in events if isinstance(event, ToolSettled))


def _call_of(event: ToolSettled) -> tuple[str, str]:
    return event.record.call_id, event.record.tool_name


def _json(value: object) -> JsonObject:
    return _object(to_free_json(value)[0])


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
