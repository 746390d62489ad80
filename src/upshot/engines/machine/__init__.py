"""The machine engine: a state machine read from YAML or JSON, and how it is run.

Parts, from the text to the run:

- ``document``: a YAML text or plain data as pieces that know their file, line and column, and
  the faults at these places.
- ``machine_schema``: the published JSON Schema, which is the only description of the form, and
  the faults of a document that breaks it.
- ``cel`` and ``expressions``: conditions and values in the Common Expression Language, parsed
  once, with a limit to what they may cost.
- ``loader``: from files, texts and data to a Machine; names of states, ways that lead nowhere,
  and machines that name the files of others.
- ``machine``: Machine, State, Task, Transition, and the chart.
- ``resolver``: finds the agents and functions that a machine names, and calls them.
- ``machine_hooks``: the user's hooks, and the context that they may change.
- ``state_outcome``: what came of a state, as a value that the log keeps.
- ``machine_engine``: MachineEngine, and MachineWalk: one walk through one machine, with everything
  that a state does.

A visit of a state is one step of the log. Its value is what changed in the context, what came of
the work, and where the machine goes on. A resumed run walks from the start, takes finished visits
from the log, and does not enter those states again; members of a ``parallel`` and items of a
``foreach`` are steps of their own inside.

Invariants:

- All faults of a text are reported at once. A value of the wrong form is removed from the
  document, and the rest is read as if it were not there.
- An expression gets only what it names of the context, so its cost does not grow with the rest.
- A failure leaves a state by ``on_error`` or by a condition that looks at the result, and by no
  other way: a transition that is meant for success would hide it.

Traps:

- A hook gets the context itself and may change it deep inside, so it is compared with what it
  was before. Without hooks nothing is compared, because that takes a copy of all of it.
- A state that does nothing passes on the outcome of the one before; the log marks that with
  ``same`` and does not keep it twice.
- The CEL library counts the bytes of a text and knows no limit: see ``cel``.
"""
