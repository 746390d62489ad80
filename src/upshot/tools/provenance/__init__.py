"""What vouches for the values of a call, once strangers' words are in the context.

``saying`` reads what the user wrote: words, addresses, numbers, days and hours. ``judgement`` says
what of a call is in doubt; both are pure. ``call_judge`` keeps their facts for a Toolbox: what the
user said, and what its calls gave. The gate ``taint`` asks it, and it learns from settled calls.

What always holds: no verdict is stored and believed. A run that goes on comes to its facts by the
same calls of its log, in order.
"""
