"""How calls that passed their gates are run.

``batch`` takes the calls of one reply from their gates to an outcome each: it lines them up in
``locks``, drives each in a task (a lone call in the caller's own), and settles them also when it is
cancelled. ``call_execution.run_call`` runs one call: it logs the start, runs the body, retries it,
asks a ``verify`` hook about an unknown effect, and stores a large output. The body itself runs

- on the event loop or in a daemon thread (``executor``), or
- in a process of its own (``process_runner``, for ``isolation="process"``), which a supervisor
  process ends with all that it started (``process_supervisor``). ``child_main`` is what the child
  runs, and what it is told and tells. The three are files of their own because the supervisor loads
  next to nothing, and the child only what it needs.

A runner says how the body ended: Returned, Raised, Stopped, Died or Unusable. ``outcome_mapping``
makes the outcome of that, and ``tools.repetition`` alone says what the body may have done and
whether the call may be made again.

What always holds:

- Calls of one reply run together unless one writes what the other touches; then in call order.
- Cancellation never gets lost: a cancel of the caller ends the bodies, waits ``GRACE_S`` for them,
  settles every call, and is raised again.
- Time is real time for bodies, and the passed-in clock for deadlines and records.

Traps: a thread cannot be ended, so a body that was given up may still take effect, and its
``verify`` hook is not believed when it says that nothing happened. A task that ends with
KeyboardInterrupt stops the loop at once.
"""
