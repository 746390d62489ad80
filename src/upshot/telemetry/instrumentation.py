"""``instrument()``: telemetry of every run in the process, until it is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from upshot.errors import Misuse, need_of_extra
from upshot.journal.work_listeners import listen_to_effects
from upshot.runs.plan import Plan
from upshot.runs.recorder import Listener, listen

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from upshot.telemetry.metrics import Instruments

_active: list[Instrumentation] = []


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    prefix: str = "flatagents",
    content: bool = False,
) -> Instrumentation:
    """Create OpenTelemetry spans and metrics of every run that starts from now on.

    A second call for the same providers returns the same instrumentation, so that nothing is
    counted twice.

    Args:
        tracer_provider: Where spans go; None is the global provider, which is never set here.
        meter_provider: Where metrics go; None is the global provider.
        prefix: The prefix of the names of the twelve metrics.
        content: Whether to record requests, replies, and arguments and results of tools, with the
            secrets of the run masked.

    Returns:
        The instrumentation; ``close()``, or leaving it as a context manager, ends it.

    Raises:
        Misuse: OpenTelemetry is not installed, the prefix is empty, or the same providers are
            already instrumented with another prefix or choice of *content*.
    """
    try:
        from upshot.telemetry.metrics import Instruments
    except ImportError as error:
        raise Misuse(need_of_extra("telemetry", "otel")) from error
    if not prefix:
        raise Misuse('prefix is empty: give a word such as "flatagents"')
    target = _target_of(tracer_provider, meter_provider)
    for known in _active:
        if _target_of(known.tracer_provider, known.meter_provider) == target:
            if (known.prefix, known.content) != (prefix, content):
                raise Misuse(
                    f"runs are already instrumented with prefix={known.prefix!r} and "
                    f"content={known.content}: close that instrumentation first"
                )
            return known
    meters = Instruments(meter_provider, prefix)
    return Instrumentation(tracer_provider, meter_provider, prefix, meters, content=content)


class Instrumentation:
    """Telemetry that is on until ``close()``; created by ``instrument``.

    Attributes:
        tracer_provider: Where spans go; None is the global provider.
        meter_provider: Where metrics go; None is the global provider.
        prefix: The prefix of the names of the twelve metrics.
        content: Whether texts are recorded.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        prefix: str,
        meters: Instruments,
        *,
        content: bool,
    ) -> None:
        from opentelemetry import trace

        self.tracer_provider = tracer_provider
        self.meter_provider = meter_provider
        self.prefix = prefix
        self.content = content
        self._meters = meters
        self._tracer = trace.get_tracer("upshot", tracer_provider=tracer_provider)
        self._end: Callable[[], None] | None = listen(self._listener)
        self._end_effects = listen_to_effects(meters)
        _active.append(self)

    def close(self) -> None:
        """End it; a session in progress is still recorded to its end. May be called repeatedly."""
        end, self._end = self._end, None
        if end is not None:
            end()
            self._end_effects()
            _active.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _listener(self, plan: Plan) -> Listener:
        from upshot.telemetry.attributes import Content
        from upshot.telemetry.spans import SessionTelemetry

        content = Content(plan.secrets) if self.content else None
        return SessionTelemetry(plan, self._tracer, self._meters, content).process


def _target_of(
    tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None
) -> tuple[int, int]:
    """Return the identity of the providers in use; the global ones may be set later."""
    from opentelemetry import metrics, trace

    tracers = tracer_provider or trace.get_tracer_provider()
    return id(tracers), id(meter_provider or metrics.get_meter_provider())
