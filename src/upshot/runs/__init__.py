"""A run's life, whatever the engine that drives it."""

from .account import spent_in
from .board import Board
from .discard import DiscardOnInterruptCauses
from .handle import LiveRun, live_through
from .handoff import handoff_tools
from .host import RunHost
from .lifecycle import Sitting
from .listeners import Listener, listen
from .options import Approver, Committer, History, ResumeOptions, RunOptions, Seeder, Where
from .output import OutputType
from .own_loop import run_in_own_loop
from .past import Past
from .plan import Child, Parent, Plan
from .run import Run
from .scope import current_run
from .signals import Aborted, Failed, Interrupted, Parked

__all__ = [
    "Aborted",
    "Approver",
    "Board",
    "Child",
    "Committer",
    "DiscardOnInterruptCauses",
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
    "Run",
    "RunHost",
    "ResumeOptions",
    "RunOptions",
    "Seeder",
    "Sitting",
    "Where",
    "current_run",
    "handoff_tools",
    "listen",
    "live_through",
    "run_in_own_loop",
    "spent_in",
]
