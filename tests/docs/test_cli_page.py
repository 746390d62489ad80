"""The page on the command line: its examples run, and it names all that the command has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Command, command
from upshot.cli.commands import upshot

__all__ = ["command"]

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "cli.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"(?:`|^\$ )upshot ([a-z][^`;\n]*)", re.MULTILINE)
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTIONS = [
    (name, option)
    for name, one in upshot.commands.items()
    for parameter in one.params
    if isinstance(parameter, click.Option)
    for option in (*parameter.opts, *parameter.secondary_opts)
]


def section(name: str) -> str:
    """What the page says of a command."""
    return TEXT.partition(f"\n## upshot {name}")[2].partition("\n## ")[0]


def pattern(line: str) -> str:
    """What a printed line looks like: dots and moments stand for what differs."""
    parts = re.split(r"\.\.\.|\d{4}-\d\d-\d\d \d\d:\d\d", line)
    return ".+".join(map(re.escape, parts))


def steps() -> list[tuple[str, list[str]]]:
    """The commands of the page with what is printed, in order."""
    found: list[tuple[str, list[str]]] = []
    for line in (line for block in BLOCK.findall(TEXT) for line in block.splitlines()):
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def test_the_examples_run_and_print_what_the_page_says(command: Command) -> None:
    Path("desk.py").write_text(PYTHON.findall(TEXT)[0], "utf-8")
    assert steps()
    for said, expected in steps():
        typed, echo, _ = said.partition("; echo $?")
        code, out, err = command(*shlex.split(typed)[1:])
        printed = [*out.splitlines(), *err.splitlines(), *([str(code)] if echo else [])]
        for line in expected:
            assert any(re.fullmatch(pattern(line), one) for one in printed), (said, line, printed)


@pytest.mark.parametrize("name", upshot.commands)
def test_every_command_has_its_part(name: str) -> None:
    assert section(name)


def test_every_option_is_named_for_its_command() -> None:
    shared = TEXT.partition("## Options that many")[2].partition("\n## ")[0]
    for name, option in OPTIONS:
        own = re.search(rf"`{option}\b", section(name))
        rows = [row.split("|") for row in shared.splitlines() if f"`{option}" in row]
        of_it = any(name in re.split(r", |\s", row[3]) or " all " in row[3] for row in rows)
        assert own or of_it, (name, option)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    for said in NAMED.findall(page.read_text("utf-8")):
        group, words = upshot, said.split()
        while (
            isinstance(group, click.Group) and words and words[0].isalpha() and words[0].islower()
        ):
            assert words[0] in group.commands, said
            group, *words = group.commands[words[0]], *words[1:]
        known = {name for one in group.params for name in (*one.opts, *one.secondary_opts)}
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= known | {"--help", "--"}, said
