"""A run's life, whatever the engine that drives it."""

from upshot.runs.callbacks import blame
from upshot.runs.ending import read_returned
from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked, Signal
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.runs.live_run import LiveRun, live_through
from upshot.runs.plan import (
    Approver,
    Child,
    Committer,
    History,
    OutputType,
    Plan,
    ResumeOptions,
    RunOptions,
    Seeder,
    Where,
)
from upshot.runs.recorder import Listener, listen
from upshot.runs.replay.comparison import (
    Difference,
    changed_agent,
    changed_tool,
    facts_of,
    first_difference,
    missing_call,
)
from upshot.runs.replay.recording import Recording
from upshot.runs.resumption import spent_in
from upshot.runs.run_context import current_run
from upshot.runs.services.handoff_tools import handoff_tools
from upshot.runs.services.hooks import DiscardOnInterruptCauses
from upshot.runs.session import Session
from upshot.state.board import Board
from upshot.state.child_runs import FORKED_FROM
from upshot.state.run_state import RunState

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
    "Parked",
    "RunState",
    "Plan",
    "Recording",
    "ResumeOptions",
    "Run",
    "RunHost",
    "RunOptions",
    "Seeder",
    "Signal",
    "Session",
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
    "spent_in",
]
