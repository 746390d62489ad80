"""What vouches for the values of a call when untrusted content is in the context.

``saying`` reads what the user wrote: words, addresses, numbers, days and times. ``facts`` are what
is known when a call is judged, and ``judgement`` finds what is in doubt about it. All are pure.
``call_judge`` keeps the facts for a Toolbox: what the user said, and the results of its calls. The
gate ``taint`` asks it, and it learns from settled calls.

Invariant: no stored verdict is believed. A resumed run rebuilds its facts from the calls in its
log, in order.
"""
