"""``python -m tests.mutants [COUNT] [SEED] [PART]``: break random lines; is a test red?

Each mutant is one change of one place in ``src/upshot`` (only in paths that contain PART): a
comparison turned round, a condition negated, ``and`` for ``or``, a number or truth value changed,
a statement dropped, a return emptied. The tests nearest to it run first; if they are green, so do
those of all folders that import the module. A red test counts if it is green without the change.

It works on a copy of the tree, and names the mutants that survived. Not each of them is a gap:
some change nothing that a user sees.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.quick import ROOT, nearest_tests

NEAREST = 8
"""How many test files run first."""
LEFT_OUT = (".git", ".venv*", "__pycache__", ".*_cache", "node_modules")
TURNED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.LtE: ">", ast.Gt: "<=",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
# The id of a case may contain blanks.
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Mutant(NamedTuple):
    """A change: what stands from *start* to *end* of the file's bytes, and what takes its place."""

    line: int
    start: int
    end: int
    new: str


def mutants_of(source: str) -> Iterator[Mutant]:
    """Every change of a module that is tried."""
    data = source.encode()
    begins = [0, *(found.end() for found in re.finditer(rb"\n", data))]
    tree = ast.parse(source)
    branches = ast.If | ast.While | ast.IfExp
    asked = {id(node.test) for node in ast.walk(tree) if isinstance(node, branches)}
    aside = {id(inner) for node in ast.walk(tree) for inner in _annotations(node)}
    for node in ast.walk(tree):
        if id(node) in aside or not isinstance(node, ast.expr | ast.stmt):
            continue
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        text = data[start:end].decode()
        new = _changed(node, text)
        if new is None and id(node) in asked:
            new = f"(not ({text}))"
        if new is not None:
            yield Mutant(node.lineno, start, end, new)


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """What is no code that runs: annotations, and what only a type checker reads."""
    for name in ("annotation", "returns"):
        if (found := getattr(node, name, None)) is not None:
            yield from ast.walk(found)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        yield from ast.walk(node)


def _changed(node: ast.expr | ast.stmt, text: str) -> str | None:
    """The text of a node, changed; None if it stays."""
    match node:
        case ast.Compare(left, [operator], [right]):
            return f"({ast.unparse(left)} {TURNED[type(operator)]} {ast.unparse(right)})"
        case ast.BoolOp(operator, values):
            other = " or " if isinstance(operator, ast.And) else " and "
            return f"({other.join(f'({ast.unparse(one)})' for one in values)})"
        case ast.UnaryOp(ast.Not(), operand):
            return f"bool({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value) | float(value)):
            return repr(value + 1)
        case ast.Return(value) if value is not None and text != "return None":
            return "return None"
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            return "pass"
        case _:
            return None


class Copy:
    """A copy of the tree in which modules are broken."""

    def __init__(self, folder: Path, *, of: Path = ROOT) -> None:
        self.root = folder / "tree"
        shutil.copytree(of, self.root, ignore=shutil.ignore_patterns(*LEFT_OUT))
        # Compiled modules are known by the time of their source, in seconds.
        self._times = count(1_600_000_000)

    def write(self, path: str, data: bytes) -> None:
        """Write a module, so that nothing compiled before counts."""
        (self.root / path).write_bytes(data)
        time = next(self._times)
        os.utime(self.root / path, (time, time))

    def red(self, tests: Sequence[str]) -> list[str]:
        """The first test that fails, or what else went wrong; none if all are green."""
        program = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src")}
        done = subprocess.run(
            [*program, "-m", "not slow", *tests],
            check=False,
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode in (0, 5):
            return []
        return FAILED.findall(done.stdout)[:1] or ["it hangs, or cannot be imported"]


def notice(copy: Copy, path: str, mutant: Mutant) -> str:
    """Which test is red with a mutant and green without it; empty if none is."""
    whole = (copy.root / path).read_bytes()
    nearest, near = nearest_tests([path]), nearest_tests([path], farthest=3)
    folders = sorted({str(Path(one).parent) for one in near} - {"tests"})
    for tests in filter(None, (nearest[:NEAREST], folders)):
        copy.write(path, whole[: mutant.start] + mutant.new.encode() + whole[mutant.end :])
        red = copy.red(tests)
        copy.write(path, whole)
        if red and ("::" not in red[0] or not copy.red(red)):
            return red[0]
    return ""


def main(number: int = 200, seed: int = 0, part: str = "") -> None:
    """Try so many mutants, and print those that no test noticed."""
    chance = random.Random(seed)
    modules = [str(one.relative_to(ROOT)) for one in sorted((ROOT / "src").rglob("*.py"))]
    known = [
        (path, mutant)
        for path in modules
        if part in path
        for mutant in mutants_of((ROOT / path).read_text("utf-8"))
    ]
    tried = chance.sample(known, min(number, len(known)))
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for path, mutant in tried:
            told = notice(copy, path, mutant)
            survived += not told
            was = (copy.root / path).read_bytes()[mutant.start : mutant.end].decode()
            print(f"{told or 'SURVIVED'}\n  {path}:{mutant.line}: {was!r} -> {mutant.new!r}")
            sys.stdout.flush()
    print(f"{len(tried) - survived} of {len(tried)} mutants were noticed (of {len(known)})")


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    main(int(given.get(0, 200)), int(given.get(1, 0)), given.get(2, ""))
