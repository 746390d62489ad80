"""The doors to a run."""

from .doors import reopen, resume, run, run_sync, start

__all__ = ["reopen", "resume", "run", "run_sync", "start"]
