"""The words of docstrings, comments, pages and names: shapes that make a reader read twice.

CONTRIBUTING.md says how upshot is written. The list has what was once common here and is rarely
right; a sentence of another shape can be as bad.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_named_things import SPAN
from tests.docs.test_pages import ROOT, blocks_of

SOURCES = {
    path: path.read_text("utf-8") for path in sorted((ROOT / "src" / "upshot").rglob("*.py"))
}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

SHAPES = {
    # Name the user, the caller, the process or the session.
    r"\b(some|any)body\b": "who is it?",
    r"\bwhat (came|comes|became|becomes) of\b": "the outcome, the result, the state",
    r"\bdone (again|anew)\b|\banew\b": "again",
    r"\b(goes|going|gone|went) on\b(?! to)": "continue, resume",
    r"\b(takes?|took) (it|them|a run|runs|the run) up\b": "claim, resume",
    r"\bof which (none|each|one)\b|\bnone of which\b": "a second sentence",
    r"\bwish(es)?\b": "a request",
    r"\bas if it were not there\b": "say what is returned",
    r"\b(by now|for good|of its own accord|cannot but)\b": "leave it out",
    r"\bthereby\b|\bthereof\b|\bwherefore\b": "by this, of it, why",
    r"\b(hear|hears|heard) of\b": "read, receive, learn",
}
ANY = re.compile("|".join(SHAPES), re.IGNORECASE)
# Bare participles say nothing of what a function returns or does.
NAMES = {
    *("_told", "_said", "_shown", "_kept", "_hear", "_heard", "_stands", "_have_done"),
    *("_go_on", "go_on", "hear", "heed", "lose", "take_up", "told_of", "said_of", "said", "whole"),
}
# So do these of a variable: say whether it is a text, a message, an answer or an error.
VARIABLES = {"said", "told", "wish"}


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """The lines of docstrings and comments, with their numbers."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from enumerate(text.splitlines(), node.lineno)
            case _:
                pass
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def faults_in(lines: Iterator[tuple[int, str]]) -> list[str]:
    """What stands in *lines* and should not."""
    return [
        f"line {number}: {found[0]!r}, rather: {rather}"
        for number, line in lines
        for shape, rather in SHAPES.items()
        if (found := re.search(shape, line, re.IGNORECASE))
    ]


def test_docstrings_and_comments_are_in_plain_words() -> None:
    faults = [
        f"{path.relative_to(ROOT)}, {fault}"
        for path, source in SOURCES.items()
        # Most modules have no such word, and need not be read closely.
        if ANY.search(source)
        for fault in faults_in(texts_of(source))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_in_plain_words(page: Path) -> None:
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"))
    prose = SPAN.sub("", prose)
    faults = faults_in(enumerate(prose.splitlines(), 1))
    assert not faults, "\n".join(faults)


def test_names_say_what_a_function_does() -> None:
    bad = re.compile(rf"^\s*(?:async )?def ({'|'.join(NAMES)})\(", re.MULTILINE)
    found = [f"{path}: {name}" for path, source in SOURCES.items() for name in bad.findall(source)]
    assert not found, "\n".join(found)


def names_set_in(source: str) -> Iterator[tuple[int, str]]:
    """The variables and parameters of *source*, with their lines; fields of classes are no part."""
    tree = ast.parse(source)
    fields = {
        id(line.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in fields:
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case _:
                pass


def test_names_say_what_a_variable_holds() -> None:
    # Most modules have these words in sentences alone, and need not be read closely.
    words = re.compile(rf"\b({'|'.join(VARIABLES)})\s*(?:[=:,)\]|&+*/-]|(?:in|if)\b)")
    examples = {page: "\n".join(blocks_of(page)) for page in PAGES}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, source in {**SOURCES, **examples}.items()
        if words.search(source)
        for line, name in names_set_in(source)
        if name in VARIABLES
    ]
    assert not found, "\n".join(found)
