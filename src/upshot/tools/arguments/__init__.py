"""From the arguments that a model wrote to valid JSON.

``argument_check.ArgumentCheck`` is made once for a tool: it parses the text, lets ``coercion``
mend what has only one reading ("5" for 5, a value for a list of one), validates against the schema
with all faults at once, and fills in defaults. It gives ``Checked`` (with the list of coercions)
or ``Refused`` (the faults as text for the model, and a hint). Nothing here raises on a model's
words.

``schema_faults`` puts a validator's faults into sentences with JSON paths.

What always holds: nothing is guessed. What has two readings, or looks like a list that went wrong,
is refused; so is a number that JSON cannot hold. Every change is on the call's record.
"""
