"""The pages for people who change upshot name only what exists."""

from __future__ import annotations

import ast
import builtins
import importlib.util
import re
from functools import cache
from importlib import metadata
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import click
import pytest

from tests.docs.test_pages import ROOT
from upshot.cli.commands import upshot as command

SOURCE = ROOT / "src" / "upshot"
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md"]
FENCE = re.compile(r"^```(\w*)\n.*?^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
SYMBOL = re.compile(r"([a-z_][\w.]*):([A-Za-z_][\w.]*)")
PLACE = re.compile(r"[\w./-]+(?:/|\.(?:py|md|toml|json|ts))")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
CAPITAL = re.compile(r"([A-Z]\w+)(?:\.([a-z_]\w*))?(?:\(.*\))?")
MAKE = re.compile(r"\bmake ([a-z-]+)")
SPINE = re.compile(r"^\| \d+ \| `([\w/.]+)` \| (.*) \|$", re.MULTILINE)
MOST_LINES = 3000
# Names that are examples of what somebody adds.
EXAMPLES = {"ModelSwitched", "max_parallel_tools"}


def spans_of(page: Path) -> list[str]:
    return SPAN.findall(FENCE.sub("", page.read_text("utf-8")))


def is_there(place: str) -> bool:
    return any((root / place).exists() for root in (SOURCE, ROOT))


def resolves(module: str, name: str) -> bool:
    """Whether ``module:name`` can be imported; an annotated field of a class counts."""
    value: object = importlib.import_module(f"upshot.{module}")
    for part in name.split("."):
        known = getattr(value, "__annotations__", {})
        if not hasattr(value, part) and part not in known and part not in set_in(value):
            return False
        value = getattr(value, part, None)
    return True


def set_in(kind: object) -> set[str]:
    """The attributes that the methods of a class set."""
    if not isinstance(kind, type):
        return set()
    path = importlib.import_module(kind.__module__).__file__ or ""
    text = Path(path).read_text("utf-8")
    return set(re.findall(r"\bself\.(\w+)\b", text))


@cache
def known_names() -> frozenset[str]:
    """Every name that the code defines or uses, and every text in it that could be one."""
    found = {*dir(builtins), *metadata.packages_distributions()}
    for path in (*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        # As it was compiled before, which takes a tenth of parsing.
        found |= names_in(SourceFileLoader(path.stem, str(path)).get_code(path.stem))
    return frozenset(found)


def names_in(code: object) -> set[str]:
    """The names and texts of code, also of what is in it."""
    found: set[str] = set()
    left = [code]
    while left:
        value = left.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, (tuple, frozenset)):
            left += value
        elif isinstance(value, CodeType):
            found.update((value.co_name,), value.co_names, value.co_varnames, value.co_cellvars)
            left += value.co_consts
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    missing: list[str] = []
    counted = 0
    for span in spans_of(page):
        if found := TEST.fullmatch(span):
            path, name = found.groups()
            is_known = is_there(path) and f"def {name}(" in (ROOT / path).read_text("utf-8")
        elif found := SYMBOL.fullmatch(span):
            is_known = resolves(*found.groups())
        elif PLACE.fullmatch(span):
            is_known = is_there(span)
        elif found := CAPITAL.fullmatch(span):
            names = {name for name in found.groups() if name} - EXAMPLES
            is_known = names <= known_names()
        elif re.fullmatch(r"_?[a-z]\w*", span):
            is_known = span in known_names() | EXAMPLES
        else:
            continue
        counted += 1
        if not is_known:
            missing.append(span)
    assert missing == []
    assert counted > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shells = (found[0] for found in FENCE.finditer(text) if found[1] == "sh")
    code = "\n".join([*spans_of(page), *shells])
    assert set(MAKE.findall(code)) - targets == set()
    for name in re.findall(r"^upshot ([a-z]+)\b", "\n".join(spans_of(page)), re.MULTILINE):
        assert isinstance(command.commands.get(name), click.Command), name
    for module in re.findall(r"python -m ((?:tests|bench|fuzz|kills|stress)[\w.]*)", code):
        assert importlib.util.find_spec(module), module


def lines_of(path: Path, names: set[str]) -> int:
    """How many lines the classes and functions of these names take in a file."""
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name: node for node in tree.body if isinstance(node, kinds)}
    assert names <= set(found), (path.name, names - set(found))
    return sum((found[name].end_lineno or 0) - found[name].lineno + 1 for name in names)


def test_the_spine_is_short_enough_to_be_read() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = SPINE.findall(page.partition("<!-- spine -->")[2].partition("<!-- end -->")[0])
    assert len(rows) > 10
    total = 0
    for place, told in rows:
        names = {name for name in SPAN.findall(told) if not name.isupper()}
        total += lines_of(SOURCE / place, names)
    assert total <= MOST_LINES


def test_a_page_says_where_the_answers_are() -> None:
    """A heading that another page links to is there."""
    pages = {path: path.read_text("utf-8") for path in PAGES}
    for page, text in pages.items():
        for target, heading in re.findall(r"\]\(([\w./]*)#([\w-]+)\)", text):
            other = (page.parent / target).resolve() if target else page
            headings = re.findall(r"^#+ (.+)$", other.read_text("utf-8"), re.MULTILINE)
            assert heading in map(anchor_of, headings), (page.name, heading)


def anchor_of(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
