"""The metrics of agents and effects, and the metrics of the conventions for generative AI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opentelemetry import metrics

from upshot.contract.base.enums import Resource, Status
from upshot.contract.effects import EffectEntry
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelResponse
from upshot.contract.usage import RateLimitState, Usage
from upshot.telemetry.attributes import Attributes, Source

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

_COUNTS = {
    "input_tokens": "Input tokens.",
    "output_tokens": "Output tokens.",
    "cache_read_tokens": "Cache read tokens.",
    "cache_write_tokens": "Cache write tokens.",
}
# The boundaries that the conventions recommend.
_TOKENS = [4**power for power in range(14)]
_SECONDS = [round(0.01 * 2**power, 2) for power in range(14)]


class Instruments:
    """The instruments, which record what runs use; unknown counts are not recorded."""

    def __init__(self, provider: MeterProvider | None, prefix: str) -> None:
        meter = metrics.get_meter("upshot", meter_provider=provider)
        agent = f"{prefix}.agent"
        self._doubtful = set[str]()
        self._counts = {
            name: meter.create_counter(f"{agent}.{name}", "{token}", text)
            for name, text in _COUNTS.items()
        }
        self._tokens = meter.create_counter(f"{agent}.tokens", "{token}", "All tokens.")
        self._cost = meter.create_counter(
            f"{agent}.cost", "USD", "Money for model calls, where their price is known."
        )
        self._executions = meter.create_counter(
            f"{agent}.executions", "{execution}", "Runs, by status."
        )
        self._duration = meter.create_histogram(f"{agent}.duration", "ms", "Time of a run.")
        self._windows = {
            name: meter.create_gauge(f"{prefix}.ratelimit.{name}", description=text.format(noun))
            for noun in ("requests", "tokens")
            for name, text in (
                (f"remaining_{noun}", "What is left of the {}."),
                (f"limit_{noun}", "How many {} a window allows."),
            )
        }
        self._unknown = meter.create_gauge(
            "upshot.effects.unknown",
            "{effect}",
            "Effects that may have happened, and that nobody has settled.",
        )
        self._settlements = meter.create_counter(
            "upshot.effects.settlements", "{effect}", "Unknown effects that became known."
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a model call.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._operation = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Time of a model call.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def unknown(self, counts: Mapping[str, int], /) -> None:
        """See ``LedgerListener.unknown``."""
        # Set tools without unknown effects to 0; otherwise the gauge keeps its last value.
        self._doubtful.update(counts)
        for name in self._doubtful:
            self._unknown.set(counts.get(name, 0), {"tool": name})

    def settled(self, entry: EffectEntry, /) -> None:
        """See ``LedgerListener.settled``."""
        by = "" if entry.settled is None else entry.settled.by
        way = by if by == "verify" else "webhook" if by.startswith("webhook:") else "person"
        labels: Attributes = {"tool": entry.name, "effect": entry.state, "way": way}
        self._settlements.add(1, labels)

    def reply(self, response: ModelResponse, source: Source, *, agent_id: str) -> None:
        """Record what a model call used."""
        labels: Attributes = {"agent_id": agent_id, **source.labels()}
        self._note_usage(response.usage, source, labels)
        cost = response.cost
        if cost is not None and cost.total is not None and cost.currency == "USD":
            self._cost.add(float(cost), labels)
        if response.rate_limit is not None:
            self._note_windows(response.rate_limit, source.labels())

    def operation(self, source: Source, *, took_s: float, error_type: str) -> None:
        """Record how long a model call took; *error_type* is "" for an answer."""
        attributes: Attributes = {"gen_ai.operation.name": "chat", **source.conventional()}
        if error_type:
            attributes["error.type"] = error_type
        self._operation.record(took_s, attributes)

    def execution(
        self,
        status: Status,
        error: AgentError | None,
        source: Source,
        *,
        agent_id: str,
        took_ms: float,
    ) -> None:
        """Record the end of a session: the run ended or was parked."""
        attributes: Attributes = {"agent_id": agent_id, "status": str(status), **source.labels()}
        if error is not None:
            attributes["error_code"] = str(error.code)
        self._executions.add(1, attributes)
        self._duration.record(took_ms, attributes)

    def _note_usage(self, usage: Usage, source: Source, labels: Attributes) -> None:
        for name, counter in self._counts.items():
            count: int | None = getattr(usage, name)
            if count is not None:
                counter.add(count, labels)
        if usage.total_tokens is not None:
            self._tokens.add(usage.total_tokens, labels)
        attributes: Attributes = {"gen_ai.operation.name": "chat", **source.conventional()}
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count is not None:
                self._usage.record(count, {**attributes, "gen_ai.token.type": kind})

    def _note_windows(self, state: RateLimitState, labels: Attributes) -> None:
        for window in state.windows:
            noun = "requests" if window.resource == Resource.REQUESTS else "tokens"
            if noun not in window.resource:
                # Some providers limit images, which have no instrument here.
                continue
            attributes: Attributes = {
                **labels,
                "window": window.name,
                "resource": str(window.resource),
            }
            for name, figure in (("remaining", window.remaining), ("limit", window.limit)):
                if figure is not None:
                    self._windows[f"{name}_{noun}"].set(figure, attributes)
