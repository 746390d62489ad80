"""Conversions between the contract's values and the formats of other programs.

- ``flat_form``: the flat contract dict, a mapping with nine keys. ``to_contract`` writes it,
  ``from_contract`` reads it, ``ResultView`` is such a dict with the result's attributes.
- ``execution_form``: the execution result, a JSON view for user interfaces.
- ``public_form``: events in a form that is safe to show to strangers.
- ``a2a_form``: tasks, messages, artifacts and agent cards of the A2A protocol.

On the way out, a result goes through ``to_contract``, ``to_execution_result`` or ``to_a2a``; each
returns a new object of plain JSON. On the way in, ``from_contract``, ``decode_execution_result``
and ``from_a2a`` raise ``Misuse`` for another form. ``coerce_result`` (``upshot.native.returned``)
never raises: it tries the known forms, and a value that fits none becomes the output of a completed
run.

Invariants:

- An unknown fact is missing, never null or 0.
- A format loses only what it has no field for. ``to_a2a`` puts such facts under
  ``metadata["upshot"]``, except the ones that must not leave the process: thoughts, tool records,
  raw provider data. So ``from_a2a(to_a2a(result), AgentResult)`` equals the result except for
  these.
- Money is exact inside; it becomes a float only in these formats.

Traps: a mapping with the right keys may be the user's own data, so ``coerce_result`` returns it as
the output if its values do not fit; the status of a flat dict follows from its error alone; and
messages of an execution result up to the first answer are the seeded ones.
"""
