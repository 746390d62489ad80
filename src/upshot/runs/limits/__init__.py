"""Limits that runs and processes share: rate limits of providers, and quotas set by the caller.

- ``lane``: the known limits of a provider for one key and model, and which request may go. Pure.
- ``pacer``: the queue in which the model calls of a process wait for a lane.
- ``quotas``: reserves from the caller's caps, and replaces reservations by real usage.
- ``held_call``: the tries of one model call, each with its reservation and its place in the queue.

A lane is one value that all processes change by ``SharedJournal.change_values``. Each change takes
back what was returned and grants to those that wait, so no transaction is open while a request
waits or is sent. A granted request counts as under way until its result is reported. A killed
process reports nothing: its share lapses after a minute, and the windows refill over time.
"""
