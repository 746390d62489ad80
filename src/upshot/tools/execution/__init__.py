"""Running calls that passed their gates.

``batch`` brings the calls of one reply from their gates to their outcomes: it orders them with
``locks``, runs each in a task (a single call in the caller's own), and settles them even if it is
cancelled. ``call_execution.run_call`` runs one call: it logs the start, runs the body, retries it,
asks a ``verify`` hook about an unknown effect, and stores a large output. The body itself runs

- on the event loop or in a daemon thread (``executor``), or
- in a separate process (``process_runner``, for ``isolation="process"``). A supervisor process
  kills it together with everything it started (``process_supervisor``). ``child_main`` is the code
  of the child and the messages it exchanges. These are three files because the supervisor imports
  next to nothing, and the child only what it needs.

A runner reports how the body ended: BodyValue, Raised, Stopped, Died or Unusable.
``outcome_mapping`` maps that to an outcome. ``tools.repetition`` alone decides what the body may
have changed and whether the call may be repeated.

Invariants:

- Calls of one reply run concurrently unless one writes what another touches; those run in call
  order.
- Cancellation is never lost: cancelling the caller cancels the bodies, waits up to ``GRACE_S`` for
  them, settles every call, and is raised again.
- Bodies are timed by real time, deadlines and records by the injected clock.

Traps: a thread cannot be stopped, so an abandoned body may still take effect, and its ``verify``
hook is not believed if it says that nothing happened. A task that ends with KeyboardInterrupt
stops the loop at once.
"""
