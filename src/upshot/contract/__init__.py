"""Values that every layer speaks: frozen structs without I/O, clock or randomness.

Each is loaded at its first use.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .a2a import from_a2a, to_a2a
    from .agent import Agent, Instructions, ToolItem, handoffs_of
    from .answer import (
        Answer,
        AnyAnswer,
        Approve,
        Deny,
        Edit,
        Pending,
        PendingApproval,
        PendingExternal,
        PendingQuestion,
    )
    from .artifact import Artifact
    from .budget import Budget
    from .call import ToolCall, ToolSpec
    from .card import AgentCapabilities, AgentCard, Skill
    from .checkpoint import SPEC_VERSION, BoardSnapshot, Checkpoint
    from .codec import decode, encode
    from .decision import FinalizeDecision
    from .error import AgentError
    from .event import (
        DELTAS,
        ApprovalAnswered,
        ApprovalRequested,
        ArtifactStored,
        AttemptEnded,
        AttemptStarted,
        BoardChanged,
        CheckpointSaved,
        Committed,
        Decided,
        Event,
        Lagged,
        ModelReplied,
        ModelRetried,
        ModelStarted,
        QuestionAnswered,
        QuestionAsked,
        ReasoningDelta,
        RunInterrupted,
        RunResumed,
        RunSettled,
        RunStarted,
        StepSettled,
        StepStarted,
        TextDelta,
        ToolCallDelta,
        ToolProgress,
        ToolSettled,
        ToolStarted,
        Warned,
    )
    from .execution_result import (
        AgentExecutionResult,
        ExecutionMetadata,
        decode_execution_result,
        execution_result_schema,
        to_execution_result,
    )
    from .free_json import UnserializableError, clean_text, to_free_json
    from .handoff import (
        HANDOFF_FINALIZE_REASON,
        HANDOFF_STATE_KEY,
        Handoff,
        HandoffEvent,
        handoff_tool_name,
    )
    from .identity import RunInfo
    from .interrupt import Interrupt
    from .message import (
        MAIN_CHANNEL,
        Audio,
        Conversation,
        Data,
        File,
        Image,
        Message,
        Part,
        Reasoning,
        Text,
        Unknown,
    )
    from .outcome import (
        TOOL_MESSAGE_MAX_CHARS,
        ToolArtifactReference,
        ToolDenied,
        ToolExecutionResult,
        ToolFailure,
        ToolOutcome,
        ToolTimeout,
        outcome_blocks_tool,
        outcome_is_error,
        outcome_is_retryable,
    )
    from .paging import PAGE_CHARS, read_page
    from .policy import Policy
    from .rate_limit import RateLimitState, RateLimitWindow
    from .record import ApprovalRecord, Coercion, GateVerdict, ToolRecord
    from .request import ModelInput, ModelRequest, Request, RequestConfig
    from .response import ModelResponse
    from .result import OUTPUT_VAR, AgentResult, AttemptLine, RunWarning
    from .result_view import ResultView
    from .roles import (
        AnyResult,
        ArtifactStore,
        Board,
        Clock,
        Decider,
        Engine,
        Host,
        Journal,
        Model,
        Observer,
        Run,
        RunSummary,
        StreamItem,
        Tool,
        ToolRunner,
    )
    from .schema import contract_schema, contract_typescript
    from .settings import ModelSettings, ReasoningEffort, Retry
    from .spec import AgentSpec
    from .stamp import RunEvent
    from .usage import Cost, Usage
    from .value import SCHEMA_VERSION, Json, JsonObject, Local
    from .views import (
        coerce_result,
        from_contract,
        outcome_to_model_content,
        outcome_to_object,
        result_of_response,
        to_contract,
    )
    from .words import (
        DeniedReason,
        Effect,
        ErrorCode,
        FinishReason,
        InterruptCause,
        OpenWord,
        Origin,
        Resource,
        Role,
        Status,
    )

__all__ = [
    "Agent",
    "AgentCapabilities",
    "AgentCard",
    "AgentError",
    "AgentExecutionResult",
    "AgentResult",
    "AgentSpec",
    "Answer",
    "AnyAnswer",
    "AnyResult",
    "ApprovalAnswered",
    "ApprovalRecord",
    "ApprovalRequested",
    "Approve",
    "Artifact",
    "ArtifactStore",
    "ArtifactStored",
    "AttemptEnded",
    "AttemptLine",
    "AttemptStarted",
    "Audio",
    "Board",
    "BoardChanged",
    "BoardSnapshot",
    "Budget",
    "Checkpoint",
    "CheckpointSaved",
    "Clock",
    "Coercion",
    "Committed",
    "Conversation",
    "Cost",
    "DELTAS",
    "Data",
    "Decided",
    "Decider",
    "DeniedReason",
    "Deny",
    "Edit",
    "Effect",
    "Engine",
    "ErrorCode",
    "Event",
    "ExecutionMetadata",
    "File",
    "FinalizeDecision",
    "FinishReason",
    "GateVerdict",
    "HANDOFF_FINALIZE_REASON",
    "HANDOFF_STATE_KEY",
    "Handoff",
    "HandoffEvent",
    "Host",
    "Image",
    "Instructions",
    "Interrupt",
    "InterruptCause",
    "Journal",
    "Json",
    "JsonObject",
    "Lagged",
    "Local",
    "MAIN_CHANNEL",
    "Message",
    "Model",
    "ModelInput",
    "ModelReplied",
    "ModelRequest",
    "ModelResponse",
    "ModelRetried",
    "ModelSettings",
    "ModelStarted",
    "OUTPUT_VAR",
    "Observer",
    "OpenWord",
    "Origin",
    "PAGE_CHARS",
    "Part",
    "Pending",
    "PendingApproval",
    "PendingExternal",
    "PendingQuestion",
    "Policy",
    "QuestionAnswered",
    "QuestionAsked",
    "RateLimitState",
    "RateLimitWindow",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningEffort",
    "Request",
    "RequestConfig",
    "Resource",
    "ResultView",
    "Retry",
    "Role",
    "Run",
    "RunEvent",
    "RunInfo",
    "RunInterrupted",
    "RunResumed",
    "RunSettled",
    "RunStarted",
    "RunSummary",
    "RunWarning",
    "SCHEMA_VERSION",
    "SPEC_VERSION",
    "Skill",
    "Status",
    "StepSettled",
    "StepStarted",
    "StreamItem",
    "TOOL_MESSAGE_MAX_CHARS",
    "Text",
    "TextDelta",
    "Tool",
    "ToolArtifactReference",
    "ToolCall",
    "ToolCallDelta",
    "ToolDenied",
    "ToolExecutionResult",
    "ToolFailure",
    "ToolItem",
    "ToolOutcome",
    "ToolProgress",
    "ToolRecord",
    "ToolRunner",
    "ToolSettled",
    "ToolSpec",
    "ToolStarted",
    "ToolTimeout",
    "Unknown",
    "UnserializableError",
    "Usage",
    "Warned",
    "clean_text",
    "coerce_result",
    "contract_schema",
    "contract_typescript",
    "decode",
    "decode_execution_result",
    "encode",
    "execution_result_schema",
    "from_a2a",
    "from_contract",
    "handoff_tool_name",
    "handoffs_of",
    "outcome_blocks_tool",
    "outcome_is_error",
    "outcome_is_retryable",
    "outcome_to_model_content",
    "outcome_to_object",
    "read_page",
    "result_of_response",
    "to_a2a",
    "to_contract",
    "to_execution_result",
    "to_free_json",
]

_HOMES = {
    "a2a": "from_a2a to_a2a",
    "agent": "Agent Instructions ToolItem handoffs_of",
    "answer": (
        "Answer AnyAnswer Approve Deny Edit Pending PendingApproval PendingExternal "
        "PendingQuestion "
    ),
    "artifact": "Artifact",
    "budget": "Budget",
    "call": "ToolCall ToolSpec",
    "card": "AgentCapabilities AgentCard Skill",
    "checkpoint": "BoardSnapshot Checkpoint SPEC_VERSION",
    "codec": "decode encode",
    "decision": "FinalizeDecision",
    "error": "AgentError",
    "event": (
        "ApprovalAnswered ApprovalRequested ArtifactStored AttemptEnded AttemptStarted "
        "BoardChanged CheckpointSaved Committed DELTAS Decided Event Lagged ModelReplied "
        "ModelRetried ModelStarted QuestionAnswered QuestionAsked ReasoningDelta "
        "RunInterrupted RunResumed RunSettled RunStarted StepSettled StepStarted TextDelta "
        "ToolCallDelta ToolProgress ToolSettled ToolStarted Warned "
    ),
    "execution_result": (
        "AgentExecutionResult ExecutionMetadata decode_execution_result execution_result_schema "
        "to_execution_result "
    ),
    "free_json": "UnserializableError clean_text to_free_json",
    "handoff": "HANDOFF_FINALIZE_REASON HANDOFF_STATE_KEY Handoff HandoffEvent handoff_tool_name",
    "identity": "RunInfo",
    "interrupt": "Interrupt",
    "message": (
        "Audio Conversation Data File Image MAIN_CHANNEL Message Part Reasoning Text Unknown "
    ),
    "outcome": (
        "TOOL_MESSAGE_MAX_CHARS ToolArtifactReference ToolDenied ToolExecutionResult "
        "ToolFailure ToolOutcome ToolTimeout outcome_blocks_tool outcome_is_error "
        "outcome_is_retryable "
    ),
    "paging": "PAGE_CHARS read_page",
    "policy": "Policy",
    "rate_limit": "RateLimitState RateLimitWindow",
    "record": "ApprovalRecord Coercion GateVerdict ToolRecord",
    "request": "ModelInput ModelRequest Request RequestConfig",
    "response": "ModelResponse",
    "result": "AgentResult AttemptLine OUTPUT_VAR RunWarning",
    "result_view": "ResultView",
    "roles": (
        "AnyResult ArtifactStore Board Clock Decider Engine Host Journal Model Observer Run "
        "RunSummary StreamItem Tool ToolRunner "
    ),
    "schema": "contract_schema contract_typescript",
    "settings": "ModelSettings ReasoningEffort Retry",
    "spec": "AgentSpec",
    "stamp": "RunEvent",
    "usage": "Cost Usage",
    "value": "Json JsonObject Local SCHEMA_VERSION",
    "views": (
        "coerce_result from_contract outcome_to_model_content outcome_to_object "
        "result_of_response to_contract "
    ),
    "words": (
        "DeniedReason Effect ErrorCode FinishReason InterruptCause OpenWord Origin Resource "
        "Role Status "
    ),
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
