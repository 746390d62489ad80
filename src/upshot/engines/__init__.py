"""Who drives the steps of a run."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .graph import Graph
from .graph_engine import GraphEngine
from .graph_node import AgentTask, ForEach, Node, Parallel, Question, ToolTask
from .loop import LoopEngine
from .script import ScriptEngine

if TYPE_CHECKING:
    from .machine_crew import MachineAgent
    from .machine_engine import MachineEngine
    from .machine_fault import BrokenMachine, MachineFault, Mark
    from .machine_file import check_machine, load_machine
    from .machine_schema import machine_schema
    from .machine_state import Machine

__all__ = [
    "AgentTask",
    "BrokenMachine",
    "ForEach",
    "Graph",
    "GraphEngine",
    "LoopEngine",
    "Machine",
    "MachineAgent",
    "MachineEngine",
    "MachineFault",
    "Mark",
    "Node",
    "Parallel",
    "Question",
    "ScriptEngine",
    "ToolTask",
    "check_machine",
    "load_machine",
    "machine_schema",
]

_HOMES = {
    "machine_crew": "MachineAgent",
    "machine_engine": "MachineEngine",
    "machine_fault": "BrokenMachine MachineFault Mark",
    "machine_file": "check_machine load_machine",
    "machine_schema": "machine_schema",
    "machine_state": "Machine",
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)
