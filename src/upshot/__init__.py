"""upshot runs AI agents; whatever happens in a run comes back as one typed, serialisable result.

Every name is loaded at its first use, so that importing upshot costs next to nothing.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.contract.agent import Agent as Agent
    from upshot.contract.agent_spec import (
        HANDOFF_FINALIZE_REASON as HANDOFF_FINALIZE_REASON,
        HANDOFF_STATE_KEY as HANDOFF_STATE_KEY,
        AgentCapabilities as AgentCapabilities,
        AgentCard as AgentCard,
        AgentSpec as AgentSpec,
        Handoff as Handoff,
        HandoffEvent as HandoffEvent,
        RunInfo as RunInfo,
        Skill as Skill,
        handoff_tool_name as handoff_tool_name,
    )
    from upshot.contract.base.enums import (
        DeniedReason as DeniedReason,
        Effect as Effect,
        ErrorCode as ErrorCode,
        FinishReason as FinishReason,
        InterruptCause as InterruptCause,
        Origin as Origin,
        Resource as Resource,
        Role as Role,
        Status as Status,
    )
    from upshot.contract.base.structs import RunEvent as RunEvent
    from upshot.contract.codec import decode as decode, encode as encode
    from upshot.contract.conversation import (
        Conversation as Conversation,
        ConversationSummary as ConversationSummary,
    )
    from upshot.contract.effects import EffectClaim as EffectClaim, EffectEntry as EffectEntry
    from upshot.contract.error import AgentError as AgentError, RunWarning as RunWarning
    from upshot.contract.events import (
        ApprovalAnswered as ApprovalAnswered,
        ApprovalRequested as ApprovalRequested,
        ArtifactStored as ArtifactStored,
        AttemptEnded as AttemptEnded,
        AttemptStarted as AttemptStarted,
        BoardChanged as BoardChanged,
        CheckpointSaved as CheckpointSaved,
        Committed as Committed,
        Decided as Decided,
        Event as Event,
        Lagged as Lagged,
        QuestionAnswered as QuestionAnswered,
        QuestionAsked as QuestionAsked,
        Redacted as Redacted,
        RunInterrupted as RunInterrupted,
        RunReleased as RunReleased,
        RunResumed as RunResumed,
        RunSettled as RunSettled,
        RunStarted as RunStarted,
        SeedReference as SeedReference,
        StepSettled as StepSettled,
        StepStarted as StepStarted,
        ToolProgress as ToolProgress,
        ToolSettled as ToolSettled,
        ToolStarted as ToolStarted,
        ToolStateSaved as ToolStateSaved,
        Tainted as Tainted,
        UsageReported as UsageReported,
        Warned as Warned,
    )
    from upshot.contract.forms.a2a_form import from_a2a as from_a2a, to_a2a as to_a2a
    from upshot.contract.forms.execution_form import to_execution_result as to_execution_result
    from upshot.contract.forms.public_form import to_public_event as to_public_event
    from upshot.contract.forms.flat_form import (
        ResultView as ResultView,
        from_contract as from_contract,
        to_contract as to_contract,
    )
    from upshot.contract.message import (
        MAIN_CHANNEL as MAIN_CHANNEL,
        Artifact as Artifact,
        Audio as Audio,
        MessageList as MessageList,
        Data as Data,
        File as File,
        Image as Image,
        Message as Message,
        Part as Part,
        Reasoning as Reasoning,
        ServerToolBlock as ServerToolBlock,
        Text as Text,
        Unknown as Unknown,
    )
    from upshot.contract.model_calls import (
        ModelInput as ModelInput,
        ModelReplied as ModelReplied,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ModelRetried as ModelRetried,
        ModelStarted as ModelStarted,
        PartDelta as PartDelta,
        ReasoningDelta as ReasoningDelta,
        Request as Request,
        RequestConfig as RequestConfig,
        RequestDigests as RequestDigests,
        TextDelta as TextDelta,
        ToolCallDelta as ToolCallDelta,
    )
    from upshot.contract.pending import (
        Answer as Answer,
        Approve as Approve,
        Deny as Deny,
        Edit as Edit,
        GivenApproval as GivenApproval,
        Outdated as Outdated,
        Pending as Pending,
        PendingApproval as PendingApproval,
        PendingEffect as PendingEffect,
        PendingExternal as PendingExternal,
        PendingQuestion as PendingQuestion,
        TaintOrigin as TaintOrigin,
        Taken as Taken,
    )
    from upshot.contract.prompt import Prompt as Prompt, load_prompt as load_prompt
    from upshot.contract.protocols import (
        AnyResult as AnyResult,
        ArtifactStore as ArtifactStore,
        Clock as Clock,
        Decider as Decider,
        Engine as Engine,
        Host as Host,
        Journal as Journal,
        Model as Model,
        Observer as Observer,
        DayCost as DayCost,
        Note as Note,
        RunCounts as RunCounts,
        RunSummary as RunSummary,
    )
    from upshot.contract.provenance import (
        Argument as Argument,
        Doubt as Doubt,
        Record as Record,
        Voucher as Voucher,
        choice as choice,
        ref as ref,
        target as target,
    )
    from upshot.contract.result import (
        OUTPUT_VAR as OUTPUT_VAR,
        AgentResult as AgentResult,
        AttemptLine as AttemptLine,
        ChildRun as ChildRun,
        RunEffect as RunEffect,
    )
    from upshot.contract.run_control import (
        BoardSnapshot as BoardSnapshot,
        Checkpoint as Checkpoint,
        Compacted as Compacted,
        FinalizeDecision as FinalizeDecision,
        Interrupt as Interrupt,
    )
    from upshot.contract.settings import (
        Budget as Budget,
        Compaction as Compaction,
        ModelSettings as ModelSettings,
        Policy as Policy,
        Quota as Quota,
        Retry as Retry,
    )
    from upshot.contract.tool_calls import (
        TOOL_MESSAGE_MAX_CHARS as TOOL_MESSAGE_MAX_CHARS,
        ToolArtifactReference as ToolArtifactReference,
        EffectRef as EffectRef,
        Settlement as Settlement,
        ToolCall as ToolCall,
        ToolDenied as ToolDenied,
        ToolExecutionResult as ToolExecutionResult,
        ToolFailure as ToolFailure,
        ToolOutcome as ToolOutcome,
        ToolRecord as ToolRecord,
        ToolSpec as ToolSpec,
        ToolTimeout as ToolTimeout,
        outcome_blocks_tool as outcome_blocks_tool,
        outcome_is_error as outcome_is_error,
        outcome_is_retryable as outcome_is_retryable,
        outcome_to_model_content as outcome_to_model_content,
    )
    from upshot.contract.usage import (
        Cost as Cost,
        RateLimitState as RateLimitState,
        RateLimitWindow as RateLimitWindow,
        Usage as Usage,
    )
    from upshot.engines.batch_engine import BatchEngine as BatchEngine, batch as batch
    from upshot.engines.graph.graph import Graph as Graph
    from upshot.engines.graph.graph_engine import GraphEngine as GraphEngine
    from upshot.engines.graph.nodes import (
        AgentTask as AgentTask,
        ForEach as ForEach,
        Node as Node,
        Parallel as Parallel,
        Question as Question,
        WaitSignal as WaitSignal,
        ToolTask as ToolTask,
    )
    from upshot.engines.loop import LoopEngine as LoopEngine
    from upshot.engines.machine.document import (
        BrokenMachine as BrokenMachine,
        MachineFault as MachineFault,
    )
    from upshot.engines.machine.loader import load_machine as load_machine
    from upshot.engines.machine.machine import Machine as Machine
    from upshot.engines.machine.machine_engine import MachineEngine as MachineEngine
    from upshot.engines.script import ScriptEngine as ScriptEngine
    from upshot.entry.api import (
        answer as answer,
        attach as attach,
        broadcast as broadcast,
        cancel as cancel,
        fork as fork,
        inbox as inbox,
        note as note,
        reopen as reopen,
        replay as replay,
        resume as resume,
        run as run,
        run_sync as run_sync,
        run_with_handoffs as run_with_handoffs,
        start as start,
        start_with_handoffs as start_with_handoffs,
    )
    from upshot.entry.handoff_loop import LiveHandoffs as LiveHandoffs
    from upshot.journal.facts import (
        Fact as Fact,
        FactStore as FactStore,
        JournalFacts as JournalFacts,
    )
    from upshot.journal.shared import InboxItem as InboxItem
    from upshot.entry.replay_run import Replay as Replay
    from upshot.entry.run_handle import RunHandle as RunHandle
    from upshot.effects.ledger import BlockEffect as BlockEffect, Codec as Codec, Ledger as Ledger
    from upshot.errors import (
        AlreadyDone as AlreadyDone,
        Conflict as Conflict,
        EffectError as EffectError,
        EffectUnknown as EffectUnknown,
        InProgress as InProgress,
        JournalError as JournalError,
        Misuse as Misuse,
        RunFailed as RunFailed,
        UpshotError as UpshotError,
    )
    from upshot.fleet.answer_links import AnswerLinks as AnswerLinks
    from upshot.fleet.app import App as App
    from upshot.fleet.submission import SubmitOptions as SubmitOptions
    from upshot.journal.opening import open_journal as open_journal
    from upshot.models.fallback import Fallback as Fallback
    from upshot.models.prices import Prices as Prices
    from upshot.models.registry import resolve as resolve
    from upshot.models.scripted import ScriptedModel as ScriptedModel
    from upshot.models.transport import TransportError as TransportError
    from upshot.native.returned import coerce_result as coerce_result
    from upshot.runs.engine_api.exceptions import (
        Aborted as Aborted,
        Failed as Failed,
        Interrupted as Interrupted,
        Parked as Parked,
    )
    from upshot.runs.engine_api.run_host import RunHost as RunHost
    from upshot.runs.engine_api.run_view import Run as Run
    from upshot.runs.limits.pacer import Pacer as Pacer
    from upshot.runs.live_run import LiveRun as LiveRun
    from upshot.runs.live_run import VoidText as VoidText
    from upshot.runs.task_supervisor import Stopping as Stopping
    from upshot.runs.plan import ResumeOptions as ResumeOptions, RunOptions as RunOptions
    from upshot.runs.redaction import lift_secrets as lift_secrets
    from upshot.runs.replay.comparison import Difference as Difference
    from upshot.runs.services.guardrails import (
        input_guardrail as input_guardrail,
        output_guardrail as output_guardrail,
    )
    from upshot.runs.services.handoff_tools import handoff_tools as handoff_tools
    from upshot.runs.services.hooks import DiscardOnInterruptCauses as DiscardOnInterruptCauses
    from upshot.state.board import Board as Board
    from upshot.state.stored_events import states as states
    from upshot.tools.catalog import ToolSet as ToolSet
    from upshot.tools.definition.lookup import Lookup as Lookup
    from upshot.tools.definition.tool import Tool as Tool, tool as tool
    from upshot.contract.tool_context import ToolContext as ToolContext
    from upshot.tools.definition.tool_error import NotDone as NotDone
    from upshot.tools.definition.tool_error import ToolError as ToolError
    from upshot.tools.definition.tool_options import (
        Circuit as Circuit,
        ProcessLimits as ProcessLimits,
        Rate as Rate,
        UnknownEffect as UnknownEffect,
    )
    from upshot.tools.gates.approval_gate import (
        Allow as Allow,
        ApprovalRequest as ApprovalRequest,
        Ask as Ask,
        EditArguments as EditArguments,
        Refuse as Refuse,
    )
    from upshot.tools.mcp.oauth import OAuth as OAuth
    from upshot.tools.mcp.open_mcp import open_mcp as open_mcp
    from upshot.tools.mcp.server_file import open_mcp_servers as open_mcp_servers
    from upshot.runs.services.memory import memory_tools as memory_tools
    from upshot.tools.skills import load_skills as load_skills
    from upshot.tools.toolbox import Toolbox as Toolbox
    from upshot.wire.pricing import Price as Price
