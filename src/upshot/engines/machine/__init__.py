"""The machine engine: a state machine read from YAML or JSON, and how it is run.

Parts, from the text to the run:

- ``document``: a YAML text or plain data as pieces that know their file, line and column, and
  the faults at these places.
- ``machine_schema``: the published JSON Schema, which is the only description of the form, and
  the faults of a document that violates it.
- ``expressions``: conditions and values in the Common Expression Language, parsed once, with a
  limit on what they may cost. CEL itself is in ``upshot.tools.definition.cel``.
- ``variables``: what expressions can read.
- ``loader``: from files, texts and data to a Machine; checks state names, transitions that lead
  nowhere, and machines that name other files.
- ``machine``: Machine, State, Task, Transition, and the chart.
- ``resolver``: finds the agents and functions that a machine names, and calls them.
- ``machine_hooks``: the user's hooks, and the context that they may change.
- ``state_outcome``: the outcome of a state, as a value for the log.
- ``machine_engine``: MachineEngine, and MachineWalk: one walk through one machine, with everything
  that a state does.

A visit of a state is one step in the log. Its value has the changes of the context, the outcome of
the work, and the next state. A resumed run walks from the start, reads finished visits from the
log, and does not enter those states again. Members of a ``parallel`` and items of a ``foreach`` are
steps of their own inside.

Invariants:

- All faults of a text are reported at once. A value of the wrong form is removed from the
  document, and the rest is read without it.
- An expression gets only the parts of the context that it names, so its cost does not grow with
  the rest.
- A failure leaves a state only by ``on_error`` or by a condition that reads the result; a
  transition that is meant for success would hide it.

Traps:

- A hook gets the context itself and may change it deep inside, so it is compared with a copy of
  its old value. Without hooks nothing is copied or compared.
- A state that does nothing passes on the outcome of the previous state; the log marks that with
  ``same`` and does not store it twice.
- The CEL library counts the bytes of a text and has no limit: see its module.
"""
