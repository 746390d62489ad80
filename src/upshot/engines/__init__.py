"""Who drives the steps of a run."""

from .loop import LoopEngine

__all__ = ["LoopEngine"]
