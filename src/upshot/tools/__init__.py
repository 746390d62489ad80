"""From a tool call to exactly one outcome: tools, gates, execution, artifacts.

Each name is loaded at its first use.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from ..contract import (
        TOOL_MESSAGE_MAX_CHARS,
        ArtifactStore,
        Policy,
        ToolCall,
        outcome_blocks_tool,
        outcome_is_error,
        outcome_is_retryable,
        outcome_to_model_content,
    )
    from .artifacts import InMemoryArtifacts
    from .case import Case
    from .context import CancelToken, ToolContext
    from .definition import Tool, tool
    from .dry_run import DryRun
    from .error import ToolError
    from .gate import Denial, Gate
    from .gates import Allow, ApprovalRequest, Ask, EditArguments, Refuse
    from .isolation import ProcessLimits
    from .kit import resolve_tools
    from .mcp import McpTools, open_mcp
    from .rate import Circuit, Rate
    from .toolbox import Toolbox
    from .toolset import ToolSet
    from .workers import Workers

__all__ = [
    "Allow",
    "ApprovalRequest",
    "ArtifactStore",
    "Ask",
    "CancelToken",
    "Case",
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
    ".contract": (
        "ArtifactStore Policy TOOL_MESSAGE_MAX_CHARS ToolCall outcome_blocks_tool outcome_is_error "
        "outcome_is_retryable outcome_to_model_content "
    ),
    "artifacts": "InMemoryArtifacts",
    "case": "Case",
    "context": "CancelToken ToolContext",
    "definition": "Tool tool",
    "dry_run": "DryRun",
    "error": "ToolError",
    "gate": "Denial Gate",
    "gates": "Allow ApprovalRequest Ask EditArguments Refuse",
    "isolation": "ProcessLimits",
    "kit": "resolve_tools",
    "mcp": "McpTools open_mcp",
    "rate": "Circuit Rate",
    "toolbox": "Toolbox",
    "toolset": "ToolSet",
    "workers": "Workers",
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return __all__
