"""A scrape of /metrics, as a monitor has it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from upshot import Agent, App, Cost, ModelResponse, ScriptedModel, ToolCall, Usage, tool
from upshot.fleet.status import Status
from upshot.fleet.worker import Worker

__all__ = ["Scrape", "desk", "full_scrape"]


class Scrape(NamedTuple):
    """The series of a scrape: names with values by labels.

    Attributes:
        families: The names of all metrics, with and without series.
        series: The values, by name and labels.
    """

    families: set[str]
    series: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    @classmethod
    def of(cls, text: bytes) -> Scrape:
        families, series = set[str](), dict[Any, float]()
        for metric in text_string_to_metric_families(text.decode()):
            # A counter without labels that were used has no series yet.
            families |= (
                {metric.name, f"{metric.name}_total"} if metric.type == "counter" else {metric.name}
            )
            for sample in metric.samples:
                families.add(sample.name)
                series[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
        return cls(families, series)

    def value(self, name: str, **labels: str) -> float | None:
        return self.series.get((f"upshot_{name}", tuple(sorted(labels.items()))))

    def labels_of(self, name: str) -> set[str]:
        return {label for found, pairs in self.series if found == name for label, _ in pairs}


@tool(effect="write")
def send() -> str:
    """Send."""
    return "sent"


@tool(effect="write", approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def desk(journal: Any, replies: Iterable[Any] = (), **options: Any) -> App:
    """An App with one agent, whose model plays *replies*."""
    model = ScriptedModel([*replies], name="openai:gpt-5")
    return App(
        [Agent("desk", model=model, tools=[send, pay])], journal=journal, version="1", **options
    )


async def full_scrape(journal: Any) -> Scrape:
    """Scrape a process in which everything that is counted has happened at least once."""
    answer = ModelResponse(
        content="Done.",
        usage=Usage(input_tokens=7, output_tokens=5),
        cost=Cost(output=Decimal("0.25"), total=Decimal("0.25")),
        provider_data={"paced_ms": 1500},
    )
    replies = [ToolCall("s", "send"), answer, ToolCall("p", "pay")]
    async with desk(journal, replies) as app:
        app.schedule("nightly", "desk", "Report.", cron="0 3 * * *")
        with Status(app.open, app, worker=Worker(app)) as status:
            for _ in range(2):
                run = await app.submit("desk", "?")
                await app.activate(run.id)
            text = await status.metrics()
    assert text is not None
    return Scrape.of(text)
