"""What vouches for the values of a call when untrusted content is in the context.

``saying`` reads what the user wrote: words, addresses, numbers, days and times. ``judgement`` finds
what is in doubt about a call. Both are pure. ``call_judge`` keeps their facts for a Toolbox: what
the user said, and the results of its calls. The gate ``taint`` asks it, and it learns from settled
calls.

Invariant: no stored verdict is believed. A resumed run rebuilds its facts from the calls in its
log, in order.
"""
