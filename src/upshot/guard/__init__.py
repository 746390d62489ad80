"""Tools as native tools of pydantic-ai and LangGraph, their calls kept in a journal.

The framework keeps its agent, its models and its own way to go on. What it must not do twice
goes through ``guard``: each call passes the gates and comes to one outcome in the log of a run,
so that a process which is killed and gone on with by the framework finds what it did. The parts:

- ``guard`` makes a ``Guard``, which frameworks' tools are made of.
- ``GuardedRun`` makes calls: a run whose engine is outside, in a session for calls that come
  together. Between two sessions the run is parked, so that any process may have the next one.
- ``CallLedger`` finds a call again that the framework makes anew, under its old id or another.

What always holds:

- A call is in the ledger before its tool starts, and its outcome is on disk, and the run free for
  others, before the framework has it.
- One process at a time makes calls of a run; others wait, and find what it did in the log.
- What a person answered first stands, whether in the framework's way or in the inbox.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.guard.guarded_tools import Guard as Guard, guard as guard
