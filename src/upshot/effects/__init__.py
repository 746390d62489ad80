"""Effects made only once, by any function: a queue's task, a route, a framework's tool.

:class:`Ledger` gives plain and async functions the ledger that runs use: the rows of a journal
where an effect has an identity, a state and a history. A run reaches it through the tool layer,
which asks the ledger before a body runs and reports to it afterwards. A function reaches it through
``Ledger``, a thin caller of that same tool layer.

The life of a call:

1. ``Ledger.once`` names the arguments that identify the effect. A call makes a key of them.
2. The call is dispatched through a ``Toolbox`` with a log in the journal. Its claim is written with
   ``tool_started``; an earlier call with the same key is found there.
3. With the claim, the function runs where the caller is: in its thread, its task, its event loop.
   The journal lives in a separate thread, so any thread may call.
4. What the function returned or raised settles the effect: applied, none, or unknown. This is on
   disk before the caller gets it.

Traps. A journal in memory belongs to its process. A file that was open when a process was forked
cannot be used in the child: fork before the first call. A function that raises has an unknown
effect, unless the exception proves that nothing was sent, or it raises ``NotDone``.
"""
