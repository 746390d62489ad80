"""The graph engine: nodes and edges, branches that run at the same time, and how they join.

Parts:

- ``nodes``: what a node may do, as plain values (AgentTask, ToolTask, Question, Parallel,
  ForEach), and what decides whether two of them do the same.
- ``graph``: Graph, its checks, its form as plain data, its chart and its digest.
- ``branches``: copies of the board for branches, what each node changed, and merging.
- ``graph_engine``: GraphEngine, the walk from node to node, one visit of one node, and what is
  done there.

A walk goes in steps. In each step all nodes run that no other node under way can still reach;
that makes a node with several incoming edges a join. Every branch works on a ``BoardCopy``, which
shares everything with its origin until it is written to. What a node changed is a ``Change``; it is
the value of the node's step in the log. Where branches meet, their changes are merged in the order
of the nodes, never in the order of time, and two that set one variable need a merge by name.

Invariants:

- What a node finds depends on the graph and on what nodes did, and never on which was faster.
- A finished node is not run again. A resumed run walks from the start and takes the changes of
  finished nodes from the log, so its keys (``graph-1/name#2``) must come out the same each time.
- A node that asks the user is run again on resume, because the host numbers questions as they
  come; ``QuestionOrder`` keeps that order in the log.

Traps:

- Edges that close a cycle are left out of what "can still reach" means, else a cycle would wait
  for itself. They are found depth first, from the start and in the order of the edges.
- Changes reach the run's own board only where a single branch is left, since others must not see
  what one of them did before they join.
- The digest covers the code of functions, and not the values that they close over: these may
  change while a run is under way.
"""
