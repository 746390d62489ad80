"""GraphEngine: drives a run along the edges of a graph."""

from __future__ import annotations

from typing import ClassVar

from ..contract import Checkpoint, Origin, RunWarning, Warned
from ..contract.article import kind_of
from ..errors import Misuse
from ..runs import Board, Run, RunHost
from .graph import Graph
from .graph_trip import Trip
from .graph_walk import walk
from .handing import hand_over, read_handoff
from .lent_model import check_models

__all__ = ["GraphEngine"]


class GraphEngine:
    """Walks *graph*; each node is a step of the log, and one that is finished is not run again.

    Args:
        graph: What is walked.

    Raises:
        Misuse: It is no graph.
    """

    # It finds its place by the log: nobody has to ask it whether it can go on.
    goes_on_by_log: ClassVar[bool] = True

    def __init__(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            found = kind_of(graph)
            raise Misuse(f"a GraphEngine walks a Graph, not {found}: GraphEngine(Graph(nodes))")
        self.graph = graph

    def __repr__(self) -> str:
        return f"GraphEngine({self.graph!r})"

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is named after a node; the graph is then entered there."""
        return checkpoint.step in self.graph.nodes

    def check_models(self, *, has_model: bool) -> None:
        """Look whether all its agents have a model, before anything begins.

        Args:
            has_model: Whether the run has one, which it lends.

        Raises:
            Misuse: One has none; all are named.
        """
        check_models(self.graph.agents(), has_model=has_model)

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Walk the graph from its start, or from the node that a checkpoint names.

        Raises:
            Interrupted: A wish to stop was followed between nodes, or by an agent in one.
            Aborted: An agent in a node was aborted.
            Failed: No edge leads on, branches conflict, the step limit is reached, or a node
                failed.
            Parked: People are waited for.
        """
        trip, graph = Trip(run, host, board), self.graph
        point = run.resume_from if run.attempt == 1 else None
        start = graph.start if point is None else point.step
        first = await trip.begin(facts={"start": start, "graph": graph.digest})
        await _look_for_change(trip, graph)
        # A graph that has changed may begin elsewhere; what was done was done from there on.
        start = str(trip.origin.get("start", start))
        try:
            handoff = await walk(trip, graph, first, key=trip.key, commit=trip.commit, start=start)
        finally:
            # What was done stays in the result, whatever ended the walk.
            trip.flush()
        await hand_over(run, host, read_handoff(handoff))
        return board


async def _look_for_change(trip: Trip, graph: Graph) -> None:
    """Warn where the run began with another graph."""
    if trip.origin.get("graph", graph.digest) != graph.digest:
        trip.questions.has_changed = True
        message = "the graph has changed since the run began"
        warning = RunWarning(code="graph_changed", message=message, origin=Origin.CALLER)
        await trip.host.publish(Warned(warning=warning))
