"""Who drives the steps of a run."""

from .loop import LoopEngine
from .script import ScriptEngine

__all__ = ["LoopEngine", "ScriptEngine"]
