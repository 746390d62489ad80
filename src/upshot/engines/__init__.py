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
- ``common``: agents in an engine, their errors and hand-offs, and checks of functions.
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

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.engines.graph.graph import Graph as Graph
    from upshot.engines.graph.graph_engine import GraphEngine as GraphEngine
    from upshot.engines.graph.nodes import (
        AgentTask as AgentTask,
        ForEach as ForEach,
        Node as Node,
        Parallel as Parallel,
        Question as Question,
        ToolTask as ToolTask,
    )
    from upshot.engines.loop import LoopEngine as LoopEngine
    from upshot.engines.machine.document import (
        BrokenMachine as BrokenMachine,
        MachineFault as MachineFault,
        Mark as Mark,
    )
    from upshot.engines.machine.loader import (
        check_machine as check_machine,
        load_machine as load_machine,
    )
    from upshot.engines.machine.machine import Machine as Machine
    from upshot.engines.machine.machine_engine import MachineEngine as MachineEngine
    from upshot.engines.machine.machine_schema import machine_schema as machine_schema
    from upshot.engines.machine.resolver import MachineAgent as MachineAgent
    from upshot.engines.script import ScriptEngine as ScriptEngine
