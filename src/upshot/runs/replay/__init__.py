"""Replays a run against its record: the log replaces the outside world, and is compared."""
