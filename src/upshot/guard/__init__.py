"""Native tools of pydantic-ai and LangGraph, with calls stored in a journal.

The framework keeps its agent, its models and its own way to continue. Calls that must not run twice
go through ``guard``: each passes the gates and gets one outcome in the log of a run. If the process
is killed and the framework continues in another one, it finds the outcome there. The parts:

- ``guard`` creates a ``Guard``, which provides the tools for each framework.
- ``GuardedRun`` makes calls: a run whose engine is the framework, with one session for calls that
  arrive together. Between sessions the run is parked, so any process can have the next one.
- ``CallLedger`` recognises a call that the framework repeats, under its old id or a new one.

Invariants:

- A call is in the ledger before its tool starts. Before the framework gets its outcome, the outcome
  is on disk and other processes can claim the run.
- One process at a time makes calls of a run; others wait, and find its outcomes in the log.
- The first answer of a person counts, whether given through the framework or in the inbox.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.guard.guarded_tools import Guard as Guard, guard as guard
