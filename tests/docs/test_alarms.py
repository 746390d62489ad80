"""The alarms and the dashboard that the documentation offers, against a real scrape."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.alarm_cases import FIRING, QUIET
from tests.fleet.scraping import Scrape, full_scrape
from tests.postgres import PostgresServer

FOLDER = Path(__file__).parents[2] / "docs" / "operation"
ALARMS, DASHBOARD = FOLDER / "alarms.yml", FOLDER / "dashboard.json"
RUNBOOK = FOLDER.parent / "runbook.md"
GAME_DAYS = FOLDER.parents[1] / "tests" / "gamedays" / "test_game_days.py"
USED = re.compile(r"(upshot_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool: `make gamedays` installs it"
)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALARMS.read_text("utf-8"))["groups"]
    return group["rules"]


def panels() -> Iterator[tuple[str, str]]:
    """Title and expression of each target of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def missing(expression: str, scrapes: list[Scrape]) -> list[str]:
    """What an expression names that no scrape has."""
    found: list[str] = []
    for name, matchers in USED.findall(expression):
        if not any(name in one.families for one in scrapes):
            found.append(name)
        known = {label for one in scrapes for label in one.labels_of(name)}
        found += [f"{name}: {one}" for one in LABEL.findall(matchers) if one not in known]
    return found


@pytest.fixture
async def scrapes(postgres: PostgresServer, database: str, tmp_path: Path) -> list[Scrape]:
    """Of a process with a file, and of one with a server, which has a standby or none."""
    return [
        await full_scrape(tmp_path / "desk.db"),
        await full_scrape(postgres.url(database)),
    ]


async def test_what_alarms_and_panels_name_is_in_a_real_scrape(scrapes: list[Scrape]) -> None:
    named = [(one["alert"], one["expr"]) for one in rules()] + [*panels()]
    assert {name: gone for name, text in named if (gone := missing(text, scrapes))} == {}
    # Else a metric that nothing shows would be of no use.
    shown = {name for _, text in named for name, _ in USED.findall(text)}
    families = {name for one in scrapes for name in one.families if name.startswith("upshot_")}
    bases = {re.sub(r"_(total|bucket|sum|count|info)$", "", one) for one in shown}
    assert {re.sub(r"_(total|bucket|sum|count|info)$", "", one) for one in families} == bases


def test_a_name_that_is_not_there_is_found() -> None:
    scrape = Scrape({"upshot_a"}, {("upshot_a", (("state", "x"),)): 1.0})
    assert missing('upshot_a{state="x"} + upshot_b', [scrape]) == ["upshot_b"]
    assert missing('upshot_a{status="x"}', [scrape]) == ["upshot_a: status"]


def test_every_alarm_has_a_section_of_the_runbook_and_every_section_an_alarm() -> None:
    headings = re.findall(r"^## (.+)$", RUNBOOK.read_text("utf-8"), re.MULTILINE)
    sections = {one.lower().replace(" ", "-") for one in headings}
    named = {one["labels"]["runbook"] for one in rules()}
    assert named <= sections
    # make gamedays causes each of them.
    caused = GAME_DAYS.read_text("utf-8")
    assert [one for one in headings if f'"{one}"' not in caused] == []
    assert all(one["annotations"]["summary"] for one in rules())


@promtool
def test_the_alarms_and_the_expressions_of_the_panels_can_be_read(tmp_path: Path) -> None:
    shown = [{"record": f"panel:{n}", "expr": text} for n, (_, text) in enumerate(panels())]
    beside = tmp_path / "panels.yml"
    beside.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": shown}]}), "utf-8")
    subprocess.run(["promtool", "check", "rules", ALARMS, beside], check=True, capture_output=True)


@pytest.mark.slow
@promtool
def test_each_alarm_fires_in_its_case_and_none_in_a_quiet_hour(tmp_path: Path) -> None:
    assert {one["alert"] for one in rules()} == FIRING.keys()
    tests = [case(one, FIRING[one["alert"]], fires=True) for one in rules()]
    tests += [case(one, QUIET, fires=False) for one in rules()]
    given = {"rule_files": [str(ALARMS)], "evaluation_interval": "30s", "tests": tests}
    path = tmp_path / "cases.yml"
    path.write_text(yaml.safe_dump(given), "utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", path], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def case(rule: dict[str, Any], series: dict[str, str], *, fires: bool) -> dict[str, Any]:
    """A test of promtool: whether an alarm fires after two hours of these series."""
    wanted = f'count(ALERTS{{alertname="{rule["alert"]}",alertstate="firing"}} > 0)'
    return {
        "interval": "30s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"{wanted} >= bool 1",
                "eval_time": "2h",
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            }
        ],
    }
