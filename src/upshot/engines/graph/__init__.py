"""The graph engine: nodes and edges, branches that run side by side, and how they join."""

__all__: list[str] = []
