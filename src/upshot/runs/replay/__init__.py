"""A run against its record: the log as the outside world, and what differs."""

__all__: list[str] = []
