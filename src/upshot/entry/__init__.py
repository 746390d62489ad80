"""The API functions that start, resume, fork and replay runs.

This package takes the arguments of a call, checks them, and gets everything ready that a run
needs; the run itself is in ``upshot.runs``. Nothing below imports it. The parts:

- ``api`` has the public functions. They load the rest at the first run, so that importing
  ``upshot`` costs little. ``run_sync`` brings its own event loop.
- ``planning`` makes the ``Plan`` of a run: every name resolved, every default filled in. What does
  not depend on the call is found out once an agent (``AgentSetup``) and kept with it.
- ``session_setup`` opens the journal, takes the run's lease (``run_lease``) and makes the session.
- ``resume`` reads a log for what a resumed run needs: state, history, answers of the user; a fork
  copies a log up to an event. ``replay_run`` runs an agent against a log and compares.
- ``handoff_loop`` follows hand-offs from agent to agent.

The life of a call: check the options, make the plan, open the journal, take the lease, run the
session, release and close in the opposite order. ``resume`` does the same, with the plan completed
by what the log says where the call says nothing.

What always holds:

- A mistake of the caller raises ``Misuse`` before anything is logged; what goes wrong later is in
  the result.
- One process at a time works on a run: the lease raises the run's epoch, and a holder with an
  older epoch cannot append. A process that is known to be dead loses its lease at once; one that
  may live keeps it, unless the caller says ``take_over``.
- A child run shares its parent's lease, secrets, policy, clock and, in the same loop, its host.
- A resumed run makes no settled call again. A call that began and has no outcome runs again only
  if its tool allows that (a read, or an idempotent one).

Traps: an agent is frozen and its set-up is cached on it, so a model given by name is looked up
anew at each run, for its key may have changed. A plan that is kept must not hold the request or
the journal of its call. A run that is started inside another without a journal of its own writes
to the parent's.
"""
