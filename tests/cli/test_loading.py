"""From FILE.py:agent, or an agent file, to the agent."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from upshot.cli.loading import Target, load_agent, load_tools
from upshot.contract import AgentSpec, Budget
from upshot.errors import Misuse

ONE = "import upshot\nagent = upshot.Agent('one')\n"
TWO = "import upshot\nfirst = upshot.Agent('1')\nsecond = upshot.Agent('2')\n"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


def test_an_agent_is_found_by_its_name() -> None:
    assert load_agent(Target(write("bots.py", TWO) + ":second")).id == "2"


def test_the_only_agent_of_a_file_needs_no_name() -> None:
    assert load_agent(Target(write("bots.py", ONE))).id == "one"


def test_one_agent_under_two_names_is_one_agent() -> None:
    assert load_agent(Target(write("bots.py", ONE + "alias = agent\n"))).id == "one"


def test_a_file_can_import_its_neighbours() -> None:
    write("nextdoor.py", "NAME = 'from next door'\n")
    text = "import upshot\nfrom nextdoor import NAME\nagent = upshot.Agent(NAME)\n"
    assert load_agent(Target(write("bots.py", text))).id == "from next door"


def test_a_file_named_like_a_library_does_not_replace_it() -> None:
    import json

    assert load_agent(Target(write("json.py", ONE))).id == "one"
    assert sys.modules["json"] is json


def test_an_agent_in_json_is_read() -> None:
    text = '{"id": "bot", "model": "openai:gpt-5", "tools": ["find"], "budget": {"max_turns": 3}}'
    agent = load_agent(Target(write("bot.json", text)))
    assert agent == AgentSpec(
        id="bot", model="openai:gpt-5", tools=("find",), budget=Budget(max_turns=3)
    )


def test_an_agent_in_yaml_is_read() -> None:
    text = "id: bot\ninstructions: |\n  Be kind.\nbudget: {max_cost_usd: 0.5}\n"
    agent = load_agent(Target(write("bot.yaml", text)))
    assert (agent.id, agent.instructions) == ("bot", "Be kind.\n")


def test_tools_of_a_file_are_found() -> None:
    text = (
        "import upshot\n@upshot.tool(effect='read')\ndef find(word: str) -> str:\n    return word\n"
    )
    assert [tool.name for tool in load_tools([Path(write("kit.py", text)).absolute()])] == ["find"]


@pytest.mark.parametrize(
    ("name", "text", "target", "sentence"),
    [
        ("a.py", TWO, "a.py", "a.py has more than one agent, first, second: say which, a.py:first"),
        ("a.py", TWO, "a.py:third", "a.py has no agent 'third': there are first, second"),
        ("a.py", "x = 1", "a.py:x", "'x' in a.py is not an agent, but int: there is none"),
        ("a.py", "x = 1", "a.py", "a.py has no agent: define one, agent = upshot.Agent(...)"),
        ("a.py", "x = 1\nif:\n", "a.py", "a.py, line 2: invalid syntax"),
        ("a.py", "\nimport nope\n", "a.py", "a.py, line 2: ModuleNotFoundError: No module named"),
        ("a.py", "def f():\n  1 / 0\n\nf()", "a.py", "a.py, line 2: ZeroDivisionError: division"),
        ("a.py", "raise SystemExit(3)", "a.py", "a.py, line 1: SystemExit: 3"),
        ("agent.py", ONE, "agnet.py:agent", "there is no file agnet.py: did you mean 'agent.py'?"),
        ("a.txt", "", "a.txt", "a.txt is not an agent's file: give one that ends in .py, .json"),
        ("a.json", '{"id": "a",\n}', "a.json", "a.json, line 2, column 1: this is not JSON: "),
        ("a.json", "[]", "a.json", "a.json, line 1: a list where an agent"),
        ("a.yml", "", "a.yml", "a.yml, line 1: nothing where an agent"),
        (
            "a.json",
            '{"nodes": {}, "start": "a"}',
            "a.json",
            "a.json is a graph, whose functions are in Python",
        ),
        ("a.json", "{}", "a.json", "a.json: the agent needs an id"),
        ("a.json", '{"id": "a", "modle": 1}', "a.json", "no field 'modle': did you mean 'model'?"),
        ("a.json", '{"id": 1}', "a.json", "a.json: id: expected `str`, got `int`"),
        ("a.json", '{"id": "a"}', "a.json:b", "a.json holds one agent: leave out ':b'"),
        ("a.yaml", "id: a\n  b: c\n", "a.yaml", "a.yaml, line 2, column 4: this is not YAML: "),
    ],
    ids=lambda value: None,
)
def test_what_is_wrong_with_a_file_is_said_in_one_sentence(
    name: str, text: str, target: str, sentence: str
) -> None:
    write(name, text)
    with pytest.raises(Misuse) as caught:
        load_agent(Target(target))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_agent() -> None:
    with pytest.raises(Misuse, match="is a folder: give a file in it"):
        load_agent(Target("."))


def test_a_file_without_tools_is_told() -> None:
    with pytest.raises(Misuse, match=r"kit\.py has no tools"):
        load_tools([Path(write("kit.py", "x = 1")).absolute()])


def test_yaml_without_its_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    said = "bot.yaml: reading YAML needs an extra: pip install 'upshot-agents[machine]', or in a "
    said += "clone pip install -e '.[machine]'; or write it as JSON"
    with pytest.raises(Misuse, match=f"^{re.escape(said)}$"):
        load_agent(Target(write("bot.yaml", "id: bot")))
