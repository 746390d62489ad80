"""What the log of a run means.

`run_state` holds the one fold: `RunState.add(event)` says what each event does, and nothing else
in upshot walks events to find out what happened. Resuming, the result, `upshot show`, replay,
telemetry and the list of runs read a state. `board` has the channels and variables that an engine
works on, and is part of the state. `child_runs` has what a log says of child runs, `summary` what
an event changes in the list of runs. `activity` makes rows of the steps for people, and `run_view`
all that the page of a run shows. `request_digests` makes the digests of what models are asked, by
which a replay is compared.

`stored_events` is the form in which events are logged. A fact stands in a log once: what earlier
events say already is left out when an event is stored (`to_stored`) and put back when it is read
(`filled`). Both ask the state before the event, and a field is left out only if what will be
derived equals it, so no value can be lost; `literal` names the few that look as if they had been
left out and were not. Messages on the board are stored as `refs` to the events whose reply or
outcome they are. `run_settled` holds what cannot be folded; `result_of` makes the whole result of
a state.

The life of an event: a part of the run makes it whole -> the recorder stamps it -> `to_stored`
makes the lean form, secrets are replaced by marks, the journal appends it -> the whole event is
folded into the live state -> subscribers are told. Reading: the journal gives the lean event ->
marks become secrets again if the reader has them -> `filled` makes it whole -> it is folded.

Invariants: this package imports only the contract; it reads no clock and does no I/O. A live
state and the state read from its log are equal. The board of a live state is the engine's own, so
a change that was made there is not applied a second time (`is_live`). Records stand in the order
of the calls of their reply, however they settle.

Traps: a log must be read from its first event; `journal.events(after=)` gives events that name
earlier ones. Providers use call ids again, so a call is found by its id in the *latest* reply
only.
"""
