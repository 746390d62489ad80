"""Models, hooks and hand-offs of a session."""
