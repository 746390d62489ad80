"""Ground: what all parts of one session stand on."""

from __future__ import annotations

from upshot.contract.agent_spec import RunInfo
from upshot.contract.events import RunStarted
from upshot.runs.budget import RunBudget
from upshot.runs.plan import Plan
from upshot.runs.recorder import Recorder
from upshot.runs.redaction import Redaction, marks_for, name_marks
from upshot.runs.replay.recording import Recording
from upshot.runs.task_supervisor import TaskSupervisor
from upshot.state.run_state import RunState

__all__ = ["RunContext"]


class RunContext:
    """The plan of a session, its log, its account and the task in which its engine works.

    Args:
        plan: What to do.
        past: What earlier sessions logged; None for a new run.
        epoch: Under which the log was claimed, None without a log.
        record: What stands for the world outside where a run is replayed; None is the world.

    Attributes:
        plan: As given.
        past: As given.
        record: As given.
        info: Whose run it is.
        depth: How deep the run is, 0 for a root run.
        redaction: What keeps its secrets out of log and result, None without any.
        recorder: The log.
        ledger: The account.
        scope: Where the engine works.
    """

    __slots__ = (
        "depth",
        "info",
        "ledger",
        "past",
        "plan",
        "record",
        "recorder",
        "redaction",
        "scope",
    )

    def __init__(
        self, plan: Plan, past: RunState | None, epoch: int | None, record: Recording | None
    ) -> None:
        request, clock, budget = plan.request, plan.clock, plan.budget
        started = None if past is None else past.started
        self.plan: Plan = plan
        self.past: RunState | None = past
        self.record: Recording | None = record
        self.info: RunInfo = RunInfo(
            agent_id=plan.agent.id,
            run_id=plan.run_id,
            task_id=request.task_id,
            context_id=request.context_id,
        )
        self.depth: int = 0
        if started is not None:
            self.depth = started.depth
        elif plan.parent is not None:
            self.depth = plan.parent.depth + 1
        self.redaction: Redaction | None = _redaction(plan, started) if plan.secrets else None
        self.recorder: Recorder = Recorder(
            plan.run_id,
            clock=clock,
            journal=plan.journal,
            epoch=epoch,
            seq=0 if past is None else past.seq,
            redaction=self.redaction,
        )
        self.ledger: RunBudget = RunBudget(
            budget,
            clock=clock,
            parent=None if plan.parent is None else plan.parent.ledger,
            spent_s=0.0 if past is None else past.spent_s,
        )
        own_time = None if budget.working_s is None else self.ledger.working
        self.scope: TaskSupervisor = TaskSupervisor(clock, self.ledger.deadline, working=own_time)


def _redaction(plan: Plan, started: RunStarted | None) -> Redaction:
    name = plan.marks if started is None else marks_for(plan.secrets, started)
    # A log never has one mark for two secrets.
    return Redaction(plan.secrets, name=name or name_marks())
