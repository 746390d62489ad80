"""Limits that many runs and processes share: those of a provider, and quotas of the caller.

- ``lane``: what is known of a provider's limits on one key and model, and who may send when. Pure.
- ``pacer``: the line in which the model calls of a process wait for a lane.
- ``quotas``: what is reserved of the caller's caps, and what is put in its place.
- ``held_call``: the tries of one model call, each with what is reserved for it and its place.

A lane is one value that all processes change by ``SharedJournal.change_values``; a change takes
what came back and gives to those that wait, so no transaction is open while anybody waits or sends.
What a request was given counts as under way until it comes back. A process that is killed brings
nothing back: its share lapses after a minute, and the windows fill again by themselves.
"""
