"""What can be built can be logged and read: a wrong field is refused when made or written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import force_setattr

from upshot import (
    AgentResult,
    BoardSnapshot,
    Event,
    Message,
    Misuse,
    ModelResponse,
    ToolExecutionResult,
    ToolRecord,
    Usage,
    contract,
    decode,
    encode,
    open_journal,
)
from upshot.contract.call_counts import CallCount
from upshot.contract.events import BoardChanged, ModelReplied, RunSettled, ToolSettled
from upshot.contract.result import AttemptLine, ChildRun, RunEffect
from upshot.journal.event_codec import DURABLE, read_event, to_entry
from upshot.state.board import Board

WRONG: tuple[Any, ...] = (5, 1.5, True, "x", b"x", None, ["c"], (1,), {"a": 1}, {1: 2}, object())
GIVEN: dict[str, Any] = {
    "id": "i", "name": "n", "call_id": "c", "tool_name": "t", "reason": "policy", "text": "t",
    "role": "user", "exec_id": "e", "step": "s", "type": "tool", "message": "m", "messages": (),
}  # fmt: skip
# Every step of a run makes them, so that the writer of the log looks at them instead.
WRITTEN: dict[type, Callable[[Any], Event]] = {
    Usage: lambda value: ModelReplied(response=force(ModelResponse(), "usage", value)),
    ToolExecutionResult: lambda value: ToolSettled(record=ToolRecord(outcome=value)),
    ToolRecord: lambda value: ToolSettled(record=value),
    AgentResult: lambda value: RunSettled(result=value),
    RunEffect: lambda value: RunSettled(result=AgentResult(effects=(value,))),
    ChildRun: lambda value: RunSettled(result=AgentResult(child_runs=(value,))),
    AttemptLine: lambda value: RunSettled(result=AgentResult(attempt_log=(value,))),
    CallCount: lambda value: RunSettled(result=AgentResult(), calls=(value,)),
}
UNSENT = {"BoardSnapshot", "ModelRequest", "RequestDigests", "RunInfo", "RunSummary"}
UNSENT |= {"Conversation", "ConversationSummary", "SeedReference", "RunEvent"}
UNSENT |= {"DayCost", "Note", "Redacted", "RunCounts"}


def force(value: Any, name: str, given: Any) -> Any:
    force_setattr(value, name, given)
    return value


def structs() -> list[type[msgspec.Struct]]:
    found = [getattr(contract, name) for name in contract.__all__]
    return [one for one in found if isinstance(one, type) and issubclass(one, msgspec.Struct)]


def is_event(kind: type) -> bool:
    return kind in get_args(Event)


def required(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {
        field.name: made(field.type) if field.name not in GIVEN else GIVEN[field.name]
        for field in msgspec.structs.fields(kind)
        if field.default is field.default_factory is msgspec.NODEFAULT
    }


def made(hint: Any) -> Any:
    kinds = {ToolRecord: ToolRecord(outcome=ToolExecutionResult("c", "t"))}
    if hint in kinds:
        return kinds[hint]
    if "AgentResult" in str(hint):
        return AgentResult[Any]()
    return contract.Approve("c") if "Approve" in str(hint) else ToolExecutionResult("c", "t")


def wrong(kind: type[msgspec.Struct]) -> list[tuple[str, Any, Any]]:
    """Objects of *kind* with one field that was given a value of any type; not those refused."""
    found: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(kind):
        if field.name in ("local", "schema_version"):
            continue
        for value in WRONG:
            try:
                one = kind(**{**required(kind), field.name: value})
            except (Misuse, TypeError, ValueError):
                continue
            found.append((field.name, value, one))
    return found


BUILT = [one for one in structs() if not is_event(one) and one.__name__ not in UNSENT]


@pytest.mark.parametrize("kind", [one for one in BUILT if one not in WRITTEN])
def test_what_users_build_is_refused_or_can_be_read(kind: type[msgspec.Struct]) -> None:
    for name, value, one in wrong(kind):
        items = name in ("parts", "windows", "tools", "handoffs", "omitted", "output")
        if items or name in ("before", "after", "citations", "payload"):
            # Of containers and free JSON the writer looks at the inside.
            continue
        line = encode(one)
        assert json.loads(encode(decode(line, kind))) == json.loads(line), (name, value)


def is_stored(event: Event) -> bool:
    """Whether the writer takes *event*; what it takes is read."""
    try:
        entry = to_entry(msgspec.structs.replace(event, run_id="r", seq=1), "r", 1, 1)
    except Misuse:
        return False
    return read_event(entry).kind == event.kind


@pytest.mark.parametrize("kind", WRITTEN)
def test_what_runs_build_is_refused_by_the_log_or_can_be_read(kind: type[msgspec.Struct]) -> None:
    assert {is_stored(WRITTEN[kind](one)) for _, _, one in wrong(kind)} == {True, False}


@pytest.mark.parametrize("kind", sorted(DURABLE, key=lambda one: one.__name__))
def test_an_event_is_refused_or_can_be_read(kind: Any) -> None:
    events = [one for name, _, one in wrong(kind) if name not in ("run_id", "seq", "part")]
    assert {is_stored(one) for one in events} == {True, False}


@pytest.mark.parametrize("place", ["memory:", "runs.db"])
async def test_a_journal_takes_no_event_that_it_could_not_read(place: str, tmp_path: Any) -> None:
    address = place if place == "memory:" else f"{tmp_path}/{place}"
    async with open_journal(address) as journal:
        event = BoardChanged(run_id="r", seq=1, channel=5)  # pyright: ignore[reportArgumentType]  # what is tested
        with pytest.raises(Misuse, match="cannot be stored"):
            journal.append(event)
        assert [one async for one in journal.events("r")] == []


def test_a_board_takes_no_channel_that_is_no_text() -> None:
    with pytest.raises(Misuse, match="a channel name must be a string, got 5"):
        Board().append(Message("user", "x"), channel=5)  # pyright: ignore[reportArgumentType]  # what is tested
    assert Board().snapshot() == BoardSnapshot()


C: Any = contract


@pytest.mark.parametrize(
    "make",
    [
        lambda: C.Message("user", "x", tool_call_id=5),
        lambda: C.Message("user", "x", name=5),
        lambda: C.Message("user", "x", paused="no"),
        lambda: C.ModelResponse(error="busy"),
        lambda: C.ModelResponse(parts=["x"]),
        lambda: C.ModelResponse(rate_limit={"limited": True}),
        lambda: C.AgentError(5),
        lambda: C.ToolDenied("c", "t", reason=5),
        lambda: C.ToolDenied(5, "t", reason="policy"),
        lambda: C.Unknown("kind", 5),
        lambda: C.Text("x", signature=5),
        lambda: C.AgentResult(usage=5),
    ],
)
def test_a_field_of_the_wrong_type_is_misuse(make: Any) -> None:
    with pytest.raises(Misuse):
        make()
