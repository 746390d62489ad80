"""The engines: what decides the next step of a run.

An engine has one method, ``execute(run, host, board)``. It reads the board, has models, tools and
child runs called by the ``run``, asks the user and keeps steps by the ``host``, and leaves the
answer on the board or returns it. It knows neither journal nor result: the run around it does.

Parts:

- ``loop``: LoopEngine. Its whole state is on the board; the last message says what comes next.
- ``script``: ScriptEngine. An async function of the user's is called, again from its top when
  the run goes on, and gets from the log what it asked before.
- ``graph``: GraphEngine. Nodes and edges, written in Python or as data.
- ``machine``: MachineEngine. States and transitions in YAML, with conditions in CEL. It loads only
  when it is used, because it needs extras.
- ``walk``: what graphs and machines share: keys of steps, limits, checkpoints, retries, gathering.
- ``common``: agents inside of an engine, their errors and hand-offs, and checks of functions.
- ``mermaid``: the chart of a graph or machine.

The life of a step in a graph or machine: the walk counts a visit, which gives its key; the host
is asked for the step of that key. In a new run its body is run, and what came of it is logged as
the value of the step. When the run goes on, the host hands that value back and the body is not run.
So an engine must come to the same keys each time, whatever was fast or slow.

Invariants:

- An engine ends a run by returning or by ``Failed``, ``Parked``, ``Interrupted`` or ``Aborted``;
  any other exception is a bug, and those four are never swallowed.
- A child run that ended in the log is handed back and not started again; its key names it.
- Waits between tries come from ``Retry.wait_s`` alone. Retry lives in one place: an agent in a
  node that is tried again does not try its model calls again.

Traps:

- A request to stop is followed between steps, and in children, which hear of it by themselves.
- A text that a decider seeds as feedback is the last message, and alone it does not say what was
  asked: see ``common.asked_in``.
"""

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
