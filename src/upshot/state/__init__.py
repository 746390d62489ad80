"""What the log of a run means: the fold of its events, the board, and its child runs."""

__all__: list[str] = []
