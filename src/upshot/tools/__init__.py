"""From a tool call to exactly one outcome: tools, gates, execution, artifacts.

A model requests tool calls. This package brings each of them to one of five outcomes (a result, a
failure, a timeout, a denial, a reference to a stored output) and writes one record of it. It knows
nothing of runs: a ``Toolbox`` works alone, and a run passes in its identity, log and stores.

Six classes hold the state of a batch of calls:

- ``Toolbox``: the public interface; dispatches calls, takes answers, resumes, cancels.
- ``ToolboxState``: what all calls of a Toolbox share; owned by the Toolbox.
- ``TurnState``: the counters and memory of a tool turn; owned by the ToolboxState.
- ``GatePipeline``: asks the gates that concern a tool, and alone denies; one per tool.
- ``Batch``: brings the calls of one reply to one outcome each, and cancels them.
- ``CallState``: one call in progress, which is all that a gate sees; owned by its Batch.

``ToolCatalog`` has the checked tools and their schemas. It is immutable and shared by all runs of
an agent; a run that calls no tool creates no Toolbox. Rate limiter, deduplication, remembered
approvals, secrets and artifact store are created at first use.

The life of a call: ``Toolbox.dispatch`` opens a CallState for each ToolCall and passes them to a
Batch. The batch asks the gates of all calls in call order, counts each call that passed, and orders
it with the others by what it touches (``execution.locks``). Once it is free, the gates on time and
cancellation are asked again, ``ToolStarted`` is logged, and before a body that may write, the log
is flushed to disk. ``execution`` runs the body, maps its end to an outcome and stores what is too
large for a message. ``Batch`` applies the consequences (deduplication, blocking, taint, loop
detection), makes the record, and emits ``ToolSettled``.

Invariants:

- Every call gets exactly one outcome and one record, whatever is cancelled, raises or hangs; only
  a log that refuses events leaves calls open.
- The intent is logged before the effect. A body that may have taken effect but did not finish has
  an *unknown* effect, and is repeated only if ``repetition`` says that this is safe.
- Only a GatePipeline denies a call. The batch asks it again when a call is counted and when its
  body starts, because other calls ran in between.
- A call that waits for the user is parked and holds no resource. When the answer comes, the call
  is opened again and all gates are asked again (``call_resumption``).

Traps: a call belongs to the turn in which it came in, even if a new turn has started since; an id
may occur twice in one reply; a body in a thread cannot be stopped, only abandoned.

Each name is loaded at first use.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.contract.protocols import ArtifactStore as ArtifactStore
    from upshot.contract.settings import Policy as Policy
    from upshot.contract.tool_calls import (
        TOOL_MESSAGE_MAX_CHARS as TOOL_MESSAGE_MAX_CHARS,
        ToolCall as ToolCall,
        outcome_blocks_tool as outcome_blocks_tool,
        outcome_is_error as outcome_is_error,
        outcome_is_retryable as outcome_is_retryable,
        outcome_to_model_content as outcome_to_model_content,
    )
    from upshot.tools.artifacts import InMemoryArtifacts as InMemoryArtifacts
    from upshot.tools.call_state import CallState as CallState
    from upshot.tools.catalog import ToolSet as ToolSet, resolve_tools as resolve_tools
    from upshot.tools.definition.lookup import Lookup as Lookup
    from upshot.tools.definition.tool import Tool as Tool, tool as tool
    from upshot.contract.tool_context import CancelToken as CancelToken, ToolContext as ToolContext
    from upshot.tools.definition.tool_error import NotDone as NotDone
    from upshot.tools.definition.tool_error import ToolError as ToolError
    from upshot.tools.definition.tool_options import (
        Circuit as Circuit,
        ProcessLimits as ProcessLimits,
        Rate as Rate,
        UnknownEffect as UnknownEffect,
    )
    from upshot.tools.execution.executor import Workers as Workers
    from upshot.tools.gates.approval_gate import (
        Allow as Allow,
        ApprovalRequest as ApprovalRequest,
        Ask as Ask,
        EditArguments as EditArguments,
        Refuse as Refuse,
    )
    from upshot.tools.gates.pipeline import Denial as Denial, Gate as Gate
    from upshot.tools.mcp.mcp_toolset import McpTools as McpTools
    from upshot.tools.mcp.oauth import OAuth as OAuth
    from upshot.tools.mcp.open_mcp import open_mcp as open_mcp
    from upshot.tools.mcp.server_file import open_mcp_servers as open_mcp_servers
    from upshot.tools.toolbox import DryRun as DryRun, Toolbox as Toolbox
