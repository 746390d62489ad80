"""Values that every layer speaks: frozen structs without I/O, clock or randomness.

Each is loaded at its first use.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.contract.agent import Agent, Instructions, ToolItem, handoffs_of
    from upshot.contract.agent_spec import (
        HANDOFF_FINALIZE_REASON,
        HANDOFF_STATE_KEY,
        AgentCapabilities,
        AgentCard,
        AgentSpec,
        Handoff,
        HandoffEvent,
        RunInfo,
        Skill,
        handoff_tool_name,
    )
    from upshot.contract.base.enums import (
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
    from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
    from upshot.contract.base.paging import PAGE_CHARS, read_page
    from upshot.contract.base.structs import SCHEMA_VERSION, Json, JsonObject, Local, RunEvent
    from upshot.contract.codec import decode, encode
    from upshot.contract.error import AgentError, RunWarning
    from upshot.contract.events import (
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
        QuestionAnswered,
        QuestionAsked,
        RunInterrupted,
        RunResumed,
        RunSettled,
        RunStarted,
        StepSettled,
        StepStarted,
        ToolProgress,
        ToolSettled,
        ToolStarted,
        UsageReported,
        Warned,
    )
    from upshot.contract.forms.a2a_form import from_a2a, to_a2a
    from upshot.contract.forms.execution_form import (
        AgentExecutionResult,
        ExecutionMetadata,
        decode_execution_result,
        execution_result_schema,
        to_execution_result,
    )
    from upshot.contract.forms.flat_form import (
        ResultView,
        coerce_result,
        from_contract,
        result_of_response,
        to_contract,
    )
    from upshot.contract.message import (
        MAIN_CHANNEL,
        Artifact,
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
    from upshot.contract.model_calls import (
        ModelInput,
        ModelReplied,
        ModelRequest,
        ModelResponse,
        ModelRetried,
        ModelStarted,
        ReasoningDelta,
        Request,
        RequestConfig,
        TextDelta,
        ToolCallDelta,
    )
    from upshot.contract.pending import (
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
    from upshot.contract.protocols import (
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
    from upshot.contract.result import OUTPUT_VAR, AgentResult, AttemptLine
    from upshot.contract.run_control import (
        SPEC_VERSION,
        BoardSnapshot,
        Checkpoint,
        FinalizeDecision,
        Interrupt,
    )
    from upshot.contract.schema import contract_schema, contract_typescript
    from upshot.contract.settings import Budget, ModelSettings, Policy, ReasoningEffort, Retry
    from upshot.contract.tool_calls import (
        TOOL_MESSAGE_MAX_CHARS,
        ApprovalRecord,
        Coercion,
        GateVerdict,
        ToolArtifactReference,
        ToolCall,
        ToolDenied,
        ToolExecutionResult,
        ToolFailure,
        ToolOutcome,
        ToolRecord,
        ToolSpec,
        ToolTimeout,
        outcome_blocks_tool,
        outcome_is_error,
        outcome_is_retryable,
        outcome_to_model_content,
        outcome_to_object,
    )
    from upshot.contract.usage import Cost, RateLimitState, RateLimitWindow, Usage

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
    "UsageReported",
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
    "agent": "Agent Instructions ToolItem handoffs_of",
    "agent_spec": (
        "AgentCapabilities AgentCard AgentSpec HANDOFF_FINALIZE_REASON HANDOFF_STATE_KEY "
        "Handoff HandoffEvent RunInfo Skill handoff_tool_name"
    ),
    "base.enums": (
        "DeniedReason Effect ErrorCode FinishReason InterruptCause OpenWord Origin Resource "
        "Role Status"
    ),
    "base.json_values": "UnserializableError clean_text to_free_json",
    "base.paging": "PAGE_CHARS read_page",
    "base.structs": "Json JsonObject Local RunEvent SCHEMA_VERSION",
    "codec": "decode encode",
    "error": "AgentError RunWarning",
    "events": (
        "ApprovalAnswered ApprovalRequested ArtifactStored AttemptEnded AttemptStarted "
        "BoardChanged CheckpointSaved Committed DELTAS Decided Event Lagged QuestionAnswered "
        "QuestionAsked RunInterrupted RunResumed RunSettled RunStarted StepSettled "
        "StepStarted ToolProgress ToolSettled ToolStarted UsageReported Warned"
    ),
    "forms.a2a_form": "from_a2a to_a2a",
    "forms.execution_form": (
        "AgentExecutionResult ExecutionMetadata decode_execution_result "
        "execution_result_schema to_execution_result"
    ),
    "forms.flat_form": "ResultView coerce_result from_contract result_of_response to_contract",
    "message": (
        "Artifact Audio Conversation Data File Image MAIN_CHANNEL Message Part Reasoning Text "
        "Unknown"
    ),
    "model_calls": (
        "ModelInput ModelReplied ModelRequest ModelResponse ModelRetried ModelStarted "
        "ReasoningDelta Request RequestConfig TextDelta ToolCallDelta"
    ),
    "pending": (
        "Answer AnyAnswer Approve Deny Edit Pending PendingApproval PendingExternal PendingQuestion"
    ),
    "protocols": (
        "AnyResult ArtifactStore Board Clock Decider Engine Host Journal Model Observer Run "
        "RunSummary StreamItem Tool ToolRunner"
    ),
    "result": "AgentResult AttemptLine OUTPUT_VAR",
    "run_control": "BoardSnapshot Checkpoint FinalizeDecision Interrupt SPEC_VERSION",
    "schema": "contract_schema contract_typescript",
    "settings": "Budget ModelSettings Policy ReasoningEffort Retry",
    "tool_calls": (
        "ApprovalRecord Coercion GateVerdict TOOL_MESSAGE_MAX_CHARS ToolArtifactReference "
        "ToolCall ToolDenied ToolExecutionResult ToolFailure ToolOutcome ToolRecord ToolSpec "
        "ToolTimeout outcome_blocks_tool outcome_is_error outcome_is_retryable "
        "outcome_to_model_content outcome_to_object"
    ),
    "usage": "Cost RateLimitState RateLimitWindow Usage",
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
