"""The life of a run, whichever engine drives it.

A run is one request, worked on until there is one result. A process works on it in a *session*:
from its start or from the end of its log, until it ends or parks. `Session` goes through the
phases of `session.NEXT`: open, prepare a board, run the engine on it (an *attempt*), ask the
deciders, commit, notify the observers, close. If a decider wants a revision, it goes back to
preparing.

A session consists of eight objects:

- `Session` selects the next phase and keeps the current result.
- `RunContext` is what all the others share: plan, state, recorder, budget, supervisor.
- `RunState` (in `upshot.state`) is the fold of the log; every event is folded into it when it is
  emitted.
- `Recorder` stamps an event, appends it to the log, folds it and notifies subscribers, in this
  order.
- `RunBudget` says whether a call may be made, within the limits of this run and its parents.
- `TaskSupervisor` runs the engine in a task and ends it from outside.
- `Run` is what an engine may read, and its access to models, tools and child runs.
- `RunHost` is the engine's environment: events, interrupts, questions, keyed steps, checkpoints,
  usage.

`services` has what a session needs now and then (model calls, tools, hooks, handoffs),
`engine_api` what an engine gets, `replay` a run against its record.

**Epochs.** A process that works on a run has claimed its log under an epoch. An append with an
older epoch raises JournalError, which ends that session: two processes never write one log. A
later claim takes the run over.

**Interrupt, cancel, grace.** An interrupt is a request: the engine stops at its next safe point,
tool calls that have not started are denied, running bodies may finish. After a grace period of
2 s the task is cancelled. A cancel stops at once. An engine that ignores its cancellation is
abandoned, and the run ends with a complete result and a warning. If the caller's task is cancelled,
the engine is cancelled, and the cancellation is raised again after the run has ended.

**Resuming.** The log is folded, and the session continues from that state. A finished call is never
made again. A call that started and has no outcome runs again only if its tool declares that this
is safe; otherwise the model reads that its effect is unknown.

**Re-execution.** A loop, a graph and a machine find their place on the board or in keyed steps. A
script is called again from the top, and `Run.hand_back` returns what it asked for before: replies
in order, outcomes by call, child runs by request. The interrupted body of a step also runs again,
with any engine, and its calls are answered in the same way.

**Replay.** The same, against the record of a run that has ended: nothing outside is touched, and
the first difference is reported.

Traps: emit an event before relying on what it says, since the journal may refuse it. Nothing in a
session may refer back to it after it has ended (`RunContext.close`), otherwise each run is left
to the garbage collector.
"""
