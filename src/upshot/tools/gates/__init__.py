"""What is asked before a tool call runs."""

__all__: list[str] = []
