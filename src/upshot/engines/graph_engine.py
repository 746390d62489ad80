"""GraphEngine: drives a run along the edges of a graph."""

from __future__ import annotations

from ..contract import Checkpoint
from ..errors import Misuse
from ..runs import Board, Run, RunHost
from .graph import Graph
from .graph_trip import Trip
from .graph_walk import walk

__all__ = ["GraphEngine"]


class GraphEngine:
    """Walks *graph*; each node is a step of the log, and one that is finished is not run again.

    Args:
        graph: What is walked.

    Raises:
        Misuse: It is no graph.
    """

    def __init__(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            kind = type(graph).__name__
            raise Misuse(f"a GraphEngine walks a Graph, not a {kind}: GraphEngine(Graph(nodes))")
        self.graph = graph

    def __repr__(self) -> str:
        return f"GraphEngine({self.graph!r})"

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is named after a node; the graph is then entered there."""
        return checkpoint.step in self.graph.nodes

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Walk the graph from its start, or from the node that a checkpoint names.

        Raises:
            Interrupted: A wish to stop was followed between nodes.
            Failed: No edge leads on, branches conflict, the step limit is reached, or a node
                failed.
            Parked: People are waited for.
        """
        trip = Trip(run, host, board)
        first = await trip.begin()
        point = run.resume_from if run.attempt == 1 else None
        start = "" if point is None else point.step
        try:
            await walk(trip, self.graph, first, key=trip.key, commit=trip.commit, start=start)
        finally:
            # What was done stays in the result, whatever ended the walk.
            trip.flush()
        return board
