"""OpenTelemetry spans and metrics of runs, created from their events.

``instrument()`` subscribes to every run that starts from then on, until the ``Instrumentation``
that it returns is closed. OpenTelemetry is imported by that call, not by this package.

- ``instrumentation``: switches telemetry on and off; one instrumentation per pair of providers.
- ``spans``: ``SessionTelemetry`` follows one session and creates its spans.
- ``metrics``: the instruments: twelve metrics of agents and rate limits, under a prefix, and the
  two that the semantic conventions for generative AI define.
- ``attributes``: the names and values of attributes, and texts with secrets masked.

The life of a span: an event that starts something (``RunStarted``, ``ModelStarted``,
``ToolStarted``) opens a span with the event's time and makes it the current span of the task that
emitted the event, so that an HTTP request or a child run nests in it. The event that ends it closes
the span and restores the context. ``RunSettled`` closes what is still open.

Invariants:

- Times are the times of the events, not of the moment when a span is created.
- An unknown count is not recorded, not even as 0.
- Texts of users, models and tools are recorded only with ``content=True``, and with the secrets of
  the run masked. Without it, the status of a span is an error code, never a message.
- A run that the user cancelled, or that is parked, is not an error.

Traps: no event says that a retry starts, so its span starts at the end of the wait; a denied call
has no span, only an event on the run's span; and a session that resumes a run has a separate span.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.telemetry.instrumentation import (
        Instrumentation as Instrumentation,
        instrument as instrument,
    )
