"""The graph engine: nodes and edges, branches that run at the same time, and how they join.

Parts:

- ``nodes``: what a node may do, as plain values (AgentTask, ToolTask, Question, Parallel,
  ForEach), and what decides whether two of them do the same.
- ``graph``: Graph, its checks, its form as plain data, its chart and its digest.
- ``branches``: copies of the board for branches, what each node changed, and merging.
- ``graph_engine``: GraphEngine, the walk from node to node, and one visit of one node.

A walk proceeds in steps. Each step runs all nodes that no other node under way can still reach, so
a node with several incoming edges is a join. Every branch works on a ``BoardCopy``, which shares
everything with its origin until it is written to. What a node changed is a ``Change``, the value of
the node's step in the log. Where branches meet, their changes are merged in the order of the nodes,
never in the order of time. If two branches set the same variable, it needs a merge by name.

Invariants:

- What a node sees depends on the graph and on what nodes did, and never on which was faster.
- A finished node does not run again. A resumed run walks from the start and reads the changes of
  finished nodes from the log, so its keys (``graph-1/name#2``) must be the same each time.
- A node that asks the user runs again in a resumed run, because the host numbers questions as
  they come; ``QuestionOrder`` keeps that order in the log.

Traps:

- Edges that close a cycle do not count for "can still reach", otherwise a cycle would wait for
  itself. They are found depth first, from the start and in the order of the edges.
- Changes reach the run's own board only when a single branch is left, because other branches must
  not see them before they join.
- The digest covers the code of functions, and not the values that they close over: these may
  change during a run.
"""
