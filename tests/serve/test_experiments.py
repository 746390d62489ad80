"""The lab in the console: what is shown of experiments, and how runs become cases."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.kit import Client, served
from upshot import Agent, App, Request, ScriptedModel, ToolCall, lab, tool
from upshot.journal import open_journal
from upshot.lab.kept_reports import KeptExperiment, keep_start

BOOK: list[str] = []


@tool(effect="write")
def refund(id: int) -> str:
    """Refund an order."""
    BOOK.append(f"refund {id}")
    return "refunded"


def pays(id: int) -> Agent[Any]:
    def reply(messages: Any) -> Any:
        done = any(one.tool_call_id for one in messages)
        return "Done <b>at once</b>." if done else ToolCall("r", "refund", {"id": id})

    return Agent("desk", model=ScriptedModel(reply), tools=[refund])


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[tuple[App, Client, Path]]:
    BOOK.clear()
    app = App([pays(1)], journal=tmp_path / "desk.db")
    shown = {"lab": tmp_path / "lab.db", "datasets": tmp_path / "datasets"}
    async with served(app, **shown) as client:
        for number in (1, 2):
            request = Request(f"Refund order {number}", run_id=f"ticket-{number}")
            handle = await app.submit("desk", request, attributes={"user": "ann"})
            await handle.result(30)
        yield app, client.by("oz"), tmp_path


async def tried(folder: Path, name: str = "A <b>change</b>/2") -> lab.Report:
    """An experiment on the dataset that the console made."""
    dataset = lab.Dataset.read(folder / "datasets" / "bad.jsonl")
    variants = {"today": pays(1), "other": pays(2)}
    scorers = [lab.same_effects()]
    return await lab.run(dataset, variants, scorers=scorers, journal=folder / "lab.db", name=name)


def texts_in(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    return [text for child in node[2:] for text in texts_in(child)]


def links_in(node: Any) -> list[str]:
    if isinstance(node, str):
        return []
    own = [node[1]["href"]] if "href" in node[1] else []
    return own + [one for child in node[2:] for one in links_in(child)]


async def test_runs_become_cases_each_once(site: tuple[App, Client, Path]) -> None:
    _, client, folder = site
    first = await client.post("/api/datasets/bad", {"runs": ["ticket-2"]})
    path = folder / "datasets" / "bad.jsonl"
    assert first == (200, {"path": str(path), "added": 1, "cases": 1})
    _, second = await client.post("/api/datasets/bad", {"filters": {"agent": "desk"}})
    assert (second["added"], second["cases"]) == (1, 2)
    assert [case.id for case in lab.Dataset.read(path)] == ["ticket-2", "ticket-1"]
    status, text = await client.get("/api/datasets/bad")
    assert (status, text) == (200, path.read_text())
    status, said = await client.post("/api/datasets/bad", {"filters": {"text": "nothing like it"}})
    assert (status, said) == (400, {"error": "no run fits that has started"})


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fbad", ".bad", "a b", "x" * 99])
async def test_a_dataset_stays_in_its_folder(site: tuple[App, Client, Path], name: str) -> None:
    _, client, folder = site
    before = sorted(folder.rglob("*.jsonl"))
    status, _ = await client.post(f"/api/datasets/{name}", {"runs": ["ticket-1"]})
    assert status in (400, 404, 405)
    assert sorted(folder.rglob("*.jsonl")) == before


async def test_a_changed_dataset_is_left_alone_and_named(site: tuple[App, Client, Path]) -> None:
    _, client, folder = site
    await client.post("/api/datasets/bad", {"runs": ["ticket-1"]})
    path = folder / "datasets" / "bad.jsonl"
    path.write_text(path.read_text().replace("ticket-1", "ticket-7"))
    status, said = await client.post("/api/datasets/bad", {"runs": ["ticket-2"]})
    assert status == 400 and "do not fit its digest" in said["error"]
    _, shown = await client.get("/api/lab")
    assert "do not fit its digest" in shown["datasets"][0]["fault"]


async def test_an_experiment_is_shown_with_links_to_compare_its_runs(
    site: tuple[App, Client, Path],
) -> None:
    _, client, folder = site
    assert (await client.get("/api/lab"))[1]["experiments"] == []
    await client.post("/api/datasets/bad", {"filters": {}})
    paid = list(BOOK)
    report = await tried(folder)
    assert paid == BOOK
    (entry,) = (await client.get("/api/lab"))[1]["experiments"]
    assert (entry["name"], entry["variants"]) == ("A <b>change</b>/2", ["today", "other"])
    assert entry["finding"].startswith("other would have made 2 writes")
    path = "/api/lab/A%20%3Cb%3Echange%3C%2Fb%3E%2F2"
    status, part = await client.get(path)
    assert (status, part["next"]) == (200, None)
    texts = [text for node in part["nodes"] for text in texts_in(node)]
    assert 'refund {"id": 2}' in texts and "Done <b>at once</b>." in texts
    links = [link for node in part["nodes"] for link in links_in(node)]
    (new,) = [row.run_id for row in report.of("other") if row.case == "ticket-1"]
    assert f"/runs/ticket-1/compare/{new}" in links
    status, compared = await client.get(f"/api/runs/ticket-1/compare/{new}")
    assert status == 200 and compared["difference"] is not None
    assert (await client.get(f"/api/runs/{new}"))[1]["head"]["run_id"] == new
    status, page = await client.get(f"{path}/file")
    assert status == 200 and "Done &lt;b&gt;at once&lt;/b&gt;." in page


@pytest.mark.parametrize("what", ["interrupt", "cancel", "resume", "replay", "fork", "note"])
async def test_runs_of_the_lab_are_only_read(site: tuple[App, Client, Path], what: str) -> None:
    _, client, folder = site
    await client.post("/api/datasets/bad", {"runs": ["ticket-1"]})
    run_id = (await tried(folder)).of("other")[0].run_id
    body = {"fork": {"at": 1}, "note": {"name": "a", "value": 1}}.get(what, {})
    status, said = await client.post(f"/api/runs/{run_id}/{what}", body)
    assert status == 403 and "only read here" in said["error"]


async def test_who_sees_only_some_runs_sees_nothing_of_the_lab(
    site: tuple[App, Client, Path],
) -> None:
    _, client, folder = site
    await client.post("/api/datasets/bad", {"runs": ["ticket-1"]})
    run_id = (await tried(folder, "a")).of("other")[0].run_id
    for name in ("ann", "tia", "una"):
        other = client.by(name)
        assert "lab" not in (await other.get("/api/me"))[1]
        for path in ("/api/lab", "/api/lab/a", "/api/lab/a/file", "/api/datasets/bad"):
            assert (await other.get(path))[0] == 403
        assert (await other.post("/api/datasets/bad", {"runs": ["ticket-1"]}))[0] == 403
        assert (await other.get(f"/api/runs/{run_id}"))[0] == 404
    assert (await client.by("vic").get("/api/lab/a"))[0] == 200


async def test_an_experiment_under_way_has_no_report_yet(
    site: tuple[App, Client, Path],
) -> None:
    _, client, folder = site
    async with open_journal(folder / "lab.db") as journal:
        await keep_start(journal, KeptExperiment(name="slow", cases=3))
    (entry,) = (await client.get("/api/lab"))[1]["experiments"]
    assert (entry["name"], entry.get("ended_at")) == ("slow", None)
    status, said = await client.get("/api/lab/slow")
    assert status == 404 and "has no report yet" in said["error"]


async def test_a_site_without_a_lab_says_so() -> None:
    async with served(App([pays(1)], journal="memory:")) as client:
        status, said = await client.by("oz").get("/api/lab")
        assert status == 404 and "this site shows no lab" in said["error"]
        assert "lab" not in (await client.by("oz").get("/api/me"))[1]
