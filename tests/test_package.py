"""The package as a whole: its surface, its sizes, and what importing it costs."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "upshot"
# What `upshot new` writes is no part of the package.
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent.name != "_desk")

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
    "azure",
    "botocore",
    "click",
    "google",
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

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


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


def functions_in(node: ast.AST) -> Iterator[Function]:
    """The functions of a module. Expressions are most of its nodes, and have none."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, part, ()):
            if isinstance(child, Function):
                yield child
            yield from functions_in(child)


def lines_without_docstring(function: Function) -> int:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def names_a_machine(text: str) -> bool:
    # To look for the words is a tenth of the work, and few files have them.
    has_words = any(f"/{name}" in text for name in ("work", "tmp"))
    return has_words and MACHINE_PATH.search(text) is not None


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


def faults_of(path: Path) -> Iterator[str]:
    """What a module lacks: docstrings; and what of it is too long."""
    text = path.read_text("utf-8")
    if len(text.splitlines()) > MAX_FILE_LINES:
        yield f"it has more than {MAX_FILE_LINES} lines"
    tree = ast.parse(text)
    if not ast.get_docstring(tree):
        yield "it does not say what it is"
    # By name, so that of the overloads of a function only the last one counts.
    definitions = {node.name: node for node in tree.body if isinstance(node, Definition)}
    for name, node in definitions.items():
        if not name.startswith("_") and not ast.get_docstring(node):
            yield f"{name} has no docstring"
    for node in functions_in(tree):
        if lines_without_docstring(node) > MAX_FUNCTION_LINES:
            yield f"{node.name} has more than {MAX_FUNCTION_LINES} lines"


def test_every_module_says_what_it_is_and_is_short() -> None:
    faults = [f"{by_path(path)}: {fault}" for path in MODULES for fault in faults_of(path)]
    assert not faults, "\n".join(faults)


def test_importing_upshot_loads_no_heavy_library() -> None:
    tops = {name.partition(".")[0] for name in loaded_by("import upshot")}
    assert not tops & LOADED_AT_FIRST_USE
    assert not any(name.startswith("upshot.guard") for name in loaded_by("import upshot"))


def test_naming_a_model_of_a_cloud_loads_no_library_of_the_cloud() -> None:
    named = "upshot.resolve('bedrock:m'); upshot.resolve('vertex:m')"
    tops = {name.partition(".")[0] for name in loaded_by(f"import upshot; {named}")}
    assert not tops & LOADED_AT_FIRST_USE


@pytest.mark.slow("tools")
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
        if names_a_machine(path.read_text("utf-8", errors="replace"))
    ]
    assert not naming
