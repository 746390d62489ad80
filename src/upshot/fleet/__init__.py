"""Runs that one process submits and another works on.

An ``App`` names agents, what they are given, and a journal. ``submit`` writes a run into the
journal and returns; any process that claims the run works on it. The parts:

- ``app`` has ``App``: it submits, watches and answers runs, and its ``activate`` claims one due run
  and works on it until it ends or parks.
- ``driver`` has what another system needs to drive the runs of an App: due runs are sent to it, and
  it activates them. ``restate`` and ``on_dbos`` are the two systems.
- ``worker`` has ``Worker``, which works on many due runs at once until it is stopped, and counts
  how often its process dies while working on the same run.
- ``worker_list`` says which workers a journal has, and asks one of them to take no more runs.
- ``verifier`` lets a worker call the ``verify`` of tools again about unknown effects.
- ``schedules`` lets workers submit runs by the clock.
- ``status`` and ``exposition`` have what a monitor reads of a process, and ``run_logs`` gives log
  records the run that they are about.
- ``submission`` turns a request and its options into data that a journal can store, and back.

The life of a submitted run: ``submit`` puts it into the list of runs as queued, under its final
id. ``activate`` claims its lease, so that it is not due any more, and starts it from the
submission. When it parks, only the journal has it: no task, no connection and no lease. An answer
makes it due again, and the next ``activate`` resumes it from its log.

Invariants:

- ``activate`` is the only way in which a submitted run is driven. If several processes activate one
  run, only one claim succeeds; the others get None.
- A run starts once: the journal knows its id before its first event, and a process that finds a log
  resumes that.
- A process that dies between the submission and the first event loses nothing: the submission
  stays, and the row of the run names a holder that is gone.
- What is submitted is data. Everything else that guards or feeds a run comes from the ``App``.

Traps: a turn of a conversation cannot start while another turn is running; it is postponed and
tried again soon. An App belongs to the event loop in which its journal was opened.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.fleet.app import App as App
    from upshot.fleet.on_dbos import DbosDriver as DbosDriver, dbos_driver as dbos_driver
    from upshot.fleet.run_logs import JsonFormatter as JsonFormatter, RunFilter as RunFilter
    from upshot.fleet.restate import restate_service as restate_service
    from upshot.fleet.schedules import Scheduled as Scheduled, ScheduleState as ScheduleState
    from upshot.fleet.submission import SubmitOptions as SubmitOptions
