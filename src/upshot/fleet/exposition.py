"""Metrics in Prometheus's text format: what this process did, and what the journal has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Info, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from upshot.contract.model_calls import name_of
from upshot.fleet.status import Facts, Status
from upshot.fleet.worker import Worker
from upshot.journal.run_counts import AGES, OpenWork
from upshot.journal.sql.health import JournalHealth
from upshot.telemetry.prometheus import Names, ProcessMetrics
from upshot.version import __version__


class Exposition(Collector):
    """The metrics of a process; counts from its creation until ``close``.

    Args:
        status: The process and its journal.
    """

    def __init__(self, status: Status) -> None:
        self._status = status
        self._facts = Facts()
        self._schedules = Names()
        self._registry = CollectorRegistry()
        self._counts = ProcessMetrics(self._registry)
        app_version = ""
        if status.app is not None:
            app_version = status.app.version
            models = [one.model for one in status.app.agents.values() if one.model is not None]
            names = [one if isinstance(one, str) else name_of(one) for one in models]
            self._counts.expect(status.app.agents, names)
        about = {"version": __version__, "app_version": Names().clean(app_version)}
        Info("upshot_process", "The code of this process.", registry=self._registry).info(about)
        self._registry.register(self)

    def close(self) -> None:
        """Count nothing more."""
        self._counts.close()

    def to_text(self, facts: Facts) -> bytes:
        """Return the metrics, with what was read from the journal."""
        self._facts = facts
        return generate_latest(_Current(self._registry))

    def collect(self) -> Iterable[Metric]:
        """Return the gauges of this process, and those of the journal if it can be used."""
        status = self._status
        facts = self._facts
        # A server whose worker is drained still serves requests.
        is_draining = status.is_draining() or bool(status.worker and status.worker.is_draining)
        yield _gauge("draining", "Whether this process takes no more runs.", is_draining)
        yield _gauge("journal_up", "Whether the journal can be used.", not facts.problem)
        if status.worker is not None:
            yield from _of_worker(status.worker)
        if facts.health is not None:
            yield from _of_health(facts.health)
        if facts.work is not None:
            yield from _of_work(facts.work)
        missed = {self._schedules.clean(one.name): one.missed for one in facts.schedules}
        text = "Moments without a run since the last one."
        yield _gauges("journal_schedule_missed", text, "schedule", missed)


class _Current(Collector):
    """The metrics of a registry without the times at which their series began."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; twice as many series would say nothing more."""
        for metric in self._registry.collect():
            metric.samples = [one for one in metric.samples if not one.name.endswith("_created")]
            yield metric


def _of_worker(worker: Worker) -> Iterable[Metric]:
    yield _gauge("worker_runs", "Runs that this process works on.", worker.at_work_count)
    yield _gauge("worker_concurrency", "How many it works on at most.", worker.concurrency)
    yield _gauge("worker_refused_runs", "Runs that it cannot work on.", len(worker.refused))


def _of_health(health: JournalHealth) -> Iterable[Metric]:
    runs = {"due": health.due, "held": health.held, "died": health.died}
    yield _gauges("journal_runs", "Runs that are due, are worked on, or died.", "state", runs)
    yield _gauge(
        "journal_oldest_due_seconds",
        "How long the oldest due run has waited.",
        health.oldest_due_s,
    )
    yield _gauge("journal_processes", "Processes that work on runs.", health.processes)
    yield _gauge("journal_schema_version", "The version of the tables.", health.schema)
    ahead = "How far the database's clock is ahead of this machine's."
    yield _gauge("journal_clock_ahead_seconds", ahead, health.clock_ahead_s)
    if health.standby:
        text = "Whether a commit waits for a standby."
        yield _gauge("journal_synchronous_standby", text, health.standby == "synchronous")
    if health.disk_free_bytes is not None:
        text = "Free space where the journal's file is."
        yield _gauge("journal_disk_free_bytes", text, health.disk_free_bytes)


def _of_work(work: OpenWork) -> Iterable[Metric]:
    open_runs = {"queued": work.queued, "running": work.running}
    yield _gauges("journal_open_runs", "Runs that have not ended.", "state", open_runs)
    ages = {f"{least.total_seconds():g}": n for least, n in zip(AGES, work.waiting, strict=True)}
    text = "Items of the inbox that wait for at least so many seconds."
    yield _gauges("journal_inbox_items", text, "older_than", ages)
    states = {"begun": work.begun, "unknown": work.unknown}
    yield _gauges("journal_effects", "Effects that are not known to be done.", "state", states)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"upshot_{name}", text, value=float(value))


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"upshot_{name}", text, labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family
