"""Other forms of the values: the flat contract dict, the execution result, and A2A."""

__all__: list[str] = []
