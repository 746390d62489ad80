"""From a tool call to exactly one outcome: tools, gates, execution, artifacts.

Each name is loaded at its first use.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.contract.protocols import ArtifactStore
    from upshot.contract.settings import Policy
    from upshot.contract.tool_calls import (
        TOOL_MESSAGE_MAX_CHARS,
        ToolCall,
        outcome_blocks_tool,
        outcome_is_error,
        outcome_is_retryable,
        outcome_to_model_content,
    )
    from upshot.tools.artifacts import InMemoryArtifacts
    from upshot.tools.call_state import CallState
    from upshot.tools.catalog import ToolSet, resolve_tools
    from upshot.tools.definition.tool import Tool, tool
    from upshot.tools.definition.tool_context import CancelToken, ToolContext, ToolError
    from upshot.tools.definition.tool_options import Circuit, ProcessLimits, Rate
    from upshot.tools.execution.executor import Workers
    from upshot.tools.gates.approval_gate import Allow, ApprovalRequest, Ask, EditArguments, Refuse
    from upshot.tools.gates.pipeline import Denial, Gate
    from upshot.tools.mcp.mcp_toolset import McpTools
    from upshot.tools.mcp.open_mcp import open_mcp
    from upshot.tools.toolbox import DryRun, Toolbox

__all__ = [
    "Allow",
    "ApprovalRequest",
    "ArtifactStore",
    "Ask",
    "CancelToken",
    "CallState",
    "Circuit",
    "Denial",
    "DryRun",
    "EditArguments",
    "Gate",
    "InMemoryArtifacts",
    "McpTools",
    "Policy",
    "ProcessLimits",
    "Rate",
    "Refuse",
    "TOOL_MESSAGE_MAX_CHARS",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolSet",
    "Toolbox",
    "Workers",
    "open_mcp",
    "outcome_blocks_tool",
    "outcome_is_error",
    "outcome_is_retryable",
    "outcome_to_model_content",
    "resolve_tools",
    "tool",
]

_HOMES = {
    ".contract.protocols": "ArtifactStore",
    ".contract.settings": "Policy",
    ".contract.tool_calls": (
        "TOOL_MESSAGE_MAX_CHARS ToolCall outcome_blocks_tool outcome_is_error "
        "outcome_is_retryable outcome_to_model_content"
    ),
    "artifacts": "InMemoryArtifacts",
    "call_state": "CallState",
    "catalog": "ToolSet resolve_tools",
    "definition.tool": "Tool tool",
    "definition.tool_context": "CancelToken ToolContext ToolError",
    "definition.tool_options": "Circuit ProcessLimits Rate",
    "execution.executor": "Workers",
    "gates.approval_gate": "Allow ApprovalRequest Ask EditArguments Refuse",
    "gates.pipeline": "Denial Gate",
    "mcp.mcp_toolset": "McpTools",
    "mcp.open_mcp": "open_mcp",
    "toolbox": "DryRun Toolbox",
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
