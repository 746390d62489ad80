"""The engines: what decides the next step of a run.

An engine has one method, ``execute(run, host, board)``. It reads the board, calls models, tools and
child runs through ``run``, asks the user and keeps steps through ``host``, and leaves the answer on
the board or returns it. It knows neither journal nor result; the session handles those.

Parts:

- ``loop``: LoopEngine. Its whole state is on the board; the last message says what comes next.
- ``batch_engine``: BatchEngine. A loop whose model calls are batches; the run is parked between.
- ``script``: ScriptEngine. Calls an async function of the user. A resumed run calls it again from
  the top, and the log answers what it asked before.
- ``graph``: GraphEngine. Nodes and edges, written in Python or as data.
- ``machine``: MachineEngine. States and transitions in YAML, with conditions in CEL. It is imported
  only when used, because it needs extras.
- ``walk``: what graphs and machines share: keys of steps, limits, checkpoints, retries, gathering.
- ``common``: agents in an engine, their errors and handoffs, and checks of functions.
- ``mermaid``: the chart of a graph or machine.

The life of a step in a graph or machine: the walk counts a visit, which gives its key; the host is
asked for the step with that key. In a new run its body runs, and the outcome is logged as the value
of the step. In a resumed run the host returns that value, and the body does not run. So an engine
must produce the same keys each time, whatever was fast or slow.

Invariants:

- An engine ends a run by returning or by raising ``Failed``, ``Parked``, ``Interrupted`` or
  ``Aborted``. Any other exception is a bug, and those four are never swallowed.
- A child run that has ended is not started again; its result comes from the log, by its key.
- Waits between tries come from ``Retry.wait_s`` alone. Retry is in one place: an agent in a node
  with retries does not retry its model calls.

Traps:

- A request to stop is obeyed between steps. Child runs get it directly.
- Feedback from a decider is the last message, and alone it does not say what the task is: see
  ``common.asked_in``.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.engines.batch_engine import BatchEngine as BatchEngine, batch as batch
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
