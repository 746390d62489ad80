"""upshot runs AI agents; whatever happens in a run comes back as one typed, serialisable result.

Every name is loaded at its first use, so that importing upshot costs next to nothing.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.contract.agent import Agent
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
        Origin,
        Resource,
        Role,
        Status,
    )
    from upshot.contract.base.structs import RunEvent
    from upshot.contract.codec import decode, encode
    from upshot.contract.error import AgentError, RunWarning
    from upshot.contract.events import (
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
    from upshot.contract.forms.execution_form import to_execution_result
    from upshot.contract.forms.flat_form import (
        ResultView,
        coerce_result,
        from_contract,
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
        Clock,
        Decider,
        Engine,
        Host,
        Journal,
        Model,
        Observer,
        RunSummary,
    )
    from upshot.contract.result import OUTPUT_VAR, AgentResult, AttemptLine
    from upshot.contract.run_control import BoardSnapshot, Checkpoint, FinalizeDecision, Interrupt
    from upshot.contract.settings import Budget, ModelSettings, Policy, Retry
    from upshot.contract.tool_calls import (
        TOOL_MESSAGE_MAX_CHARS,
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
    )
    from upshot.contract.usage import Cost, RateLimitState, RateLimitWindow, Usage
    from upshot.engines.graph.graph import Graph
    from upshot.engines.graph.graph_engine import GraphEngine
    from upshot.engines.graph.nodes import AgentTask, ForEach, Node, Parallel, Question, ToolTask
    from upshot.engines.loop import LoopEngine
    from upshot.engines.machine.document import BrokenMachine, MachineFault
    from upshot.engines.machine.loader import load_machine
    from upshot.engines.machine.machine import Machine
    from upshot.engines.machine.machine_engine import MachineEngine
    from upshot.engines.script import ScriptEngine
    from upshot.entry.api import (
        fork,
        reopen,
        replay,
        resume,
        run,
        run_sync,
        run_with_handoffs,
        start,
    )
    from upshot.entry.replay_run import Replay
    from upshot.errors import JournalError, Misuse, RunFailed, UpshotError
    from upshot.journal.open_journal import open_journal
    from upshot.models.fallback import Fallback
    from upshot.models.prices import Prices
    from upshot.models.registry import resolve
    from upshot.models.scripted import ScriptedModel
    from upshot.models.transport import TransportError
    from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked
    from upshot.runs.engine_api.run_host import RunHost
    from upshot.runs.engine_api.run_view import Run
    from upshot.runs.live_run import LiveRun
    from upshot.runs.plan import ResumeOptions, RunOptions
    from upshot.runs.replay.comparison import Difference
    from upshot.runs.services.handoff_tools import handoff_tools
    from upshot.runs.services.hooks import DiscardOnInterruptCauses
    from upshot.state.board import Board
    from upshot.state.stored_events import states
    from upshot.tools.catalog import ToolSet
    from upshot.tools.definition.tool import Tool, tool
    from upshot.tools.definition.tool_context import ToolContext, ToolError
    from upshot.tools.definition.tool_options import Circuit, ProcessLimits, Rate
    from upshot.tools.gates.approval_gate import Allow, ApprovalRequest, Ask, EditArguments, Refuse
    from upshot.tools.mcp.open_mcp import open_mcp
    from upshot.tools.toolbox import Toolbox
    from upshot.wire.pricing import Price

__all__ = [
    "Aborted",
    "Agent",
    "AgentCapabilities",
    "AgentCard",
    "AgentError",
    "AgentResult",
    "AgentSpec",
    "AgentTask",
    "Allow",
    "Answer",
    "AnyResult",
    "ApprovalAnswered",
    "ApprovalRequest",
    "ApprovalRequested",
    "Approve",
    "Artifact",
    "ArtifactStore",
    "ArtifactStored",
    "Ask",
    "AttemptEnded",
    "AttemptLine",
    "AttemptStarted",
    "Audio",
    "Board",
    "BoardChanged",
    "BoardSnapshot",
    "BrokenMachine",
    "Budget",
    "Checkpoint",
    "CheckpointSaved",
    "Circuit",
    "Clock",
    "Committed",
    "Conversation",
    "Cost",
    "Data",
    "Decided",
    "Decider",
    "DeniedReason",
    "Deny",
    "Difference",
    "DiscardOnInterruptCauses",
    "Edit",
    "EditArguments",
    "Effect",
    "Engine",
    "ErrorCode",
    "Event",
    "Failed",
    "Fallback",
    "File",
    "FinalizeDecision",
    "FinishReason",
    "ForEach",
    "Graph",
    "GraphEngine",
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
    "Machine",
    "MachineEngine",
    "MachineFault",
    "Message",
    "Misuse",
    "Model",
    "ModelInput",
    "ModelReplied",
    "ModelRequest",
    "ModelResponse",
    "ModelRetried",
    "ModelSettings",
    "ModelStarted",
    "Node",
    "OUTPUT_VAR",
    "Observer",
    "Origin",
    "Parallel",
    "Parked",
    "Part",
    "Pending",
    "PendingApproval",
    "PendingExternal",
    "PendingQuestion",
    "Policy",
    "Price",
    "Prices",
    "ProcessLimits",
    "Question",
    "QuestionAnswered",
    "QuestionAsked",
    "Rate",
    "RateLimitState",
    "RateLimitWindow",
    "Reasoning",
    "ReasoningDelta",
    "Refuse",
    "Replay",
    "Request",
    "RequestConfig",
    "Resource",
    "ResultView",
    "ResumeOptions",
    "Retry",
    "Role",
    "Run",
    "RunEvent",
    "RunFailed",
    "RunHost",
    "RunInfo",
    "RunInterrupted",
    "RunOptions",
    "RunResumed",
    "RunSettled",
    "RunStarted",
    "RunSummary",
    "RunWarning",
    "ScriptEngine",
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
    "ToolSet",
    "ToolSettled",
    "ToolSpec",
    "ToolStarted",
    "ToolTask",
    "ToolTimeout",
    "Toolbox",
    "TransportError",
    "Unknown",
    "UpshotError",
    "Usage",
    "UsageReported",
    "Warned",
    "coerce_result",
    "decode",
    "encode",
    "fork",
    "from_a2a",
    "from_contract",
    "handoff_tool_name",
    "handoff_tools",
    "load_machine",
    "open_journal",
    "open_mcp",
    "outcome_blocks_tool",
    "outcome_is_error",
    "outcome_is_retryable",
    "outcome_to_model_content",
    "reopen",
    "replay",
    "resolve",
    "resume",
    "run",
    "run_sync",
    "run_with_handoffs",
    "start",
    "states",
    "to_a2a",
    "to_contract",
    "to_execution_result",
    "tool",
]

_HOMES = {
    "contract.agent": "Agent",
    "contract.agent_spec": (
        "AgentCapabilities AgentCard AgentSpec HANDOFF_FINALIZE_REASON HANDOFF_STATE_KEY "
        "Handoff HandoffEvent RunInfo Skill handoff_tool_name"
    ),
    "contract.base.enums": (
        "DeniedReason Effect ErrorCode FinishReason InterruptCause Origin Resource Role Status"
    ),
    "contract.base.structs": "RunEvent",
    "contract.codec": "decode encode",
    "contract.error": "AgentError RunWarning",
    "contract.events": (
        "ApprovalAnswered ApprovalRequested ArtifactStored AttemptEnded AttemptStarted "
        "BoardChanged CheckpointSaved Committed Decided Event Lagged QuestionAnswered "
        "QuestionAsked RunInterrupted RunResumed RunSettled RunStarted StepSettled "
        "StepStarted ToolProgress ToolSettled ToolStarted UsageReported Warned"
    ),
    "contract.forms.a2a_form": "from_a2a to_a2a",
    "contract.forms.execution_form": "to_execution_result",
    "contract.forms.flat_form": "ResultView coerce_result from_contract to_contract",
    "contract.message": (
        "Artifact Audio Conversation Data File Image MAIN_CHANNEL Message Part Reasoning Text "
        "Unknown"
    ),
    "contract.model_calls": (
        "ModelInput ModelReplied ModelRequest ModelResponse ModelRetried ModelStarted "
        "ReasoningDelta Request RequestConfig TextDelta ToolCallDelta"
    ),
    "contract.pending": (
        "Answer Approve Deny Edit Pending PendingApproval PendingExternal PendingQuestion"
    ),
    "contract.protocols": (
        "AnyResult ArtifactStore Clock Decider Engine Host Journal Model Observer RunSummary"
    ),
    "contract.result": "AgentResult AttemptLine OUTPUT_VAR",
    "contract.run_control": "BoardSnapshot Checkpoint FinalizeDecision Interrupt",
    "contract.settings": "Budget ModelSettings Policy Retry",
    "contract.tool_calls": (
        "TOOL_MESSAGE_MAX_CHARS ToolArtifactReference ToolCall ToolDenied ToolExecutionResult "
        "ToolFailure ToolOutcome ToolRecord ToolSpec ToolTimeout outcome_blocks_tool "
        "outcome_is_error outcome_is_retryable outcome_to_model_content"
    ),
    "contract.usage": "Cost RateLimitState RateLimitWindow Usage",
    "engines.graph.graph": "Graph",
    "engines.graph.graph_engine": "GraphEngine",
    "engines.graph.nodes": "AgentTask ForEach Node Parallel Question ToolTask",
    "engines.loop": "LoopEngine",
    "engines.machine.document": "BrokenMachine MachineFault",
    "engines.machine.loader": "load_machine",
    "engines.machine.machine": "Machine",
    "engines.machine.machine_engine": "MachineEngine",
    "engines.script": "ScriptEngine",
    "entry.api": "fork reopen replay resume run run_sync run_with_handoffs start",
    "entry.replay_run": "Replay",
    "errors": "JournalError Misuse RunFailed UpshotError",
    "journal.open_journal": "open_journal",
    "models.fallback": "Fallback",
    "models.prices": "Prices",
    "models.registry": "resolve",
    "models.scripted": "ScriptedModel",
    "models.transport": "TransportError",
    "runs.engine_api.exceptions": "Aborted Failed Interrupted Parked",
    "runs.engine_api.run_host": "RunHost",
    "runs.engine_api.run_view": "Run",
    "runs.live_run": "LiveRun",
    "runs.plan": "ResumeOptions RunOptions",
    "runs.replay.comparison": "Difference",
    "runs.services.handoff_tools": "handoff_tools",
    "runs.services.hooks": "DiscardOnInterruptCauses",
    "state.board": "Board",
    "state.stored_events": "states",
    "tools.catalog": "ToolSet",
    "tools.definition.tool": "Tool tool",
    "tools.definition.tool_context": "ToolContext ToolError",
    "tools.definition.tool_options": "Circuit ProcessLimits Rate",
    "tools.gates.approval_gate": "Allow ApprovalRequest Ask EditArguments Refuse",
    "tools.mcp.open_mcp": "open_mcp",
    "tools.toolbox": "Toolbox",
    "wire.pricing": "Price",
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
