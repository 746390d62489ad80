"""Models, hooks and hand-offs of a session."""

__all__: list[str] = []
