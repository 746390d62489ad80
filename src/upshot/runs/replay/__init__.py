"""A run against its record: the log as the outside world, and what differs."""
