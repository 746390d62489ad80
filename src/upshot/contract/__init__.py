"""The values that all layers exchange: frozen structs without I/O, clock or randomness.

- ``agent``, ``agent_spec``: an agent, its stored form, its card, and handoffs.
- ``message``, ``tool_calls``, ``model_calls``: what models and tools exchange, the outcomes and
  records of tool calls, and requests and replies.
- ``result``, ``error``, ``usage``: the result of a run, what went wrong, and what it used.
- ``events``, ``run_control``, ``pending``: the log of a run, its interrupts and checkpoints, what
  a parked run waits for, and the user's answers.
- ``settings``: budget, policy, retry and model settings. ``protocols``: the interfaces between the
  layers, such as ``Model``, ``Engine`` and ``Journal``.
- ``codec`` encodes and decodes every value; ``schema`` publishes the JSON Schema and TypeScript.
- ``base`` has the building blocks of the structs, ``forms`` the conversions to other formats.

The life of a value: a caller may pass a list for a tuple, a string for an enum member or a float
for money; ``__post_init__`` converts or refuses it, once. From then on the value is immutable and
can be shared between tasks and with the log. ``encode`` leaves out fields that have their default.
``decode`` reads what any version wrote: it ignores unknown fields, and keeps an unknown part or
event as ``Unknown``, which is written back unchanged.

Invariants:

- What goes wrong in a run is a value (``AgentError``, a ``ToolOutcome``); ``Misuse`` is raised only
  for a mistake of the caller, where the mistake is made.
- An unknown figure is None, never 0. Money is ``Decimal``, moments are in UTC.
- A value that leaves the process is JSON; objects that cannot leave it are in a ``Local``.
- Nothing here imports another layer. Each name is loaded at its first use, so ``import upshot`` is
  fast.

Traps: ``content`` and ``tool_calls`` of a reply are views of its ``parts``, so replace the parts.
``Usage.cost`` is a view of the enclosing value's cost, and is not written. The ``Attributes`` in
docstrings are published as descriptions in the schema.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.contract.agent import (
        Agent as Agent,
        DependencyFactory as DependencyFactory,
        Instructions as Instructions,
        ToolItem as ToolItem,
        handoffs_of as handoffs_of,
    )
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
        OpenWord as OpenWord,
        Origin as Origin,
        Resource as Resource,
        Role as Role,
        Status as Status,
    )
    from upshot.contract.base.json_values import (
        UnserializableError as UnserializableError,
        clean_text as clean_text,
        to_free_json as to_free_json,
    )
    from upshot.contract.base.paging import PAGE_CHARS as PAGE_CHARS, read_page as read_page
    from upshot.contract.base.structs import (
        SCHEMA_VERSION as SCHEMA_VERSION,
        Json as Json,
        JsonObject as JsonObject,
        Local as Local,
        RunEvent as RunEvent,
    )
    from upshot.contract.call_counts import CallCount as CallCount
    from upshot.contract.codec import decode as decode, encode as encode
    from upshot.contract.conversation import (
        Conversation as Conversation,
        ConversationSummary as ConversationSummary,
    )
    from upshot.contract.effects import EffectClaim as EffectClaim, EffectEntry as EffectEntry
    from upshot.contract.error import AgentError as AgentError, RunWarning as RunWarning
    from upshot.contract.events import (
        DELTAS as DELTAS,
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
    from upshot.contract.forms.execution_form import (
        AgentExecutionResult as AgentExecutionResult,
        ExecutionMetadata as ExecutionMetadata,
        decode_execution_result as decode_execution_result,
        to_execution_result as to_execution_result,
    )
    from upshot.contract.forms.flat_form import (
        ResultView as ResultView,
        from_contract as from_contract,
        to_contract as to_contract,
    )
    from upshot.contract.forms.public_form import to_public_event as to_public_event
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
        AnyAnswer as AnyAnswer,
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
    from upshot.contract.protocols import (
        AnyResult as AnyResult,
        ArtifactStore as ArtifactStore,
        Board as Board,
        Clock as Clock,
        Decider as Decider,
        Engine as Engine,
        Host as Host,
        Journal as Journal,
        Model as Model,
        Observer as Observer,
        Run as Run,
        DayCost as DayCost,
        Note as Note,
        RunCounts as RunCounts,
        RunSummary as RunSummary,
        StreamItem as StreamItem,
        Tool as Tool,
        ToolRunner as ToolRunner,
    )
    from upshot.contract.provenance import (
        Argument as Argument,
        Meaning as Meaning,
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
        SPEC_VERSION as SPEC_VERSION,
        BoardSnapshot as BoardSnapshot,
        Checkpoint as Checkpoint,
        Compacted as Compacted,
        FinalizeDecision as FinalizeDecision,
        Interrupt as Interrupt,
    )
    from upshot.contract.schema import (
        contract_schema as contract_schema,
        contract_typescript as contract_typescript,
        execution_result_schema as execution_result_schema,
    )
    from upshot.contract.settings import (
        Budget as Budget,
        Compaction as Compaction,
        ModelSettings as ModelSettings,
        Policy as Policy,
        ReasoningEffort as ReasoningEffort,
        Retry as Retry,
    )
    from upshot.contract.tool_calls import (
        TOOL_MESSAGE_MAX_CHARS as TOOL_MESSAGE_MAX_CHARS,
        ApprovalRecord as ApprovalRecord,
        Coercion as Coercion,
        GateVerdict as GateVerdict,
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
        outcome_to_object as outcome_to_object,
    )
    from upshot.contract.usage import (
        Cost as Cost,
        RateLimitState as RateLimitState,
        RateLimitWindow as RateLimitWindow,
        Usage as Usage,
    )
