"""Model calls, tools, hooks, handoffs and compaction of a session."""
