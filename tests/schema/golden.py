"""The golden set: what values are, and the file in which each is written.

``python -m tests.schema.golden`` writes the files that are not there yet. One that is there is
never written anew: programs in other languages were made to read it, so a difference is a
broken contract until somebody decides otherwise and deletes the file.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from upshot import contract
from upshot.contract import (
    AgentCapabilities,
    AgentCard,
    AgentError,
    AgentResult,
    AgentSpec,
    Answer,
    ApprovalRecord,
    Approve,
    Artifact,
    AttemptLine,
    Audio,
    BoardSnapshot,
    Budget,
    Checkpoint,
    ChildRun,
    Coercion,
    Cost,
    Data,
    Deny,
    Edit,
    Effect,
    File,
    FinalizeDecision,
    GateVerdict,
    HandoffEvent,
    Image,
    Interrupt,
    Message,
    ModelResponse,
    ModelSettings,
    PendingApproval,
    PendingEffect,
    PendingExternal,
    PendingQuestion,
    RateLimitState,
    RateLimitWindow,
    Reasoning,
    Request,
    RequestConfig,
    RequestDigests,
    Retry,
    RunEffect,
    RunWarning,
    ServerToolBlock,
    Skill,
    TaintOrigin,
    Text,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolRecord,
    ToolTimeout,
    Unknown,
    Usage,
    encode,
    to_execution_result,
)

__all__ = ["FOLDER", "GOLDEN", "VIEWS", "laid_out"]

FOLDER = Path(__file__).resolve().parents[2] / "schema" / "golden"

START = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
CALL = ToolCall("call-1", "order_status", arguments={"order_id": "7"})
USAGE = Usage(
    input_tokens=1200, output_tokens=85, cache_read_tokens=1024, reasoning_tokens=40, api_calls=2
)
COST = Cost(
    input=Decimal("0.00022"),
    output=Decimal("0.00085"),
    cache_read=Decimal("0.000128"),
    source="genai-prices",
    priced_on=date(2026, 2, 27),
)
WINDOWS = RateLimitState(
    limited=True,
    retry_after=7,
    windows=(
        RateLimitWindow(
            name="requests_per_minute", limit=60, remaining=0, resets_in=7, reset_at=1772366407.25
        ),
        RateLimitWindow(name="images_per_day", resource="images", limit=100, remaining=98),
    ),
)
RESULT = ToolExecutionResult(
    "call-1", "order_status", output={"order": "7", "status": "shipped"}, elapsed_ms=31
)
TIMEOUT = ToolTimeout(
    "call-2", "refund", deadline_s=1772366420.5, timeout_s=20.0, elapsed_ms=20_000, retryable=False
)
FAILURE = ToolFailure(
    "call-3", "search", error="the index is being built", elapsed_ms=4, retry_after_s=1.5
)
DENIED = ToolDenied(
    "call-4",
    "refund",
    reason="moon_phase",
    details="not while it is full",
    hint="Ask again tomorrow.",
)
STORED = ToolArtifactReference(
    "call-5", "export", artifact_id="art-1", summary="1,200 lines of CSV", size_bytes=48_213
)
RECORD = ToolRecord(
    run_id="run-1",
    turn=1,
    call_id="call-1",
    tool_name="order_status",
    tool_version="9f2c",
    arguments_given='{"order_id": 7}',
    arguments_validated={"order_id": "7"},
    arguments_executed={"order_id": "7"},
    coercions=(Coercion(path="/order_id", rule="string", before=7, after="7"),),
    trace=(GateVerdict(gate="arguments", verdict="edit", detail="1 coercion"),),
    attempts=1,
    run_ms=31,
    declared_effect=Effect.READ,
    mode="thread",
    started_at=START,
    outcome=RESULT,
)
ASKED = PendingApproval(
    call_id="call-2",
    tool_name="refund",
    arguments={"order_id": "7", "cents": 1250},
    digest="b94d27",
    asked_at=START,
)
DOUBT = PendingEffect(
    id="0123456789abcdef0123456789abcdef",
    question="Did this happen? refund(order_id 7)",
    call_id="call-4",
    tool_name="refund",
    arguments={"order_id": "7"},
    error="the bank did not answer",
    started_at=START,
)
QUESTION = PendingQuestion(id="q-1", question="Which address?", choices=("home", "work"))
LIMITED = AgentError(
    "rate_limit",
    "the provider allows no more requests this minute",
    type="RateLimitError",
    status_code=429,
    retryable=True,
    retry_after_s=7.0,
    provider_code="rate_limit_exceeded",
)
THOUGHT = Reasoning(text="Orders are looked up.", signature="c2lnbmVk", provider="anthropic")
ASSISTANT = Message("assistant", (THOUGHT, Text("Let me look.")), tool_calls=(CALL,))
SEARCHED = Message(
    "assistant",
    (
        ServerToolBlock(
            {"type": "server_tool_use", "id": "s-1", "name": "web_search", "input": {}}, "anthropic"
        ),
        Text("It left ", citations=({"type": "web_search_result_location"},), provider="anthropic"),
    ),
    paused=True,
)
SPOKEN = (
    ASSISTANT,
    Message("tool", '{"status":"shipped"}', tool_call_id="call-1", name="order_status"),
    Message("assistant", "Order 7 was shipped."),
)
REPLY = ModelResponse(
    content="Let me look.",
    tool_calls=(CALL,),
    reasoning=(THOUGHT,),
    usage=USAGE,
    cost=COST,
    finish_reason="tool_use",
    provider_data={"provider": "anthropic", "model": "claude-sonnet-4-5", "request_id": "req-1"},
    duration_ms=812,
)
REFUSED = ModelResponse(error=LIMITED, rate_limit=WINDOWS, finish_reason="error", duration_ms=95)
COMPLETED = AgentResult(
    output="Order 7 was shipped.",
    content="Order 7 was shipped.",
    messages=SPOKEN,
    seeded=(Message("user", "Where is order 7?"),),
    tool_outcomes=(RESULT,),
    tool_records=(RECORD,),
    artifacts=(Artifact("notes", (Text("Shipped on Monday.", trust="untrusted"),)),),
    usage=USAGE,
    cost=COST,
    finish_reason="stop",
    provider_data=REPLY.provider_data,
    committed=True,
    attempt_log=(AttemptLine(usage=USAGE, cost=COST, content="Order 7 was shipped."),),
    warnings=(RunWarning(code="observer_failed", message="on_run_end raised", origin="observer"),),
    run_id="run-1",
    agent_id="support",
    started_at=START,
    duration_ms=2_345,
    metadata={"ticket": 4711, "tags": ["order", None, True], "deep": {"price": 12.5}},
)
IN_DOUBT = AgentResult(
    content="It is being checked.",
    effects=(
        RunEffect(
            tool="refund",
            state=Effect.UNKNOWN,
            run_id="run-2",
            call_id="call-3",
            path=("run-1",),
            key='refund ["7"]',
        ),
        RunEffect(tool="note", run_id="run-1", call_id="call-4", step="notes"),
    ),
    child_runs=(ChildRun(run_id="run-2", tools=("refund",), effect=Effect.UNKNOWN),),
    warnings=(RunWarning(code="effect_unknown", message="refund", origin="tool"),),
    run_id="run-1",
)
FAILED = AgentResult(
    status="failed",
    content="Let me look.",
    error=LIMITED,
    rate_limit=WINDOWS,
    usage=Usage(api_calls=1, unmeasured_calls=1),
    finish_reason="error",
    run_id="run-2",
)
PARKED = AgentResult(
    status="input_required",
    error=AgentError("input_required", "refund waits for approval", origin="host"),
    pending=(
        ASKED,
        QUESTION,
        PendingExternal(id="x-1", description="the bank's answer", expires_at=START),
    ),
    run_id="run-3",
)
SPEC = AgentSpec(
    id="support",
    name="Support",
    model="anthropic:claude-sonnet-4-5",
    instructions="Answer questions about orders.",
    tools=("order_status", "refund"),
    output_schema={"type": "object", "properties": {"answer": {"type": "string"}}},
    handoffs=("billing",),
    card=AgentCard(description="Knows about orders."),
    budget=Budget(max_turns=None, max_cost_usd=Decimal("0.50"), deadline_s=120.0),
    settings=ModelSettings(temperature=0.2, reasoning="low", stop=("END",), extra={"top_k": 40}),
    retry=Retry(max_tries=2),
)
REQUEST = Request(
    Message("user", (Text("Where is order 7?"), Image(url="https://example.org/parcel.png"))),
    inputs={"customer": "c-9"},
    task_id="task-1",
    context_id="talk-1",
    config=RequestConfig(accepted_output_modes=("text/plain", "application/json")),
)
TOMORROW = Unknown(raw={"kind": "hologram", "depth": 3, "frames": [{"kind": "text", "n": 1}]})


def _event(kind: str, seq: int, *, part: int = 0, **fields: Any) -> Any:
    return getattr(contract, kind)(
        run_id="run-1", attempt=1, time=START, seq=seq, part=part, **fields
    )


EVENTS = (
    _event("RunStarted", 1, agent=SPEC, request=REQUEST, attributes={"shop": "north"}),
    _event("BoardChanged", 2, messages=(REQUEST.to_message(),), seeded=True),
    _event(
        "Compacted",
        16,
        end=4,
        kept=(0,),
        summary=Message("user", "Order 7 is packed."),
        tokens_before=180_000,
    ),
    _event("AttemptStarted", 3, feedback="Name the carrier too."),
    _event(
        "ModelStarted",
        4,
        model="anthropic:claude-sonnet-4-5",
        turn=1,
        request=RequestDigests(
            instructions="5c9a7e0f1b2d3a44",
            tools="08f1c2d3e4a5b697",
            messages="9d0e1f2a3b4c5d6e",
            count=2,
            added=("77aa88bb99cc00dd", "9d0e1f2a3b4c5d6e"),
        ),
    ),
    _event("ModelRetried", 5, model="anthropic:x", turn=1, tries=1, wait_s=7.5, response=REFUSED),
    _event("ReasoningDelta", 5, part=1, text="Orders are"),
    _event("TextDelta", 5, part=2, text="Let me"),
    _event("ToolCallDelta", 5, part=3, call_id="call-1", name="order_status", arguments='{"or'),
    _event("PartDelta", 5, part=5, content=Audio(data=b"\x00\x01", media_type="audio/wav")),
    _event("Lagged", 5, part=4, missed=12),
    _event("ModelReplied", 6, model="anthropic:x", turn=1, tries=2, response=REPLY),
    _event(
        "ToolStarted",
        7,
        call=CALL,
        arguments={"order_id": "7"},
        turn=1,
        effect=Effect.READ,
        idempotent=True,
        tool_version="9f2c",
    ),
    _event("ToolProgress", 7, part=1, call_id="call-1", text="half", data={"done": 0.5}),
    _event("ToolSettled", 8, record=RECORD),
    _event(
        "ArtifactStored",
        9,
        call_id="call-5",
        artifact=File(id="art-1", media_type="text/csv", size_bytes=48_213, lines=1200),
    ),
    _event("ApprovalRequested", 10, pending=ASKED),
    _event("ApprovalAnswered", 11, answer=Deny("call-2", "too much", by="ann"), digest="b94d27"),
    _event("QuestionAsked", 12, pending=QUESTION),
    _event("QuestionAnswered", 13, id="q-1", value="home"),
    _event("StepStarted", 14, key="pack", effect=Effect.DESTRUCTIVE),
    _event(
        "StepSettled", 15, key="pack", effect=Effect.UNKNOWN, error=AgentError("timeout", "late")
    ),
    _event("CheckpointSaved", 16, step="packed", iteration=3, payload={"next": "ship"}),
    HandoffEvent(
        run_id="run-1",
        attempt=1,
        time=START,
        seq=17,
        to_agent_id="billing",
        tool_name="transfer_to_billing",
        call_id="call-6",
        reason="a question of money",
    ),
    _event("RunInterrupted", 18, interrupt=Interrupt("host_shutdown", "a new release")),
    _event("Decided", 19, decider="Strict", decision=FinalizeDecision.revise("Name the carrier.")),
    _event("AttemptEnded", 20, line=AttemptLine(usage=USAGE), state={"finalize_reason": "ok"}),
    _event("Committed", 21, committed=False, reason="discarded"),
    _event("Warned", 22, warning=RunWarning(code="lossy_value", message="NaN became null")),
    _event("RunSettled", 23, result=COMPLETED),
    _event("RunResumed", 24, interrupted_calls=("call-7",)),
    _event("UsageReported", 25, number=2, response=REPLY),
    _event("RunReleased", 27, reason="due", at=datetime(2025, 3, 1, 9, 30, tzinfo=UTC)),
    _event(
        "ToolStateSaved",
        28,
        call_id="call-5",
        tool_name="pay",
        idempotency_key="k5",
        state={"task": "t-1"},
    ),
    _event("Tainted", 26, origin=TaintOrigin(source="fetch", call_id="call-9", run_id="run-2")),
)

# By the name of the file: the kind, and where there are several of a kind, the state.
GOLDEN: dict[str, Any] = {
    "agent_result.completed": COMPLETED,
    "agent_result.in_doubt": IN_DOUBT,
    "agent_result.failed": FAILED,
    "agent_result.parked": PARKED,
    "agent_result.interrupted": AgentResult(
        status="interrupted",
        cause="user_cancel",
        detail="the tab was closed",
        error=AgentError("interrupted", "the user stopped it", origin="caller"),
        content="Order 7",
        usage=USAGE,
    ),
    "agent_result.canceled": AgentResult(
        status="canceled", error=AgentError("canceled", "the task was cancelled", origin="caller")
    ),
    "agent_result.aborted": AgentResult(
        status="aborted", error=AgentError("tomorrows_code", "an unknown word", origin="elsewhere")
    ),
    "agent_result.structured": AgentResult(
        output={"answer": "shipped", "days": [1, 2.5, None]}, content='{"answer":"shipped"}'
    ),
    "model_response.completed": REPLY,
    "model_response.failed": REFUSED,
    "model_response.refused": ModelResponse(refusal="I cannot.", finish_reason="content_filter"),
    "request": REQUEST,
    "agent_card": AgentCard(
        name="Support",
        description="Knows about orders.",
        skills=(Skill(id="orders", name="Orders", tags=("shop",), examples=("Where is 7?",)),),
        capabilities=AgentCapabilities(streaming=True),
    ),
    "agent_spec": SPEC,
    "tool_record.completed": RECORD,
    "tool_record.denied": ToolRecord(
        call_id="call-4",
        tool_name="refund",
        gate="policy",
        declared_effect=Effect.DESTRUCTIVE,
        approval=ApprovalRecord(decision="denied", by="ann", at=START, reason="too much"),
        outcome=DENIED,
    ),
    "checkpoint": Checkpoint(
        "run-1",
        "packed",
        BoardSnapshot(
            channels={"main": (REQUEST.to_message(), *SPOKEN)},
            variables={"output": None, "count": 3},
            seeded={"main": 1},
        ),
        iteration=3,
        payload={"next": "ship"},
        timestamp=START,
        original_started_at=START,
        agent_id="shop",
    ),
    "message.assistant": ASSISTANT,
    "message.paused": SEARCHED,
    "server_tool_block": SEARCHED.parts[0],
    "message.tool": SPOKEN[1],
    "message.user": REQUEST.to_message(),
    "message.unknown_part": Message("user", (Text("Look:"), TOMORROW)),
    "tool_call": ToolCall("call-1", "order_status", '{"order_id": 7', signature="c2lnbmVk"),
    "artifact": Artifact("report", (File(name="report.csv", id="art-1"), Data([1, {"a": None}]))),
    "tool_execution_result": RESULT,
    "tool_timeout": TIMEOUT,
    "tool_failure": FAILURE,
    "tool_denied": DENIED,
    "tool_artifact_reference": STORED,
    "pending_approval": ASKED,
    "pending_question": QUESTION,
    "pending_effect": DOUBT,
    "pending_external": PendingExternal(id="x-1", description="the bank's answer"),
    "approve": Approve("call-2", always="arguments", by="ann"),
    "deny": Deny("call-2", "too much", by="ann"),
    "edit": Edit("call-2", {"order_id": "7", "cents": 900}),
    "answer": Answer("q-1", {"address": ["home"]}, by="bob"),
    "text": Text("Grüße, 世界 \N{PARTY POPPER} \u2028 \x7f"),
    "image": Image(data=b"\x89PNG\r\n", media_type="image/png", detail="low"),
    "file": File(name="order.pdf", data=b"%PDF-1.7", media_type="application/pdf", size_bytes=8),
    "audio": Audio(id="aud-1", media_type="audio/wav", transcript="Where is order 7?"),
    "data": Data({"numbers": [0, -1, 1.5, 1e21, 9007199254740991]}),
    "reasoning": Reasoning(signature="c2lnbmVk", provider="anthropic", redacted=True),
    **{event.kind: event for event in EVENTS},
    "unknown_event": Unknown(
        raw={"kind": "moon_rose", "schema_version": 2, "run_id": "run-1", "seq": 25, "phase": 0.5}
    ),
}

VIEWS: dict[str, Any] = {
    f"agent_execution_result.{state}": to_execution_result(result)
    for state, result in (("completed", COMPLETED), ("failed", FAILED), ("parked", PARKED))
}


def laid_out(data: bytes) -> bytes:
    """*data*, which is JSON, as a golden file has it."""
    return msgspec.json.format(data, indent=2) + b"\n"


def _write_missing() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    forms = {name: encode(value) for name, value in GOLDEN.items()}
    forms |= {name: json.dumps(view, ensure_ascii=False).encode() for name, view in VIEWS.items()}
    for name, form in forms.items():
        path = FOLDER / f"{name}.json"
        if not path.exists():
            path.write_bytes(laid_out(form))
            print(f"new: {path.name}")


if __name__ == "__main__":
    _write_missing()
