"""The API functions that start, resume, fork and replay runs.

This package checks the arguments of a call and prepares everything that a run needs; the run
itself is in ``upshot.runs``. No lower layer imports it. Its parts:

- ``api`` has the public functions. They import the rest at the first run, which keeps
  ``import upshot`` cheap. ``run_sync`` creates an event loop of its own.
- ``planning`` makes the ``Plan`` of a run: every name resolved, every default filled in. What does
  not depend on the call is computed once per agent (``AgentSetup``) and cached on it.
- ``session_setup`` opens the journal, claims the run's lease (``run_lease``) and makes the session.
- ``resume`` reads a log for what a resumed run needs: state, history, the user's answers; a fork
  copies a log up to an event. ``replay_run`` runs an agent against a log and compares.
- ``handoff_loop`` follows handoffs from agent to agent.

The life of a call: check the options, make the plan, open the journal, claim the lease, run the
session, then release and close in the opposite order. ``resume`` does the same; the log supplies
what the call leaves out of the plan.

Invariants:

- A mistake of the caller raises ``Misuse`` before anything is logged; what goes wrong later is in
  the result.
- One process at a time works on a run: a claim raises the run's epoch, and a holder with an older
  epoch cannot append. A process that is known to be dead loses its lease at once; one that may be
  alive keeps it unless the caller passes ``take_over``.
- A child run shares its parent's lease, secrets, policy, clock and, in the same loop, its host.
- A resumed run never repeats a settled call. A call that started and has no outcome is repeated
  only if its tool allows that (a read, or an idempotent one).

Traps: an agent is frozen and its setup is cached on it, so a model given by name is resolved again
for each run, because its key may have changed. A cached plan must not keep the request or the
journal of its call alive. A child run without a journal option writes to its parent's journal.
"""
