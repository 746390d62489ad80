"""Effects that are made once, by any function: a task of a queue, a route, a tool of a framework.

:class:`Ledger` puts plain and async functions on the rows that runs use too: the ledger of a
journal, where an effect has an identity, a state and a history. A run gets there through the tool
layer, which asks the ledger before a body and tells it after; a function gets there through
``Ledger``, which is a thin caller of that same tool layer.

The life of a call:

1. ``Ledger.once`` names the arguments that identify the effect. A call makes a key of them.
2. The call is dispatched through a ``Toolbox`` whose log stands in the journal. Its claim is
   written with ``tool_started``; whoever has the key already is found there.
3. With the claim, the function runs where the caller is: in its thread, its task, its event loop.
   The journal lives in a thread of its own, so that any thread may call.
4. What the function returned or raised settles the effect: applied, none, or unknown. It is on
   disk before the caller gets it.

Traps. A journal in memory belongs to its process. A file that was open when a process was forked
cannot be used in the child: fork before the first call. A function that raises has an unknown
effect, unless the exception proves that nothing was sent, or it raises ``NotDone``.
"""
