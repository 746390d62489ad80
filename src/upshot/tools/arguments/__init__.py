"""From the arguments that a model wrote to valid JSON.

Each tool has one ``argument_check.ArgumentCheck``. It parses the text, uses ``coercion`` to fix
values with only one possible reading ("5" for 5, a value for a list of one), validates against the
schema, collecting all faults, and fills in defaults. It returns ``Checked`` (with the list of
coercions) or ``Refused`` (the faults as text for the model, and a hint). Nothing here raises on
what a model wrote.

``schema_faults`` puts a validator's faults into sentences with JSON paths.

Invariant: nothing is guessed. A value with two readings, or one that looks like a broken list, is
refused, and so is a number that JSON cannot represent. Every change is in the call's record.
"""
