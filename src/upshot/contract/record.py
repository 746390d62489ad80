"""ToolRecord: all that the log and the result keep of one tool call."""

from __future__ import annotations

from datetime import datetime

from .outcome import ToolOutcome
from .value import Json, JsonObject, Root, Value, settle_moments, written
from .words import Effect

__all__ = ["ApprovalRecord", "Coercion", "GateVerdict", "ToolRecord"]


class Coercion(Value, frozen=True, kw_only=True):
    """One argument that was changed to fit its schema.

    Attributes:
        path: Where, as a JSON pointer.
        rule: Which safe rule did it, such as "integer".
        before: The value as the model gave it.
        after: The value that the tool got.
    """

    path: str = ""
    rule: str = ""
    before: Json = None
    after: Json = None


class GateVerdict(Value, frozen=True, kw_only=True):
    """What one gate said of a call.

    Attributes:
        gate: The gate's name.
        verdict: "pass", "deny", "wait" or "edit".
        detail: Why, "" if there is nothing to say.
    """

    gate: str = ""
    verdict: str = "pass"
    detail: str = ""


class ApprovalRecord(Value, frozen=True, kw_only=True):
    """Who let a call run, or did not.

    Attributes:
        decision: "approved", "denied", "edited" or "always".
        by: Who answered, "" where unknown.
        at: When.
        digest: SHA-256 over the final arguments and the tool's version.
        reason: What was said with it.
        scope: How far it holds: "tool", "arguments", or "" for the one call.
    """

    decision: str = ""
    by: str = ""
    at: datetime | None = None
    digest: str = ""
    reason: str = ""
    scope: str = ""

    def __post_init__(self) -> None:
        settle_moments(self, "at")


class ToolRecord(Root, frozen=True, kw_only=True):
    """All facts of one settled tool call.

    Attributes:
        run_id: The run that it belongs to.
        parent_run_id: That run's parent, "" for a root run.
        turn: Which turn asked for it, as the caller of ``dispatch`` labelled it.
        call_id: The model's id of the call.
        tool_name: The tool as the model named it.
        tool_version: Digest of the tool's schema and description, "" for an unknown tool.
        arguments_given: As the model wrote them.
        arguments_validated: After coercion and defaults; None where they were refused.
        arguments_executed: As the body got them, after an edit; None where it did not start.
        coercions: What was changed.
        lossy: Paths of output values that JSON cannot hold and that were replaced.
        gate: The gate that decided, "" where all let it pass.
        trace: Every gate that was asked, in order.
        approval: Who let it run, None where nobody was asked.
        attempts: How often the body was started.
        queue_ms: How long it waited for its turn, people's time excluded.
        run_ms: How long the body ran.
        declared_effect: What the tool says it may do.
        effect: What came of it outside.
        argument_bytes: Size of the arguments as executed.
        output_bytes: Size of the text for the model.
        artifact_id: Where a large output is stored, "" if it is not.
        mode: "async", "thread" or "process"; "" where it did not start.
        redactions: How many secrets were masked.
        idempotency_key: What the tool was given to recognise a repetition.
        started_at: When the body started, None where it did not.
        trust: "untrusted" where the outcome may hold words of strangers, else "".
        outcome: What came of the call.
    """

    run_id: str = ""
    parent_run_id: str = ""
    turn: int = 0
    call_id: str = ""
    tool_name: str = ""
    tool_version: str = ""
    arguments_given: str | JsonObject = {}
    arguments_validated: JsonObject | None = None
    arguments_executed: JsonObject | None = None
    coercions: tuple[Coercion, ...] = ()
    lossy: tuple[str, ...] = ()
    gate: str = ""
    trace: tuple[GateVerdict, ...] = ()
    approval: ApprovalRecord | None = None
    attempts: int = 0
    queue_ms: int = 0
    run_ms: int = 0
    declared_effect: Effect | None = None
    effect: Effect = written(Effect.NONE)
    argument_bytes: int = 0
    output_bytes: int = 0
    artifact_id: str = ""
    mode: str = ""
    redactions: int = 0
    idempotency_key: str = ""
    started_at: datetime | None = None
    trust: str = ""
    outcome: ToolOutcome

    def __post_init__(self) -> None:
        settle_moments(self, "started_at")

    def __repr__(self) -> str:
        from .portrait import portray_briefly

        shown = ("call_id", "tool_name", "arguments_given", "gate", "approval", "outcome")
        return portray_briefly(self, without=set(self.__struct_fields__).difference(shown))
