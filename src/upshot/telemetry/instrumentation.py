"""Instrumentation: telemetry of every run in the process, until it is closed."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..errors import Misuse
from ..runs import Listener, Plan, listen

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

    from .meters import Meters
    from .words import Content

__all__ = ["Instrumentation", "instrument"]

_active: list[Instrumentation] = []


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    prefix: str = "flatagents",
    content: bool = False,
) -> Instrumentation:
    """Have every run that begins from now on make OpenTelemetry spans and metrics.

    Asked again for the same providers and prefix it gives the same instrumentation, so that
    nothing is counted twice.

    Args:
        tracer_provider: Where spans go; None is the global provider, which is never set here.
        meter_provider: Where metrics go; None is the global provider.
        prefix: What the names of the twelve metrics begin with.
        content: Whether requests, replies, arguments and results of tools are recorded; the
            secrets of a run are masked in them.

    Returns:
        What ends it, by ``close()`` or as a context manager.

    Raises:
        Misuse: OpenTelemetry is not installed, the prefix is empty, or the same providers are
            instrumented already with another choice of *content*.
    """
    try:
        from .meters import Meters
    except ImportError as error:
        raise Misuse("telemetry needs the extra: pip install 'upshot[otel]'") from error
    if not prefix:
        raise Misuse('prefix is empty: give a word such as "flatagents"')
    asked = Instrumentation(tracer_provider, meter_provider, prefix, content=content)
    for known in _active:
        if known.target == asked.target:
            if known.content != content:
                raise Misuse(
                    f"runs are instrumented already with content={known.content}: close that first"
                )
            return known
    asked.open(Meters(meter_provider, prefix))
    return asked


class Instrumentation:
    """Telemetry that is on until ``close()``; made by ``instrument``.

    Attributes:
        prefix: What the names of the twelve metrics begin with.
        content: Whether texts are recorded.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        prefix: str,
        *,
        content: bool,
    ) -> None:
        self.prefix = prefix
        self.content = content
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._meters: Meters | None = None
        self._tracer: Tracer | None = None
        self._end: Callable[[], None] | None = None

    @property
    def target(self) -> tuple[int, int, str]:
        """Where it all goes; the global providers may be set later than this was asked for."""
        from opentelemetry import metrics, trace

        tracers = self._tracer_provider or trace.get_tracer_provider()
        meters = self._meter_provider or metrics.get_meter_provider()
        return id(tracers), id(meters), self.prefix

    def open(self, meters: Meters) -> None:
        """Begin with the next run."""
        from opentelemetry import trace

        if self._end is None:
            self._meters = meters
            self._tracer = trace.get_tracer("upshot", tracer_provider=self._tracer_provider)
            self._end = listen(self._listener)
            _active.append(self)

    def close(self) -> None:
        """End it; runs under way are still recorded to their end. May be called again."""
        end, self._end = self._end, None
        if end is not None:
            end()
            _active.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _listener(self, plan: Plan) -> Listener | None:
        from .sitting import SittingTelemetry

        if self._meters is None or self._tracer is None:
            return None
        return SittingTelemetry(plan, self._tracer, self._meters, self._content_of(plan)).take

    def _content_of(self, plan: Plan) -> Content | None:
        from .words import Content

        return Content(plan.secrets) if self.content else None
