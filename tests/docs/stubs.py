"""Stubs of the modules whose functions take options: ``python -m tests.docs.stubs`` writes them.

The options of ``run`` and ``App`` are TypedDicts that stand once in the source. Not every editor
shows what ``**options: Unpack[...]`` holds, and none explains it. A stub beside the module names
each option with its type, and tells of it in the docstring.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin, is_typeddict

from tests.docs.test_pages import ROOT

__all__ = ["STUBS", "stub_of", "write_stubs"]

_MODULES = ("upshot.entry.api", "upshot.fleet.app")
STUBS = {name: ROOT / "src" / f"{name.replace('.', '/')}.pyi" for name in _MODULES}

_HEAD = '"""Made by ``python -m tests.docs.stubs``: the module, with each option by name."""\n'
_ATTRIBUTE = re.compile(r"^    (\w+): .*\n(?:        .*\n|\n(?=        ))*", re.MULTILINE)


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _imports(module: ModuleType) -> dict[str, str]:
    """What brings each name that *module* knows into another one."""
    found: dict[str, str] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.col_offset in (0, 4):
            for alias in node.names:
                name = alias.asname or alias.name
                renamed = f" as {name}" if alias.asname and name != alias.name else ""
                found[name] = f"from {node.module} import {alias.name}{renamed}"
        elif isinstance(node, ast.Import) and node.col_offset == 0:
            found |= {alias.name: f"import {alias.name}" for alias in node.names}
    for node in _tree(module).body:
        if isinstance(node, ast.AnnAssign | ast.ClassDef):
            target = node.target if isinstance(node, ast.AnnAssign) else None
            name = target.id if isinstance(target, ast.Name) else getattr(node, "name", "")
            found.setdefault(name, f"from {module.__name__} import {name}")
    return found


def _lineage(kind: Any) -> list[Any]:
    """A TypedDict, after those that it extends."""
    bases = [get_origin(base) or base for base in getattr(kind, "__orig_bases__", ())]
    above = [one for base in bases if is_typeddict(base) for one in _lineage(base)]
    return [*above, kind]


def _options(whole: Any) -> dict[str, tuple[str, str]]:
    """The type and the docstring's entry of each option of a TypedDict."""
    found: dict[str, tuple[str, str]] = {}
    for kind in _lineage(whole):
        body = ast.parse(inspect.getsource(kind)).body[0]
        assert isinstance(body, ast.ClassDef)
        told = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2] + "\n"
        words = {one[1]: f"    {' '.join(one[0].split())}" for one in _ATTRIBUTE.finditer(told)}
        for node in body.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                found[name] = ast.unparse(node.annotation), words[name]
    return dict(sorted(found.items()))


class _Writer:
    """Writes the stub of one module."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._imports = _imports(module)
        self._expanded: dict[ast.AST, Any] = {}

    def write(self) -> str:
        """The whole stub, before it is sorted and formatted."""
        body = "\n".join(self._statements(_tree(self._module).body))
        used = set(re.findall(r"\w+", body))
        own = f"from {self._module.__name__} "
        imports = [
            line
            for name, line in sorted(self._imports.items())
            if name in used and not line.startswith(own)
        ]
        variables = [
            ast.unparse(node)
            for node in ast.walk(_tree(self._module))
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "TypeVar"
        ]
        if variables:
            imports.append("from typing_extensions import TypeVar")
        return "\n".join([_HEAD, *imports, *variables, body])

    def _statements(self, nodes: list[ast.stmt], indent: str = "") -> Iterator[str]:
        overloaded = {
            node.name
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_overload(node)
        }
        whole = {
            node.name: ast.get_docstring(node) or ""
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_public = not node.name.startswith("_") or node.name.endswith("__")
                if is_public and (node.name not in overloaded or _is_overload(node)):
                    yield from self._function(node, whole[node.name], indent)
            elif isinstance(node, ast.ClassDef):
                yield from self._class(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    yield ast.unparse(node)

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        bases = ", ".join(map(ast.unparse, node.bases))
        yield f"class {node.name}{f'({bases})' if bases else ''}:"
        yield _quoted(ast.get_docstring(node) or "", "    ", self._options_in(node))
        for inner in ast.walk(node):
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Attribute):
                name = inner.target.attr
                if not name.startswith("_"):
                    yield f"    {name}: {ast.unparse(inner.annotation)}"
        yield from self._statements(node.body, "    ")

    def _options_in(self, node: ast.ClassDef) -> Any:
        made = next(n for n in node.body if getattr(n, "name", "") == "__init__")
        assert isinstance(made, ast.FunctionDef)
        return self._expand(made)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, told: str, indent: str
    ) -> Iterator[str]:
        kind = self._expand(node)
        for decorator in node.decorator_list:
            yield f"{indent}@{ast.unparse(decorator)}"
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        yield f"{indent}{word} {node.name}({ast.unparse(node.args)}){returns}:"
        yield _quoted(told, f"{indent}    ", kind) if told else f"{indent}    ..."

    def _expand(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
        """Put each option in the place of ``**options``; returns their TypedDict, or None."""
        rest = node.args.kwarg
        if rest is None or rest.annotation is None:
            return self._expanded.get(node)
        found = re.fullmatch(r"Unpack\[(\w+)(\[Deps\])?\]", ast.unparse(rest.annotation))
        assert found is not None, ast.unparse(rest)
        home = self._imports[found[1]].split()[1]
        options: Any = getattr(import_module(home), found[1])
        for name, (annotation, _) in _options(options).items():
            kind = "Any" if annotation == "Deps" and not found[2] else annotation
            node.args.kwonlyargs.append(ast.arg(name, ast.parse(kind, mode="eval").body))
            node.args.kw_defaults.append(ast.Constant(...))
        node.args.kwarg = None
        for one in _lineage(options):
            self._imports = {**_imports(import_module(one.__module__)), **self._imports}
        self._expanded[node] = options
        return options


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(one) == "overload" for one in node.decorator_list)


def _quoted(told: str, indent: str, options: Any) -> str:
    """A docstring that tells of each of *options*; None for none."""
    if options is not None:
        entries = [words for _, words in _options(options).values()]
        told = re.sub(
            r"^    (?:options|filters): .*\n(?:        .*\n)*",
            lambda _: "\n".join(entries) + "\n",
            told + "\n",
            flags=re.MULTILINE,
        ).rstrip()
    lines = [row for line in told.split("\n") for row in _wrapped(line, indent)]
    end = f"\n{indent}" if len(lines) > 1 else ""
    body = "\n".join(lines).lstrip()
    return f'{indent}"""{body}{end}"""'


def _wrapped(line: str, indent: str) -> list[str]:
    """A line of a docstring at its place, which may be further in than in the source."""
    inner = indent + " " * (len(line) - len(line.lstrip()))
    is_entry = re.match(r"\w+: ", line.lstrip()) is not None
    after = f"{inner}    " if is_entry else inner
    return textwrap.wrap(line.lstrip(), 100, initial_indent=inner, subsequent_indent=after) or [""]


def stub_of(name: str) -> str:
    """The stub of the module *name*, as it should be now."""
    _tree.cache_clear()
    text = _Writer(import_module(name)).write()
    for words in (
        ["check", "--quiet", "--fix-only", "--select=F401,I001,F811"],
        ["format", "--quiet"],
    ):
        ruff = str(Path(sys.executable).parent / "ruff")
        place = ["--stdin-filename", str(STUBS[name]), "-"]
        done = subprocess.run(
            [ruff, *words, *place], input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


def write_stubs() -> None:
    """Write all of them."""
    for name, path in STUBS.items():
        path.write_text(stub_of(name), "utf-8")


if __name__ == "__main__":
    write_stubs()
