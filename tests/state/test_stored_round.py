"""Whatever is stored is read back as it was, also where no run would write it so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.searching import examples
from upshot import (
    AgentError,
    AgentSpec,
    ApprovalRequested,
    AttemptEnded,
    AttemptLine,
    AttemptStarted,
    BoardChanged,
    Message,
    ModelReplied,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    PendingApproval,
    Request,
    RequestDigests,
    RunResumed,
    RunSettled,
    RunStarted,
    ToolCall,
    ToolRecord,
    ToolSettled,
    ToolStarted,
    Usage,
    Warned,
    decode,
    encode,
)
from upshot.contract.base.enums import Effect, ErrorCode, FinishReason, Status
from upshot.contract.error import RunWarning
from upshot.contract.events import Event, StepSettled, UsageReported
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    fence,
    outcome_to_model_content,
)
from upshot.state.run_state import RunState
from upshot.state.stored_events import filled, to_stored

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
IDS, NAMES, TEXTS = ["c", "d", ""], ["look", "put", ""], [None, "", "said", "more"]
# What Python takes for the same, and what a field holds that was never set.
VALUES = st.sampled_from(
    [1, 1.0, True, 0, 0.0, False, None, "", "x", [], [1], [True], {}, {"k": 1}]
)
ARGUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2),
    st.sampled_from(['{"x": 1}', '{"x": true}', "{", "[1]", "", "{}"]),
)
OBJECTS = st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2)
TURNS = st.integers(0, 3)
CALLS = st.builds(ToolCall, st.sampled_from(IDS), st.sampled_from(NAMES), ARGUMENTS)
STATUSES = st.sampled_from(
    [Status.COMPLETED, Status.FAILED, Status.INPUT_REQUIRED, Status.INTERRUPTED]
)
RESPONSES = st.builds(
    ModelResponse,
    content=st.sampled_from(TEXTS),
    tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    finish_reason=st.sampled_from([FinishReason.STOP, FinishReason.TOOL_USE]),
    usage=st.sampled_from([Usage(), Usage(input_tokens=1, api_calls=1)]),
    provider_data=st.sampled_from([{}, {"k": 1}, {"k": True}]),
)
_of = {"call_id": st.sampled_from(IDS), "tool_name": st.sampled_from(NAMES)}
OUTCOMES = st.one_of(
    st.builds(ToolExecutionResult, **_of, output=OBJECTS),
    st.builds(ToolFailure, **_of, error=st.sampled_from(["", "no"])),
    st.builds(ToolDenied, **_of, details=st.sampled_from(["", "no"])),
    st.builds(ToolArtifactReference, **_of, artifact_id=st.sampled_from(["", "a"])),
)
VERSIONS, EFFECTS = st.sampled_from(["", "v1"]), st.sampled_from([Effect.READ, Effect.WRITE])
RECORDS = st.builds(
    ToolRecord,
    call_id=st.sampled_from(IDS),
    tool_name=st.sampled_from(NAMES),
    outcome=OUTCOMES,
    run_id=st.sampled_from(["", "r", "s"]),
    turn=TURNS,
    tool_version=VERSIONS,
    arguments_given=ARGUMENTS,
    arguments_validated=st.none() | OBJECTS,
    arguments_executed=st.none() | OBJECTS,
    trust=st.sampled_from(["", "untrusted"]),
    attempts=st.integers(0, 2),
    idempotency_key=VERSIONS,
    started_at=st.sampled_from([None, BEGIN, BEGIN + timedelta(seconds=1)]),
    argument_bytes=st.sampled_from([0, 2, 7]),
    output_bytes=st.sampled_from([0, 2, 7]),
)
LINES = st.builds(
    AttemptLine,
    attempt=st.integers(0, 2),
    status=STATUSES,
    content=st.sampled_from(TEXTS),
    feedback=st.sampled_from(["", "better"]),
    revise_reason=st.sampled_from(["", "r"]),
)
WARNINGS = st.builds(RunWarning, code=st.sampled_from(["a", "b"]))
PENDING = st.builds(
    PendingApproval,
    call_id=st.sampled_from(IDS),
    tool_name=st.sampled_from(NAMES),
    arguments=OBJECTS,
    digest=VERSIONS,
)


def result_of_status(status: Status, **facts: Any) -> AgentResult[Any]:
    error = None if status is Status.COMPLETED else AgentError(ErrorCode.INTERNAL, "no")
    return AgentResult(status=status, error=error, **facts)  # type: ignore[arg-type]


RESULTS = st.builds(
    result_of_status,
    status=STATUSES,
    run_id=st.sampled_from(["", "r", "s"]),
    agent_id=st.sampled_from(["", "a", "b"]),
    content=st.sampled_from(TEXTS),
    output=VALUES,
    messages=st.sampled_from([(), (Message("assistant", "said"),)]),
    usage=st.sampled_from([Usage(), Usage(api_calls=1), Usage(input_tokens=1, api_calls=1)]),
    tool_records=st.lists(RECORDS, max_size=1).map(tuple),
    tool_outcomes=st.lists(OUTCOMES, max_size=1).map(tuple),
    attempts=st.integers(1, 2),
    attempt_log=st.lists(LINES, max_size=1).map(tuple),
    warnings=st.lists(WARNINGS, max_size=1).map(tuple),
    pending=st.lists(PENDING, max_size=1).map(tuple),
    state=st.sampled_from([{}, {"k": 1}, {"k": True}]),
    finish_reason=st.sampled_from([None, FinishReason.STOP]),
    started_at=st.sampled_from([None, BEGIN, BEGIN + timedelta(seconds=1)]),
    ended_at=st.sampled_from([None, BEGIN, BEGIN + timedelta(seconds=1)]),
    duration_ms=st.sampled_from([0, 1000]),
    metadata=st.sampled_from([{}, {"k": 1}]),
    provider_data=st.sampled_from([{}, {"k": 1}]),
)
AGENTS = st.builds(AgentSpec, id=st.sampled_from(["", "a", "b"]))
OPTIONS = st.sampled_from([{}, {"k": 1}, {"k": True}])
DIGESTS = st.sampled_from(["", "1a", "2b"])
REQUESTS = st.none() | st.builds(
    RequestDigests, instructions=DIGESTS, tools=DIGESTS, settings=DIGESTS, messages=DIGESTS,
    count=st.integers(0, 3), added=st.lists(DIGESTS, max_size=2).map(tuple),
)  # fmt: skip
MODELS = {"model": st.sampled_from(["", "m", "n"]), "turn": TURNS}
MESSAGES = st.one_of(
    st.sampled_from([Message("user", "?"), Message("assistant", "said"), Message("tool", "x")]),
    st.builds(lambda reply: reply.to_message(), RESPONSES),
    st.builds(
        lambda outcome, is_fenced: Message(
            "tool",
            fence(outcome_to_model_content(outcome), run_id="r", call_id=outcome.call_id)
            if is_fenced
            else outcome_to_model_content(outcome),
            tool_call_id=outcome.call_id,
            name=outcome.tool_name,
        ),
        OUTCOMES,
        st.booleans(),
    ),
)
EVENTS = st.one_of(
    st.builds(
        RunStarted,
        agent=AGENTS,
        request=st.sampled_from([Request("?"), Request("?", task_id="t", metadata={"k": 1})]),
        options=OPTIONS,
        parent_run_id=st.sampled_from(["", "p"]),
    ),
    st.builds(RunResumed, agent=st.none() | AGENTS, options=OPTIONS,
              interrupted_calls=st.sampled_from([(), ("c",), ("c", "d")])),
    st.builds(AttemptStarted, feedback=st.sampled_from(["", "better"])),
    st.builds(ModelStarted, **MODELS, request=REQUESTS, purpose=VERSIONS),
    st.builds(ModelRetried, **MODELS, tries=st.integers(0, 2), response=RESPONSES),
    st.builds(
        ModelReplied, **MODELS, tries=st.integers(0, 2), response=RESPONSES, purpose=VERSIONS
    ),
    st.builds(
        ToolStarted, call=CALLS, arguments=OBJECTS, turn=TURNS, effect=EFFECTS,
        idempotent=st.booleans(), tool_version=VERSIONS, idempotency_key=VERSIONS,
    ),
    st.builds(ToolSettled, record=RECORDS),
    st.builds(ApprovalRequested, pending=PENDING),
    st.builds(
        BoardChanged, messages=st.lists(MESSAGES, max_size=2).map(tuple), seeded=st.booleans(),
        variables=st.dictionaries(st.sampled_from(["x", "output"]), VALUES, max_size=1),
    ),
    st.builds(StepSettled, key=st.sampled_from(["k", "child:x"]), value=VALUES),
    st.builds(UsageReported, response=RESPONSES),
    st.builds(AttemptEnded, line=LINES, state=OPTIONS),
    st.builds(Warned, warning=WARNINGS),
    st.builds(RunSettled, result=RESULTS),
)  # fmt: skip


def stamped(number: int, event: Any, *, attempt: int) -> Event:
    """*event* as the one with that number."""
    time = BEGIN + timedelta(seconds=number)
    return replace(event, run_id="r", seq=number, time=time, attempt=attempt)


def in_form(value: Any) -> Any:
    """*value* as JSON text: 1, 1.0 and True are told apart, what is empty or absent is not."""
    return msgspec.json.encode(_bare(msgspec.json.decode(encode(value))), order="sorted")


def _bare(form: Any) -> Any:
    if isinstance(form, list):
        return [*map(_bare, form)]
    if not isinstance(form, dict):
        return form
    # What equals its default may be absent, and whether it is depends on how the value was made.
    return {name: _bare(one) for name, one in form.items() if one not in ({}, [], "", None)}


@examples(400)
@given(events=st.lists(st.tuples(EVENTS, st.integers(0, 2)), max_size=12))
def test_what_is_stored_is_read_as_it_was(events: list[tuple[Any, int]]) -> None:
    written, read = RunState(), RunState()
    for number, (event, attempt) in enumerate(events, 1):
        whole = stamped(number, event, attempt=attempt)
        kept = encode(to_stored(written, whole))
        stored: Any = decode(kept, Event)
        assert in_form(filled(read, stored)) == in_form(whole)
        assert filled(written, to_stored(written, whole)) == whole
        written.add(whole)
        read.add(stored if isinstance(stored, RunSettled) else filled(read, stored))


@examples(100)
@given(events=st.lists(st.tuples(EVENTS, st.integers(0, 2)), max_size=12))
def test_a_state_that_was_read_is_the_one_that_was_written(events: list[tuple[Any, int]]) -> None:
    written, read = RunState(), RunState()
    for number, (event, attempt) in enumerate(events, 1):
        whole = stamped(number, event, attempt=attempt)
        stored = to_stored(written, whole)
        written.add(whole)
        read.add(filled(read, stored))
    for name in ("records", "settled", "unsettled", "responses", "replies", "children", "state",
                 "asked", "turns", "lost_calls", "warnings", "lines", "models"):  # fmt: skip
        assert getattr(read, name) == getattr(written, name), name
    assert read.board.snapshot() == written.board.snapshot()
