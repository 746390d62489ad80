"""upshot runs AI agents; whatever happens in a run comes back as one typed, serialisable result.

Every name is loaded at its first use, so that importing upshot costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contract import (
        HANDOFF_FINALIZE_REASON as HANDOFF_FINALIZE_REASON,
    )
    from .contract import (
        HANDOFF_STATE_KEY as HANDOFF_STATE_KEY,
    )
    from .contract import (
        MAIN_CHANNEL as MAIN_CHANNEL,
    )
    from .contract import (
        OUTPUT_VAR as OUTPUT_VAR,
    )
    from .contract import (
        TOOL_MESSAGE_MAX_CHARS as TOOL_MESSAGE_MAX_CHARS,
    )
    from .contract import (
        Agent as Agent,
    )
    from .contract import (
        AgentCapabilities as AgentCapabilities,
    )
    from .contract import (
        AgentCard as AgentCard,
    )
    from .contract import (
        AgentError as AgentError,
    )
    from .contract import (
        AgentResult as AgentResult,
    )
    from .contract import (
        AgentSpec as AgentSpec,
    )
    from .contract import (
        Answer as Answer,
    )
    from .contract import (
        ApprovalAnswered as ApprovalAnswered,
    )
    from .contract import (
        ApprovalRequested as ApprovalRequested,
    )
    from .contract import (
        Approve as Approve,
    )
    from .contract import (
        Artifact as Artifact,
    )
    from .contract import (
        ArtifactStore as ArtifactStore,
    )
    from .contract import (
        ArtifactStored as ArtifactStored,
    )
    from .contract import (
        AttemptEnded as AttemptEnded,
    )
    from .contract import (
        AttemptLine as AttemptLine,
    )
    from .contract import (
        AttemptStarted as AttemptStarted,
    )
    from .contract import (
        Audio as Audio,
    )
    from .contract import (
        BoardChanged as BoardChanged,
    )
    from .contract import (
        BoardSnapshot as BoardSnapshot,
    )
    from .contract import (
        Budget as Budget,
    )
    from .contract import (
        Checkpoint as Checkpoint,
    )
    from .contract import (
        CheckpointSaved as CheckpointSaved,
    )
    from .contract import (
        Clock as Clock,
    )
    from .contract import (
        Committed as Committed,
    )
    from .contract import (
        Conversation as Conversation,
    )
    from .contract import (
        Cost as Cost,
    )
    from .contract import (
        Data as Data,
    )
    from .contract import (
        Decided as Decided,
    )
    from .contract import (
        Decider as Decider,
    )
    from .contract import (
        DeniedReason as DeniedReason,
    )
    from .contract import (
        Deny as Deny,
    )
    from .contract import (
        Edit as Edit,
    )
    from .contract import (
        Effect as Effect,
    )
    from .contract import (
        Engine as Engine,
    )
    from .contract import (
        ErrorCode as ErrorCode,
    )
    from .contract import (
        Event as Event,
    )
    from .contract import (
        File as File,
    )
    from .contract import (
        FinalizeDecision as FinalizeDecision,
    )
    from .contract import (
        FinishReason as FinishReason,
    )
    from .contract import (
        Handoff as Handoff,
    )
    from .contract import (
        HandoffEvent as HandoffEvent,
    )
    from .contract import (
        Host as Host,
    )
    from .contract import (
        Image as Image,
    )
    from .contract import (
        Interrupt as Interrupt,
    )
    from .contract import (
        InterruptCause as InterruptCause,
    )
    from .contract import (
        Journal as Journal,
    )
    from .contract import (
        Lagged as Lagged,
    )
    from .contract import (
        Message as Message,
    )
    from .contract import (
        Model as Model,
    )
    from .contract import (
        ModelReplied as ModelReplied,
    )
    from .contract import (
        ModelRequest as ModelRequest,
    )
    from .contract import (
        ModelResponse as ModelResponse,
    )
    from .contract import (
        ModelRetried as ModelRetried,
    )
    from .contract import (
        ModelSettings as ModelSettings,
    )
    from .contract import (
        ModelStarted as ModelStarted,
    )
    from .contract import (
        Observer as Observer,
    )
    from .contract import (
        Origin as Origin,
    )
    from .contract import (
        Part as Part,
    )
    from .contract import (
        Pending as Pending,
    )
    from .contract import (
        PendingApproval as PendingApproval,
    )
    from .contract import (
        PendingExternal as PendingExternal,
    )
    from .contract import (
        PendingQuestion as PendingQuestion,
    )
    from .contract import (
        QuestionAnswered as QuestionAnswered,
    )
    from .contract import (
        QuestionAsked as QuestionAsked,
    )
    from .contract import (
        RateLimitState as RateLimitState,
    )
    from .contract import (
        RateLimitWindow as RateLimitWindow,
    )
    from .contract import (
        Reasoning as Reasoning,
    )
    from .contract import (
        ReasoningDelta as ReasoningDelta,
    )
    from .contract import (
        Request as Request,
    )
    from .contract import (
        RequestConfig as RequestConfig,
    )
    from .contract import (
        Resource as Resource,
    )
    from .contract import (
        Retry as Retry,
    )
    from .contract import (
        Role as Role,
    )
    from .contract import (
        RunEvent as RunEvent,
    )
    from .contract import (
        RunInfo as RunInfo,
    )
    from .contract import (
        RunInterrupted as RunInterrupted,
    )
    from .contract import (
        RunResumed as RunResumed,
    )
    from .contract import (
        RunSettled as RunSettled,
    )
    from .contract import (
        RunStarted as RunStarted,
    )
    from .contract import (
        RunSummary as RunSummary,
    )
    from .contract import (
        RunWarning as RunWarning,
    )
    from .contract import (
        Skill as Skill,
    )
    from .contract import (
        Status as Status,
    )
    from .contract import (
        StepSettled as StepSettled,
    )
    from .contract import (
        StepStarted as StepStarted,
    )
    from .contract import (
        Text as Text,
    )
    from .contract import (
        TextDelta as TextDelta,
    )
    from .contract import (
        ToolArtifactReference as ToolArtifactReference,
    )
    from .contract import (
        ToolCall as ToolCall,
    )
    from .contract import (
        ToolCallDelta as ToolCallDelta,
    )
    from .contract import (
        ToolDenied as ToolDenied,
    )
    from .contract import (
        ToolExecutionResult as ToolExecutionResult,
    )
    from .contract import (
        ToolFailure as ToolFailure,
    )
    from .contract import (
        ToolOutcome as ToolOutcome,
    )
    from .contract import (
        ToolProgress as ToolProgress,
    )
    from .contract import (
        ToolRecord as ToolRecord,
    )
    from .contract import (
        ToolSettled as ToolSettled,
    )
    from .contract import (
        ToolSpec as ToolSpec,
    )
    from .contract import (
        ToolStarted as ToolStarted,
    )
    from .contract import (
        ToolTimeout as ToolTimeout,
    )
    from .contract import (
        Unknown as Unknown,
    )
    from .contract import (
        Usage as Usage,
    )
    from .contract import (
        Warned as Warned,
    )
    from .contract import (
        coerce_result as coerce_result,
    )
    from .contract import (
        decode as decode,
    )
    from .contract import (
        encode as encode,
    )
    from .contract import (
        from_contract as from_contract,
    )
    from .contract import (
        handoff_tool_name as handoff_tool_name,
    )
    from .contract import (
        outcome_blocks_tool as outcome_blocks_tool,
    )
    from .contract import (
        outcome_is_error as outcome_is_error,
    )
    from .contract import (
        outcome_is_retryable as outcome_is_retryable,
    )
    from .contract import (
        outcome_to_model_content as outcome_to_model_content,
    )
    from .contract import (
        to_contract as to_contract,
    )
    from .engines import (
        LoopEngine as LoopEngine,
    )
    from .entry import (
        reopen as reopen,
    )
    from .entry import (
        resume as resume,
    )
    from .entry import (
        run as run,
    )
    from .entry import (
        run_sync as run_sync,
    )
    from .entry import (
        start as start,
    )
    from .errors import (
        JournalError as JournalError,
    )
    from .errors import (
        Misuse as Misuse,
    )
    from .errors import (
        RunFailed as RunFailed,
    )
    from .errors import (
        UpshotError as UpshotError,
    )
    from .journal import (
        open_journal as open_journal,
    )
    from .models import (
        ScriptedModel as ScriptedModel,
    )
    from .models import (
        resolve as resolve,
    )
    from .runs import (
        Aborted as Aborted,
    )
    from .runs import (
        Board as Board,
    )
    from .runs import (
        Failed as Failed,
    )
    from .runs import (
        Interrupted as Interrupted,
    )
    from .runs import (
        LiveRun as LiveRun,
    )
    from .runs import (
        Parked as Parked,
    )
    from .runs import (
        Run as Run,
    )
    from .runs import (
        RunOptions as RunOptions,
    )
    from .tools import (
        Tool as Tool,
    )
    from .tools import (
        Toolbox as Toolbox,
    )
    from .tools import (
        ToolContext as ToolContext,
    )
    from .tools import (
        ToolError as ToolError,
    )
    from .tools import (
        tool as tool,
    )

__all__ = [
    "Aborted",
    "Agent",
    "AgentCapabilities",
    "AgentCard",
    "AgentError",
    "AgentResult",
    "AgentSpec",
    "Answer",
    "ApprovalAnswered",
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
    "Committed",
    "Conversation",
    "Cost",
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
    "Failed",
    "File",
    "FinalizeDecision",
    "FinishReason",
    "HANDOFF_FINALIZE_REASON",
    "HANDOFF_STATE_KEY",
    "Handoff",
    "HandoffEvent",
    "Host",
    "Image",
    "Interrupt",
    "InterruptCause",
    "Interrupted",
    "Journal",
    "JournalError",
    "Lagged",
    "LiveRun",
    "LoopEngine",
    "MAIN_CHANNEL",
    "Message",
    "Misuse",
    "Model",
    "ModelReplied",
    "ModelRequest",
    "ModelResponse",
    "ModelRetried",
    "ModelSettings",
    "ModelStarted",
    "OUTPUT_VAR",
    "Observer",
    "Origin",
    "Parked",
    "Part",
    "Pending",
    "PendingApproval",
    "PendingExternal",
    "PendingQuestion",
    "QuestionAnswered",
    "QuestionAsked",
    "RateLimitState",
    "RateLimitWindow",
    "Reasoning",
    "ReasoningDelta",
    "Request",
    "RequestConfig",
    "Resource",
    "Retry",
    "Role",
    "Run",
    "RunEvent",
    "RunFailed",
    "RunInfo",
    "RunInterrupted",
    "RunOptions",
    "RunResumed",
    "RunSettled",
    "RunStarted",
    "RunSummary",
    "RunWarning",
    "ScriptedModel",
    "Skill",
    "Status",
    "StepSettled",
    "StepStarted",
    "TOOL_MESSAGE_MAX_CHARS",
    "Text",
    "TextDelta",
    "Tool",
    "ToolArtifactReference",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolDenied",
    "ToolError",
    "ToolExecutionResult",
    "ToolFailure",
    "ToolOutcome",
    "ToolProgress",
    "ToolRecord",
    "ToolSettled",
    "ToolSpec",
    "ToolStarted",
    "ToolTimeout",
    "Toolbox",
    "Unknown",
    "UpshotError",
    "Usage",
    "Warned",
    "coerce_result",
    "decode",
    "encode",
    "from_contract",
    "handoff_tool_name",
    "open_journal",
    "outcome_blocks_tool",
    "outcome_is_error",
    "outcome_is_retryable",
    "outcome_to_model_content",
    "reopen",
    "resolve",
    "resume",
    "run",
    "run_sync",
    "start",
    "to_contract",
    "tool",
]

_HOMES = {
    "contract": (
        "Agent AgentCapabilities AgentCard AgentError AgentResult AgentSpec Answer "
        "ApprovalAnswered ApprovalRequested Approve Artifact ArtifactStore ArtifactStored "
        "AttemptEnded AttemptLine AttemptStarted Audio BoardChanged BoardSnapshot Budget "
        "Checkpoint CheckpointSaved Clock Committed Conversation Cost Data Decided Decider "
        "DeniedReason Deny Edit Effect Engine ErrorCode Event File FinalizeDecision FinishReason "
        "HANDOFF_FINALIZE_REASON HANDOFF_STATE_KEY Handoff HandoffEvent Host Image Interrupt "
        "InterruptCause Journal Lagged MAIN_CHANNEL Message Model ModelReplied ModelRequest "
        "ModelResponse ModelRetried ModelSettings ModelStarted OUTPUT_VAR Observer Origin Part "
        "Pending PendingApproval PendingExternal PendingQuestion QuestionAnswered QuestionAsked "
        "RateLimitState RateLimitWindow Reasoning ReasoningDelta Request RequestConfig Resource "
        "Retry Role RunEvent RunInfo RunInterrupted RunResumed RunSettled RunStarted RunSummary "
        "RunWarning Skill Status StepSettled StepStarted TOOL_MESSAGE_MAX_CHARS Text TextDelta "
        "ToolArtifactReference ToolCall ToolCallDelta ToolDenied ToolExecutionResult ToolFailure "
        "ToolOutcome ToolProgress ToolRecord ToolSettled ToolSpec ToolStarted ToolTimeout Unknown "
        "Usage Warned coerce_result decode encode from_contract handoff_tool_name "
        "outcome_blocks_tool outcome_is_error outcome_is_retryable outcome_to_model_content "
        "to_contract "
    ),
    "engines": ("LoopEngine "),
    "entry": ("reopen resume run run_sync start "),
    "errors": ("JournalError Misuse RunFailed UpshotError "),
    "journal": ("open_journal "),
    "models": ("ScriptedModel resolve "),
    "runs": ("Aborted Board Failed Interrupted LiveRun Parked Run RunOptions "),
    "tools": ("Tool ToolContext ToolError Toolbox tool "),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'upshot' has no attribute {name!r}")
    value: object = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
