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

# They work their __all__ out of the table that says where each name lives.
WORKED_OUT = ["upshot", "upshot.contract"]
MAX_FILE_LINES = 900
MAX_FUNCTION_LINES = 60
LOADED_AT_FIRST_USE = {
    "aiohttp",
    "click",
    "griffelib",
    "griffe",
    "jsonschema_rs",
    "opentelemetry",
    "pydantic",
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


def declared_names(tree: ast.Module) -> list[str] | None:
    """The module's ``__all__`` where it is a literal list, else None."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() as names)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List() as names)
            ):
                return ast.literal_eval(names)
            case _:
                pass
    return None


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


@pytest.mark.parametrize("package", WORKED_OUT)
def test_all_is_sorted_and_without_repeats(package: str) -> None:
    names = import_module(package).__all__
    assert names == sorted(set(names))


@pytest.mark.parametrize("package", WORKED_OUT)
def test_type_checkers_see_every_name_where_programs_load_it(package: str) -> None:
    module = import_module(package)
    path = Path(module.__file__ or "")
    seen = {
        alias.name: (node.module or "").removeprefix(f"{package}.")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    homes = {name: home for home, names in module._HOMES.items() for name in names.split()}
    assert seen == homes


@pytest.mark.parametrize("package", WORKED_OUT)
def test_all_names_come_with_a_star(package: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {package} import *", names)
    assert names.keys() - {"__builtins__"} == set(import_module(package).__all__)


@pytest.mark.parametrize("name", upshot.__all__)
def test_every_exported_name_can_be_had(name: str) -> None:
    assert getattr(upshot, name) is not None


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_every_module_says_what_it_is_and_what_it_exports(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree)
    package = ".".join(("upshot", *path.relative_to(SOURCE).parts[:-1]))
    is_worked_out = path.name == "__init__.py" and package in WORKED_OUT
    assert is_worked_out or declared_names(tree) is not None or path.name == "__main__.py"


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_every_exported_definition_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    exported = declared_names(tree) or []
    definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
    bare = [n for n in exported if n in definitions and not ast.get_docstring(definitions[n])]
    assert not bare


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


@pytest.mark.parametrize("part", TAKEN_ALONE)
def test_a_part_can_be_taken_without_runs_and_http(part: str) -> None:
    loaded = loaded_by(f"import upshot.{part}")
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
