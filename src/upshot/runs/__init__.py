"""The life of a run, whichever engine drives it.

A run is one request, worked on until there is one result. A process works on it in a *session*:
from its start, or from where its log stands, until it ends or parks. `Session` goes through the
phases of `session.NEXT`: open, prepare a board, have the engine work on it (an *attempt*), ask
the deciders, commit, tell the observers, close. A decider that wants a revision leads back to
preparing.

Eight objects make a session:

- `Session` decides what comes next and has the result in hand.
- `RunContext` is what all others share, made once: plan, state, recorder, budget, supervisor.
- `RunState` (in `upshot.state`) is what the log says; every event is folded into it as it is
  emitted.
- `Recorder` stamps an event, appends it to the log, folds it and tells subscribers, in this
  order.
- `RunBudget` says whether a call may be made, here and in the parents.
- `TaskSupervisor` runs the engine in a task of its own and ends it from outside.
- `Run` is what an engine may read, and its way to models, tools and child runs.
- `RunHost` is what surrounds an engine: events, interrupts, questions, keyed steps, checkpoints,
  usage.

`services` holds what a session needs now and then (model calls, tools, hooks, hand-offs),
`engine_api` what an engine is given, `replay` a run against its record.

**Epochs.** Whoever works on a run has claimed its log under an epoch. An append with an older
epoch raises JournalError, which ends that session: two processes never write one log. A later
claim takes the run over.

**Interrupt, cancel, grace.** An interrupt is a request: the engine stops at its next safe point,
tool calls that have not started are denied, bodies under way may end. After a grace of 2 s the
task is cancelled. A cancel stops at once. An engine that ignores its cancellation is left behind
and the run ends whole, with a warning. The caller's own cancellation reaches the engine as a
cancel and is raised again once the run has ended.

**Resuming.** The log is folded, and the session goes on from the state. A finished call is never
made again. One that had started and has no outcome is run again only if its tool says that this
is safe; else the model reads that its effect is unknown.

**Re-execution.** A loop, a graph and a machine find their place on the board or in keyed steps. A
script is called again from its top, and `Run.hand_back` gives it what it had asked for: replies
in their order, outcomes by call, children by what they were asked. The body of a step that was cut
off runs again too, and gets the same for what it calls, whatever engine it is of.

**Replay.** The same, against the record of a run that has ended: nothing outside is touched, and
the first difference is reported.

Traps: an event must be emitted before what it tells is relied on, since the log may refuse it.
Nothing in a session may lead back to it once it has ended (`RunContext.close`), or each run is
left to the garbage collector.
"""
