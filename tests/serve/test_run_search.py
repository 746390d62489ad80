"""Runs are found by any text in their logs."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.kit import Client, served
from upshot import Agent, App, Request, ScriptedModel, ToolCall, tool
from upshot.contract.user import User
from upshot.serve.run_search import search_runs
from upshot.serve.site import Site


@tool(effect="read")
def look_up(customer: str) -> dict[str, Any]:
    """Look a customer up."""
    return {"customer": customer, "street": "Königstraße 7", "balance": 4711, "note": "rang\ntwice"}


CUSTOMERS = ("Müller", "Okafor", "Ng \u202e <b>", "Ödön")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[tuple[App, Client]]:
    def model(n: int) -> ScriptedModel:
        # As some providers send it: JSON with its letters escaped.
        given: Any = json.dumps({"customer": CUSTOMERS[n]})
        return ScriptedModel([[ToolCall("c", "look_up", given)], f"Done, case {n}."])

    agents = [
        Agent[Any](f"desk{n}", model=model(n), tools=[look_up]) for n in range(len(CUSTOMERS))
    ]
    app = App(agents, journal=str(tmp_path / "runs.db"), secrets=["hunter2-secret"])
    async with served(app) as client:
        for n, name in enumerate(("ann", "ben", "ann", "ann")):
            request = Request(f"Please look, my password is hunter2-secret {n}.", run_id=f"run-{n}")
            run = await app.submit(
                f"desk{n}", request, attributes={"user": name}, conversation=f"talk-{n}"
            )
            await run.result(60)
        yield app, client


async def find(client: Client, text: str, user: str = "oz", **more: str) -> list[str]:
    params = "".join(f"&{name}={value}" for name, value in more.items())
    status, found = await client.by(user).get(f"/api/runs?find={text}{params}")
    assert status == 200
    return [one["run_id"] for one in found["runs"]]


FOUND: list[tuple[str, list[str]]] = [
    ("Müller", ["run-0"]),
    ("müller", ["run-0"]),
    ("MÜLLER", ["run-0"]),
    (unicodedata.normalize("NFD", "Müller"), ["run-0"]),
    ("okafor", ["run-1"]),
    ("königstrasse", ["run-3", "run-2", "run-1", "run-0"]),
    ("4711", ["run-3", "run-2", "run-1", "run-0"]),
    ("case 2", ["run-2"]),
    ("%3Cb%3E", ["run-2"]),
    ("tool_settled", []),
    ("hunter2-secret", []),
    ("secret", []),
    ("rang%0Atwice", ["run-3", "run-2", "run-1", "run-0"]),
    ("nobody", []),
]


async def test_a_text_is_found_in_arguments_and_outputs(desk: Any) -> None:
    _, client = desk
    assert [(text, await find(client, text)) for text, _ in FOUND] == FOUND


async def test_a_search_index_finds_the_same_and_fewer_logs_are_read(desk: Any) -> None:
    app, client = desk
    journal: Any = await app.open()
    await journal.make_search_index()
    while await journal.index_runs():
        pass
    assert await find(client, "MÜLLER") == ["run-0"]
    assert await find(client, "secret") == []
    assert await find(client, "königstrasse", "ben") == ["run-1"]
    assert await find(client, "müller", "ben") == []
    _, told = await client.by("oz").get("/api/runs?find=okafor")
    assert (told["searched"], [one["run_id"] for one in told["runs"]]) == (1, ["run-1"])
    assert told["next"] is None
    await journal.redact(conversation="talk-0", by="oz")
    assert await find(client, "müller") == []


async def test_a_user_finds_their_own_runs_alone_and_filters_hold(desk: Any) -> None:
    _, client = desk
    assert await find(client, "königstrasse", "ben") == ["run-1"]
    assert await find(client, "müller", "ben") == []
    assert await find(client, "königstrasse", agent="desk3") == ["run-3"]


async def test_what_was_redacted_or_removed_is_not_found(desk: Any) -> None:
    app, client = desk
    journal: Any = await app.open()
    await journal.redact(conversation="talk-0", by="oz")
    assert await find(client, "müller") == []
    await journal.remove_runs(["run-1"])
    assert await find(client, "okafor") == []


async def test_a_search_goes_on_where_it_stopped(desk: Any) -> None:
    app, _ = desk
    site, user = Site(app, user=lambda _: None), User("oz", ("owner",))
    found: list[str] = []
    filters: dict[str, Any] = {}
    for read in range(1, 5):
        hit = await search_runs(site, user, "müller", None, {**filters}, limit=9, for_s=0)
        assert (hit.searched, hit.last is None) == (1, False), read
        found += [run.run_id for run in hit.runs]
        filters = {"before": hit.last.run_id if hit.last else ""}
    assert found == ["run-0"]
    hit = await search_runs(site, user, "müller", None, filters, limit=9, for_s=0)
    assert (hit.searched, hit.last) == (0, None)


async def test_counts_take_no_search(desk: Any) -> None:
    _, client = desk
    status, told = await client.by("oz").get("/api/counts?find=okafor")
    assert (status, told["error"]) == (
        400,
        "counts take no find=: a search reads only some of the runs",
    )


async def test_a_dataset_takes_no_search(desk: Any, tmp_path: Path) -> None:
    app, _ = desk
    async with served(app, lab="memory:", datasets=str(tmp_path / "d"), work=False) as client:
        body = {"filters": {"find": "müller"}}
        status, told = await client.by("oz").post("/api/datasets/bad", body)
    assert status == 400 and "choose them on the list" in told["error"]
