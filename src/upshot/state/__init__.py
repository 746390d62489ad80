"""What the log of a run means.

`run_state` has the one fold: `RunState.add(event)` says what each event does, and nothing else in
upshot walks events to find out what happened. Resuming, the result, `upshot show`, replay,
telemetry and the list of runs read a state. `board` has the channels and variables that an engine
works on, and is part of the state. `child_runs` reads what a log says of child runs, `summary` says
what an event changes in the list of runs. `activity` makes rows of the steps for people, and
`run_view` everything that the page of a run shows; `cause` is the sentence that says why it ended
so, and `spending` the one that says which steps cost most. `request_digests` makes digests of
model requests, which replays compare.

`stored_events` is the form in which events are logged. A fact is in a log once: what earlier events
already say is left out when an event is stored (`to_stored`) and derived when it is read
(`filled`). Both use the state before the event, and a field is left out only if the derived value
equals it, so no value can be lost. `literal` names the few fields that look as if they had been
left out and were not. Messages on the board are stored as `refs` to the events of their reply or
outcome. `run_settled` contains what cannot be folded; `result_of` builds the whole result from a
state.

The life of an event: a part of the run creates it -> the recorder stamps it -> `to_stored` makes
the lean form, secrets are replaced by marks, the journal appends it -> the whole event is folded
into the live state -> subscribers are notified. Reading: the journal returns the lean event ->
marks become secrets again if the reader has them -> `filled` makes it whole -> it is folded.

Invariants: this package imports only the contract; it reads no clock and does no I/O. A live state
and the state read from its log are equal. The board of a live state is the engine's own, so a
change made there is not applied a second time (`is_live`). Records are in the order of the calls
in their reply, however they settle.

Traps: read a log from its first event; `journal.events(after=)` returns events that refer to
earlier ones. Providers reuse call ids, so a call is found by its id in the *latest* reply only.
"""
