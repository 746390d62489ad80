"""Ground: what all parts of one sitting stand on."""

from __future__ import annotations

from ..contract import RunInfo, RunStarted
from .ledger import Ledger
from .past import Past
from .plan import Plan
from .recorder import Recorder
from .recording import Recording
from .scope import Scope
from .veil import Veil, marks_for, name_marks

__all__ = ["Ground"]


class Ground:
    """The plan of a sitting, its log, its account and the task in which its engine works.

    Args:
        plan: What to do.
        past: What earlier sittings logged; None for a new run.
        epoch: Under which the log was claimed, None without a log.
        record: What stands for the world outside where a run is replayed; None is the world.

    Attributes:
        plan: As given.
        past: As given.
        record: As given.
        info: Whose run it is.
        depth: How deep the run is, 0 for a root run.
        veil: What keeps its secrets out of log and result, None without any.
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
        "scope",
        "veil",
    )

    def __init__(
        self, plan: Plan, past: Past | None, epoch: int | None, record: Recording | None
    ) -> None:
        request, clock, budget = plan.request, plan.clock, plan.budget
        started = None if past is None else past.started
        self.plan: Plan = plan
        self.past: Past | None = past
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
        self.veil: Veil | None = _veil(plan, started) if plan.secrets else None
        self.recorder: Recorder = Recorder(
            plan.run_id,
            clock=clock,
            journal=plan.journal,
            epoch=epoch,
            seq=0 if past is None else past.seq,
            veil=self.veil,
        )
        self.ledger: Ledger = Ledger(
            budget,
            clock=clock,
            parent=None if plan.parent is None else plan.parent.ledger,
            spent_s=0.0 if past is None else past.spent_s,
        )
        own_time = None if budget.working_s is None else self.ledger.working
        self.scope: Scope = Scope(clock, self.ledger.deadline, working=own_time)


def _veil(plan: Plan, started: RunStarted | None) -> Veil:
    name = plan.marks if started is None else marks_for(plan.secrets, started)
    # A log never has one mark for two secrets.
    return Veil(plan.secrets, name=name or name_marks())
