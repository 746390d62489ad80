"""What a tool is: its options, its signature as a schema, and its body."""

__all__: list[str] = []
