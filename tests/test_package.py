"""The package as a whole: its surface, its sizes, and what importing it costs."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import upshot

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "upshot"
MODULES = sorted(SOURCE.rglob("*.py"))

# Their names are loaded at their first use.
LAZY = [
    ".".join(("upshot", *path.parent.relative_to(SOURCE).parts))
    for path in MODULES
    if path.name == "__init__.py" and "with lazy_imports(" in path.read_text("utf-8")
]
MAX_FILE_LINES = 900
MAX_FUNCTION_LINES = 60
LOADED_AT_FIRST_USE = {
    "aiohttp",
    "click",
    "griffelib",
    "griffe",
    "jsonschema_rs",
    "langchain",
    "langchain_core",
    "langgraph",
    "opentelemetry",
    "pydantic",
    "pydantic_ai",
    "rich",
    "sqlite3",
}
TAKEN_ALONE = [
    name
    for name in ("contract", "wire", "flat", "tools")
    if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()
]
# Folders of one machine, written out: the project has to work on any other.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:work|tmp)\b")
PROJECT_FILES = ["*.md", "*.toml", "Makefile", ".ci/*", ".gitignore"]
PROJECT_FOLDERS = ["src", "tests", "docs", "examples", "bench"]

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def by_path(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def loaded_by(statement: str) -> set[str]:
    """Names of the modules that *statement* loads in a fresh interpreter."""
    program = f"import sys; old = set(sys.modules); {statement}; print(*(set(sys.modules) - old))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert not done.stderr
    assert done.stdout.count("\n") == 1, "the import printed something"
    return set(done.stdout.split())


def lines_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def project_files() -> Iterator[Path]:
    for pattern in PROJECT_FILES:
        yield from ROOT.glob(pattern)
    for folder in PROJECT_FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


@pytest.mark.parametrize("package", LAZY)
def test_what_type_checkers_see_is_what_programs_load(package: str) -> None:
    module = import_module(package)
    imports = [
        (node.module or "", alias.asname or "", alias.name)
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module != "upshot.lazy"
        for alias in node.names
        if alias.asname
    ]
    assert module.__all__ == sorted({name for _, name, _ in imports}) == dir(module)
    # All modules first: one of the name that it exports would take the place of that name.
    homes = {home: import_module(home) for home, _, _ in imports}
    for home, name, origin in imports:
        assert name == origin
        assert getattr(module, name) is getattr(homes[home], name)


@pytest.mark.parametrize("package", LAZY)
def test_all_names_come_with_a_star(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    assert names.keys() - {"__builtins__"} == set(import_module(package).__all__)


def test_a_lazy_package_imports_nothing_before_a_name_is_used() -> None:
    loaded = loaded_by("import upshot.contract, upshot.tools, upshot.models")
    assert {name for name in loaded if name.startswith("upshot")} == {
        "upshot",
        "upshot.contract",
        "upshot.lazy",
        "upshot.models",
        "upshot.tools",
    }


@pytest.mark.parametrize("name", upshot.__all__)
def test_every_exported_name_can_be_had(name: str) -> None:
    assert getattr(upshot, name) is not None


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_every_public_definition_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    # By name, so that of the overloads of a function only the last one counts.
    definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
    bare = [name for name, node in definitions.items() if not ast.get_docstring(node)]
    assert [name for name in bare if not name.startswith("_")] == []


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_no_source_file_is_too_long(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_no_function_is_too_long(path: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = [f.name for f in functions if lines_without_docstring(f) > MAX_FUNCTION_LINES]
    assert not long


def test_importing_upshot_loads_no_heavy_library() -> None:
    tops = {name.partition(".")[0] for name in loaded_by("import upshot")}
    assert not tops & LOADED_AT_FIRST_USE
    assert not any(name.startswith("upshot.guard") for name in loaded_by("import upshot"))


@pytest.mark.parametrize("part", TAKEN_ALONE)
def test_a_part_can_be_taken_without_runs_and_http(part: str) -> None:
    loaded = loaded_by(f"from upshot.{part} import *")
    assert f"upshot.{part}" in loaded
    assert not {name for name in loaded if name == "aiohttp" or name.startswith("upshot.runs")}


def test_the_package_says_that_it_is_typed() -> None:
    assert (SOURCE / "py.typed").is_file()


def test_no_file_names_a_folder_of_one_machine() -> None:
    naming = [
        path.relative_to(ROOT).as_posix()
        for path in project_files()
        if MACHINE_PATH.search(path.read_text("utf-8", errors="replace"))
    ]
    assert not naming
