"""A run's life, whatever the engine that drives it."""

from .account import spent_in
from .board import Board
from .difference import (
    Difference,
    changed_agent,
    changed_tool,
    facts_of,
    first_difference,
    missing_call,
)
from .discard import DiscardOnInterruptCauses
from .handle import LiveRun, live_through
from .handoff import handoff_tools
from .host import RunHost
from .kin import FORKED_FROM
from .lifecycle import Sitting
from .listeners import Listener, listen
from .options import Approver, Committer, History, ResumeOptions, RunOptions, Seeder, Where
from .output import OutputType
from .own_loop import run_in_own_loop
from .past import Past
from .plan import Child, Parent, Plan
from .recording import Recording
from .returned import read_returned
from .run import Run
from .scope import current_run
from .signals import Aborted, Failed, Interrupted, Parked, Signal
from .trail import blame

__all__ = [
    "Aborted",
    "Approver",
    "Board",
    "Child",
    "Committer",
    "Difference",
    "DiscardOnInterruptCauses",
    "FORKED_FROM",
    "Failed",
    "History",
    "Interrupted",
    "Listener",
    "LiveRun",
    "OutputType",
    "Parent",
    "Parked",
    "Past",
    "Plan",
    "Recording",
    "ResumeOptions",
    "Run",
    "RunHost",
    "RunOptions",
    "Seeder",
    "Signal",
    "Sitting",
    "Where",
    "current_run",
    "blame",
    "changed_agent",
    "changed_tool",
    "facts_of",
    "first_difference",
    "handoff_tools",
    "listen",
    "missing_call",
    "live_through",
    "read_returned",
    "run_in_own_loop",
    "spent_in",
]
