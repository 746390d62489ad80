"""Gates: the checks that a tool call passes before it runs.

A gate is one check of a call, with a name and ``check(call)``. It returns None (the call passes),
``Pass`` (it passes, with a note for the trace), ``Denial``, ``Park`` (the user is asked),
``Follow`` (an equal call is parked already), ``Repeat`` (the call gets the outcome of an equal one)
or ``Rewind`` (the arguments were changed: ask again from an earlier gate), directly or as an
awaitable. It has no side effects, because a later gate may still deny.

``standard_gates`` has the gates and their order: cancelled, deadline, budget, known_tool, policy,
blocked, rate, arguments, earlier_turns, conditions, blocked_key, replay, effect, progress, taint,
the user's hook, approval, deadline_again. Approval and the hook have a module of their own,
``approval_gate``. Gates that the user adds are asked just before approval. A function of the
standard gates may choose any order.

``pipeline`` asks them. Each tool has its GatePipeline, which leaves out the standard gates that can
never matter for it: rate without a limit, replay if the tool is not idempotent, policy if no rule
concerns it. Pipelines without the user's own options are shared by all runs.

Invariants:

- The first gate that denies decides, and only a GatePipeline denies.
- A gate that raises denies, with code ``internal``; so do a hook and an approver that raise.
- The gates on limits are asked again when a call is counted, and those on time and cancellation
  before its body starts, even if the user's choice of gates omits them.

Trap: gates of several calls interleave. Between ``check`` and the count, earlier calls of the reply
were counted; while a gate waits, anything may happen.
"""
