"""Who drives the steps of a run."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from upshot.engines.graph.graph import Graph
from upshot.engines.graph.graph_engine import GraphEngine
from upshot.engines.graph.nodes import AgentTask, ForEach, Node, Parallel, Question, ToolTask
from upshot.engines.loop import LoopEngine
from upshot.engines.script import ScriptEngine
from upshot.lazy import lazy_names

if TYPE_CHECKING:
    from upshot.engines.machine.document import BrokenMachine, MachineFault, Mark
    from upshot.engines.machine.loader import check_machine, load_machine
    from upshot.engines.machine.machine import Machine
    from upshot.engines.machine.machine_engine import MachineEngine
    from upshot.engines.machine.machine_schema import machine_schema
    from upshot.engines.machine.resolver import MachineAgent

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
    "machine.resolver": "MachineAgent",
    "machine.machine_engine": "MachineEngine",
    "machine.document": "BrokenMachine MachineFault Mark",
    "machine.loader": "check_machine load_machine",
    "machine.machine_schema": "machine_schema",
    "machine.machine": "Machine",
}

__getattr__: Callable[[str], object] = lazy_names(__name__, globals(), _HOMES)
