"""Who drives the steps of a run."""

from .graph import Graph
from .graph_engine import GraphEngine
from .graph_node import AgentTask, ForEach, Node, Parallel, Question, ToolTask
from .loop import LoopEngine
from .script import ScriptEngine

__all__ = [
    "AgentTask",
    "ForEach",
    "Graph",
    "GraphEngine",
    "LoopEngine",
    "Node",
    "Parallel",
    "Question",
    "ScriptEngine",
    "ToolTask",
]
