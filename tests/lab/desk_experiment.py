"""The help desk's 200 tickets, recorded with faults, and four agents tried on them.

    python -m tests.lab.desk_experiment record FOLDER
    python -m tests.lab.desk_experiment try FOLDER URL JOURNAL

``record`` works on tickets of ``examples/helpdesk``, twelve kinds, with the simulator as the model,
and leaves a dataset, and the scenario of the four agents for a simulator elsewhere.
``try`` runs the experiment, prints a line for each run that is done, and leaves a report.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshot import (
    Agent,
    Message,
    ModelRequest,
    ModelResponse,
    Request,
    Retry,
    Role,
    Status,
    Text,
    lab,
    open_journal,
    resolve,
    resume,
    run,
)
from upshot.sim import Simulator

sys.path.append(str(Path(__file__).parents[2] / "examples" / "helpdesk"))
import helpdesk
import shop
import tickets

INSTRUCTIONS: str = helpdesk.INSTRUCTIONS
EAGER = f"{INSTRUCTIONS} If a parcel is late, pay the money back at once."

# What goes wrong in the recorded runs, in turn; the last three go wrong in tools.
FAULTS: tuple[Any, ...] = (
    None,
    {"kind": "status", "status": 429, "retry_after_s": 0.01},
    {"kind": "status", "status": 503},
    {"kind": "cut"},
    {"kind": "malformed"},
    {"kind": "error"},
    {"kind": "reset"},
    {"kind": "page"},
    {"kind": "slow", "first_byte_ms": 2},
    "the notes cannot be read",
    "a change breaks after it was made",
    "there is no such order",
)


def all_tickets() -> list[tickets.Ticket]:
    """160 tickets of ten kinds, and 40 attacks of two."""
    attacks = [one for at, one in enumerate(tickets.attacks()) if at % 10 in (0, 7)]
    return [*itertools.islice(tickets.benign(), 160), *attacks]


def scenario(kinds: Sequence[str], *, with_faults: bool) -> dict[str, Any]:
    """What a model answers, by its kind and the number of the ticket."""
    models: dict[str, Any] = {}
    for number, ticket in enumerate(all_tickets()):
        fault = FAULTS[number % len(FAULTS)] if with_faults else None
        for kind in kinds:
            replies = [
                {"tool_calls": [{"name": name, "arguments": arguments}]}
                for name, arguments in calls_of(ticket, kind, number)
            ]
            if isinstance(fault, dict):
                replies[number % len(replies)]["faults"] = [fault]
            models[f"{kind}-{number}"] = [*replies, {"text": "Done what could be done."}]
    return {"models": models}


def calls_of(ticket: tickets.Ticket, kind: str, number: int) -> list[tickets.Call]:
    """What a model of some kind calls for a ticket; on an attack it first obeys the stranger."""
    looked, wanted = list(ticket.calls[:2]), [*ticket.obeyed, *ticket.calls[2:]]
    if kind == "eager" and ticket.words.startswith("Where is order"):
        wanted.append(("refund", {"order": looked[1][1]["order"], "amount": 20.0}))
    if kind == "renamed":
        wanted = [("pay_back" if name == "refund" else name, given) for name, given in wanted]
    if kind == "small" and is_forgotten(ticket, number):
        wanted = []
    return [*looked, *wanted]


def is_forgotten(ticket: tickets.Ticket, number: int) -> bool:
    """Whether the small model does nothing about a ticket: every fourth one."""
    return number % 4 == 1 and not ticket.obeyed


@dataclass(frozen=True)
class Faulty(shop.Shop):
    """The shop, in which something goes wrong."""

    fault: Any = None

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        if self.fault == FAULTS[9] and "FROM notes" in query:
            raise RuntimeError(self.fault)
        return super().rows(query, *values)

    def order(self, number: int) -> dict[str, Any]:
        if self.fault == FAULTS[11]:
            number = 0
        return super().order(number)

    def change(self, number: int, **values: object) -> dict[str, Any]:
        changed = super().change(number, **values)
        if self.fault == FAULTS[10]:
            raise RuntimeError(self.fault)
        return changed


class DeskModel:
    """Asks the simulator for the model that plays this ticket, by its prompt and its tools.

    Args:
        url: Of the simulator.
        kind: Which model it is, unless prompt or tools say otherwise.
    """

    def __init__(self, url: str, kind: str = "today") -> None:
        self.name = f"openai:{kind}"
        self._url = url
        self._kind = kind

    def _for(self, asked: Any) -> Any:
        request = ModelRequest.of(asked)
        kind = "eager" if "at once" in (request.system or "") else self._kind
        if all(tool.name != "refund" for tool in request.tools):
            kind = "renamed"
        found = re.search(r"\(ticket T(\d+)\)", request.messages[0].text)
        assert found is not None
        return resolve(f"openai:{kind}-{found[1]}", base_url=self._url, api_key="any")

    async def call(self, request: Any) -> ModelResponse:
        """Call the model once."""
        return await self._for(request).call(request)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Call the model once, in pieces."""
        async for item in self._for(request).stream(request):
            yield item


async def record(folder: Path) -> None:
    """Work on all tickets, and write what happened as a dataset."""
    async with (
        open_journal(folder / "desk.db") as journal,
        Simulator(scenario(["today"], with_faults=True)) as simulator,
    ):
        for number, ticket in enumerate(all_tickets()):
            await work_on(number, ticket, DeskModel(simulator.base_url), journal)
        dataset = await lab.Dataset.from_journal(journal, name="desk")
    dataset.write(folder / "desk.jsonl")
    kinds = ["today", "eager", "small", "renamed"]
    (folder / "scenario.json").write_text(json.dumps(scenario(kinds, with_faults=False)))


async def work_on(number: int, ticket: tickets.Ticket, model: DeskModel, journal: Any) -> None:
    """Work on a ticket; a person approves what is not in doubt."""
    opened = helpdesk.open_desk(ticket)
    desk = Faulty(opened.customer, opened.data, FAULTS[number % len(FAULTS)])
    options: Any = {
        **helpdesk.options_for(ticket, desk, journal),
        "model": model,
        "retry": Retry(base_s=0.001),
    }
    words = [Text(f"{ticket.words} (ticket T{number})")]
    if ticket.attached:
        words.append(Text(ticket.attached, trust="untrusted"))
    request = Request(Message(Role.USER, words), run_id=f"t{number:03}")
    result = await run(helpdesk.helpdesk, request, **options)
    while result.status is Status.INPUT_REQUIRED:
        answers = [
            asked.deny("in doubt") if asked.doubts else asked.approve() for asked in result.pending
        ]
        result = await resume(result.run_id, helpdesk.helpdesk, answers=answers, **options)
    assert result.success, result.error


def variants(url: str) -> dict[str, Agent[Any]]:
    """Today's agent, and three that someone wants to try."""
    today: Agent[Any] = helpdesk.helpdesk.but(model=DeskModel(url))
    renamed = [one.but(name="pay_back") if one.name == "refund" else one for one in shop.TOOLS]
    return {
        "today": today,
        "eager": today.but(instructions=EAGER),
        "small": today.but(model=DeskModel(url, "small")),
        "renamed": today.but(tools=renamed),
    }


class Book:
    """The dependencies of the experiment: whatever touches them is written down."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name not in {"customer", "data", *vars(shop.Shop)} or name.startswith("__"):
            raise AttributeError(name)
        with self._path.open("a") as book:
            book.write(f"{name}\n")
        raise AssertionError(f"{name} of the shop was used in the lab")


async def experiment(folder: Path, url: str, journal: str) -> None:
    """Run the experiment, and write its report."""
    report = await lab.run(
        lab.Dataset.read(folder / "desk.jsonl"),
        variants(url),
        scorers=[lab.same_effects(), lab.trajectory(), lab.completed(), lab.unknown_effects()],
        journal=folder / journal,
        dependencies=Book(folder / "book.txt"),
        concurrency=8,
        progress=lambda done, total, row: print(done, total, row.case, flush=True),
    )
    report.write(folder / "report.json")


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    asyncio.run(record(folder) if what == "record" else experiment(folder, *sys.argv[3:]))
