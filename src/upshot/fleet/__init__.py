"""Runs that are begun in one process and worked on in another.

An ``App`` names agents, what they are given, and a journal. ``submit`` writes a run into the
journal and returns; whoever takes it up works on it. The parts:

- ``app`` has ``App``: submitting, watching and answering runs, and ``activate``, by which one due
  run is taken up and worked on until it ends or parks.
- ``restate`` has Restate drive the runs of an App, on as many machines as there are services.
- ``worker`` has ``Worker``, which takes up many due runs at once until it is told to end,
  and counts the deaths of the runs at which it dies.
- ``verifier`` has a worker ask the ``verify`` of tools again about effects that are unknown.
- ``submission`` makes of a request and its options what a journal can keep, and reads it back.

The life of a submitted run: ``submit`` puts it into the list of runs as queued, under an id that
is fixed from then on. ``activate`` takes its lease, which takes it out of what is due, and begins
it from the submission. When it parks, the journal holds all there is of it: no task, no connection
and no lease. An answer makes it due again, and the next ``activate`` goes on from its log.

What always holds:

- ``activate`` is the one way in which a submitted run is driven. Of several that take up one run
  the claim lets one do so; the others get None.
- A run is begun once: its id is known to the journal before its first event, and who finds a log
  goes on with that.
- A process that dies between the submission and the first event loses nothing: the submission
  stays, and the row of the run names a holder that is gone.
- What is submitted is data. Everything else that guards or feeds a run comes from the ``App``.

Traps: a turn of a conversation that finds another one under way cannot begin; it is put off, and
taken up again soon after. An App belongs to the event loop in which its journal was opened.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.fleet.app import App as App
    from upshot.fleet.restate import restate_service as restate_service
    from upshot.fleet.submission import SubmitOptions as SubmitOptions
