"""Shared by the tests of telemetry: the output of an instrumentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from upshot.telemetry import instrument

Point = tuple[Any, dict[str, Any]]


class Sight:
    """Providers whose spans and metrics stay in memory."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    @contextmanager
    def instrumented(self, **options: Any) -> Iterator[Sight]:
        """Instrument with these providers for the duration of the block."""
        with instrument(tracer_provider=self.tracers, meter_provider=self.meters, **options):
            yield self

    def spans(self, prefix: str = "") -> list[ReadableSpan]:
        """Return ended spans whose name starts with *prefix*, in the order of their start."""
        found = [span for span in self._spans.get_finished_spans() if span.name.startswith(prefix)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def span(self, prefix: str) -> ReadableSpan:
        """Return the one span whose name starts with *prefix*."""
        (found,) = self.spans(prefix)
        return found

    def points(self, metric: str) -> list[Point]:
        """Return value (for a histogram: sum) and attributes of every series of *metric*."""
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            (getattr(point, "value", getattr(point, "sum", None)), dict(point.attributes or {}))
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]

    def total(self, metric: str) -> Any:
        """Return the sum over all series; None if nothing was recorded."""
        values = [value for value, _ in self.points(metric)]
        return sum(values) if values else None

    def names(self) -> set[str]:
        """Return the names of all recorded metrics."""
        data = self._reader.get_metrics_data()
        return {
            metric.name
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def is_inside(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    """Whether *outer* is the parent of *inner*."""
    assert outer.context is not None
    return inner.parent is not None and inner.parent.span_id == outer.context.span_id
