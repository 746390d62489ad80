"""What docs/simulator.md shows is true."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tests.sim.client import USER, chat_turn, said
from upshot.sim import Reply, Scenario, Simulator
from upshot.sim.faults import Fault

PAGE = Path(__file__).resolve().parents[2] / "docs" / "simulator.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_its_python_runs(code):
    exec(compile(code, str(PAGE), "exec"), {"__name__": "docs"})


async def test_its_scenario_is_filled_from_results(client, tmp_path, clock):
    path = tmp_path / "survey.yaml"
    path.write_text(blocks("yaml")[0])
    results = [
        ("list_files", {"files": ["a.py", "b.py"]}),
        ("languages", {"by_language": [{"language": "Go", "files": 2}]}),
        ("read_file", {"text": "x"}),
    ]
    async with Simulator(path, clock=clock) as sim:
        heard = await client.chat(sim, [USER, said("x"), *chat_turn(*results)])
    text = heard.body["choices"][0]["message"]["content"]
    assert "# Where is order 7?" in text
    assert "| language | files |\n| --- | --- |\n| Go | 2 |" in text
    assert "The first file is a.py." in text
    assert "was kept as a whole." in text


@pytest.mark.parametrize("struct", [Scenario, Reply])
def test_it_names_every_key(struct):
    missing = [name for name in struct.__struct_fields__ if f"`{name}`" not in PAGE.read_text()]
    assert missing == []


def test_it_names_every_fault():
    kinds = [msgspec.inspect.type_info(kind).tag for kind in Fault.__args__]
    named = PAGE.read_text()
    assert [kind for kind in kinds if f"| `{kind}` |" not in named] == []
