"""Facts: what of a run's log counts, when it is compared with that of its replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..contract import (
    HANDOFF_STATE_KEY,
    AttemptEnded,
    AttemptStarted,
    BoardChanged,
    Decided,
    Event,
    HandoffEvent,
    Json,
    JsonObject,
    ModelReplied,
    ModelStarted,
    Role,
    RunResumed,
    RunSettled,
    Status,
    StepStarted,
    ToolStarted,
    to_free_json,
)
from .kin import child_of

__all__ = ["Fact", "Facts", "Variable", "View", "facts_of"]

# How a run ends that somebody outside has stopped.
_STOPPED = (Status.INTERRUPTED, Status.CANCELED)


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


class Variable(NamedTuple):
    """A variable of the board.

    Attributes:
        seq: Of the event that set it last.
        value: Its value.
    """

    seq: int
    value: Json


class View(NamedTuple):
    """The variables of the board at a point where somebody outside has to do with the run.

    Attributes:
        seq: Of the event that is the point.
        variables: By name.
    """

    seq: int
    variables: Mapping[str, Variable]


class Facts(NamedTuple):
    """What counts of a log.

    Attributes:
        said: What an engine asked for, what it wrote, and how it ended, in order.
        seen: The variables at calls of models and tools, at runs inside, and at the end, by what
            names the point in every sitting.
    """

    said: list[Fact]
    seen: dict[str, View]


def facts_of(
    events: Iterable[Event],
    *,
    is_record: bool = True,
    is_left_out: Callable[[int], bool] = lambda _: False,
    show: Callable[[Json], Json] = lambda value: value,
) -> Facts:
    """What counts of a log.

    What a sitting lost that was cut off is left out, and so is the end of a run that somebody
    outside has stopped.

    Args:
        events: The log.
        is_record: Whether a model call without a reply was lost with its process; in a replay it
            is what the record does not have.
        is_left_out: Whether the replay had no part in the event of that number, since it was given
            the outcome of the step that the event belongs to.
        show: Makes a value what people see of it.
    """
    reader = _Reader(is_left_out, show)
    for event in events:
        reader.add(event)
    return reader.facts(is_record=is_record)


class _Reader:
    """Goes through a log; what an attempt is begun anew with is forgotten."""

    def __init__(self, is_left_out: Callable[[int], bool], show: Callable[[Json], Json]) -> None:
        self._is_left_out = is_left_out
        self._show = show
        self._facts: list[Fact] = []
        self._seen: dict[str, View] = {}
        self._asked: dict[int, Fact] = {}
        # The place of each model call among those of its attempt.
        self._places: dict[int, int] = {}
        self._variables: dict[str, Variable] = {}
        self._began = self._attempt = 0
        self._last: Event | None = None

    def add(self, event: Event) -> None:
        """Take the next event."""
        self._last = event
        match event:
            case AttemptStarted():
                self._begin(event)
            case RunResumed():
                # Deciders that were cut off were asked anew.
                while self._facts[self._began :] and self._facts[-1].kind == "decided":
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
                self._look(event)
            case AttemptEnded() if event.line.status not in _STOPPED:
                self._see(event, "end")
            case _:
                pass
        self._facts += (self._fact(event, said) for said in _said_by(event))

    def _look(self, event: Event) -> None:
        match event:
            case ModelStarted(purpose=""):
                self._ask(event)
            case ToolStarted():
                self._see(event, f"tool {event.call.id} {event.call.name}")
            case StepStarted() if (child := child_of(event.key)) is not None:
                self._see(event, f"run {child}")
            case _:
                pass

    def facts(self, *, is_record: bool) -> Facts:
        """What was found."""
        last = self._last
        if isinstance(last, RunSettled) and last.result.status is Status.INPUT_REQUIRED:
            # Waits of earlier sittings are none in a replay, which has the answers.
            self._see(last, "wait")
        lost = {fact.seq for fact in self._asked.values()} if is_record else set[int]()
        kept = [fact for fact in self._facts if fact.seq not in lost]
        return Facts(_without_stop(_in_call_order(kept)), self._seen)

    def _begin(self, event: AttemptStarted) -> None:
        if event.attempt == self._attempt:
            # It was cut off before its board stood, and begun once more.
            del self._facts[self._began :]
        self._began, self._attempt = len(self._facts), event.attempt
        self._asked, self._places, self._variables = {}, {}, {}

    def _ask(self, event: ModelStarted) -> None:
        if event.turn in self._asked:
            self._facts.remove(self._asked[event.turn])
        fact = self._fact(event, {"model": event.model, "messages": event.messages})
        self._asked[event.turn] = fact
        self._facts.append(fact)
        place = self._places.setdefault(event.turn, len(self._places))
        self._see(event, f"model {place}")

    def _see(self, event: Event, point: str) -> None:
        self._seen.setdefault(f"{self._attempt} {point}", View(event.seq, {**self._variables}))

    def _fact(self, event: Event, said: Json) -> Fact:
        return Fact(event.seq, event.kind, self._show(said))


def _without_stop(facts: list[Fact]) -> list[Fact]:
    last = facts[-1] if facts else None
    if last is None or last.kind != "run_settled" or _object(last.said)["status"] not in _STOPPED:
        return facts
    return [fact for fact in facts if fact.kind not in ("run_settled", "attempt_ended")]


def _in_call_order(facts: list[Fact]) -> list[Fact]:
    """Outcomes of one reply in the order of its calls.

    Where one waited for people, the board shows those of others before it; a replay has the
    answers and waits for nobody.
    """
    ordered: list[Fact] = []
    told: list[Fact] = []
    places: dict[Json, int] = {}

    def place(fact: Fact) -> int:
        return places.get(_message_of(fact).get("tool_call_id"), len(places))

    for fact in facts:
        message = _message_of(fact)
        if message.get("role") == Role.TOOL:
            told.append(fact)
            continue
        ordered += sorted(told, key=place)
        told = []
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            places = {_object(call).get("id"): number for number, call in enumerate(calls)}
        ordered.append(fact)
    return ordered + sorted(told, key=place)


def _message_of(fact: Fact) -> JsonObject:
    return _object(_object(fact.said).get("message"))


def _said_by(event: Event) -> Iterator[JsonObject]:
    match event:
        case AttemptStarted():
            yield {"attempt": event.attempt, "feedback": event.feedback}
        case BoardChanged(seeded=False):
            # One by one: who was parked between two messages wrote them apart.
            for message in event.messages:
                yield _json({"channel": event.channel, "message": message})
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


def _json(value: object) -> JsonObject:
    return _object(to_free_json(value)[0])


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
