"""What is asked before a tool call runs.

A gate is one question about a call, with a name and ``check(call)``. It answers with None (the
call passes), ``Denial``, ``Park`` (the user is asked), ``Follow`` (an equal call is parked
already) or ``Rewind`` (the arguments were changed: ask again from an earlier gate), at once or as
an awaitable. It has no side effects, because a later gate may still deny.

``standard_gates`` holds the gates and their order: cancelled, deadline, budget, known_tool,
policy, blocked, rate, arguments, blocked_key, replay, progress, taint, the user's hook, approval,
deadline_again. Approval and the hook have a module of their own, ``approval_gate``. Gates of the
user are asked just before approval; a function of the standard ones may choose any order.

``pipeline`` asks them. A GatePipeline is made for each tool and leaves out the standard gates that
can never concern it: rate without a limit, replay for a tool that is not idempotent, policy
without a rule on it. Pipelines without options of the user are shared by all runs.

What always holds:

- The first gate that denies decides, and nothing but a GatePipeline denies.
- A gate that raises denies, with code ``internal``; so do a hook and an approver that raise.
- The gates on limits are asked again when a call is counted, and those on time and cancellation
  before its body starts, even where the user's choice of gates leaves them out.

The trap: gates of several calls interleave. Between ``check`` and the count, calls before it in the
reply were counted; while a gate waits, anything may have happened.
"""
