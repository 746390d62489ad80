"""What is built can be installed and used, by each installer and Python that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PYTHONS = [
    path
    for name in ("python3.11", "python3.12", "python3.13", "python3.14")
    if (path := shutil.which(name)) and not subprocess.run([path, "-c", ""], check=False).returncode
]
MAX_WHEEL_BYTES = 1_500_000
# aiohttp brings nine of them.
MAX_DISTRIBUTIONS = 13

AGENT = '''
import upshot

@upshot.tool(effect="write")
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"

model = upshot.ScriptedModel([upshot.ToolCall("1", "refund", {"order": 7}), "Refunded."])
agent = upshot.Agent("desk", model=model, tools=[refund])
app = upshot.App([agent], journal="desk.db")
'''
RUN = """
from importlib.metadata import version

import upshot
from desk import agent

result = upshot.run_sync(agent, "Refund order 7.", journal="runs.db")
print(version("upshot-agents"), result.status, result.tool_outcomes[0].effect, result.content)
"""


def said(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; it must succeed."""
    # Nothing of this checkout may be found: neither its modules nor its environment.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(one) for one in command], check=False, cwd=cwd, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the two files of the distribution; the wheel is built from the other one."""
    folder = tmp_path_factory.mktemp("dist")
    said(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (found,) = built.glob("upshot_agents-*-py3-none-any.whl")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(AGENT)
    (tmp_path / "use.py").write_text(RUN)
    return tmp_path


def test_the_index_takes_what_is_built(built: Path) -> None:
    said(sys.executable, "-m", "twine", "check", "--strict", *sorted(built.iterdir()))


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"upshot", "upshot_agents"}
    assert {"upshot/py.typed", "upshot/serve/static/console.js"} <= set(names)
    assert {"upshot/entry/api.pyi", "upshot/fleet/app.pyi"} <= set(names)
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources
    size = wheel.stat().st_size
    print(f"the wheel has {size / 1024:.0f} KiB")
    assert size <= MAX_WHEEL_BYTES


def test_who_has_the_sources_has_the_tests(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "Makefile", "tests/conftest.py"} <= names
    assert {"schema/upshot.schema.json", "docs/tutorial.md", "examples/survey/demo.py"} <= names


@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
def test_an_agent_runs_where_the_wheel_is_installed(
    wheel: Path, folder: Path, python: str, installer: str
) -> None:
    place = folder / "env"
    if installer == "pip":
        said(python, "-m", "venv", place)
        said(place / "bin/pip", "install", "--quiet", wheel)
    else:
        said(BIN / "uv", "venv", "--quiet", "--python", python, place)
        said(BIN / "uv", "pip", "install", "--quiet", "--python", place / "bin/python", wheel)
    version = wheel.name.split("-")[1]
    used = said(place / "bin/python", "-W", "error", "use.py", cwd=folder)
    assert used.split() == [version, "completed", "applied", "Refunded."]
    listing = "import importlib.metadata as m; print(*{d.name for d in m.distributions()})"
    installed = set(said(place / "bin/python", "-c", listing).split()) - {
        "pip",
        "setuptools",
        "upshot-agents",
    }
    print(f"{len(installed)} distributions")
    assert len(installed) <= MAX_DISTRIBUTIONS
    # The command says what it needs, in a line.
    bare = subprocess.run([place / "bin/upshot"], check=False, capture_output=True, text=True)
    assert bare.returncode == 2 and "upshot-agents[cli]" in bare.stderr
    assert "Traceback" not in bare.stderr


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
def test_the_command_runs_without_being_installed(wheel: Path, folder: Path, python: str) -> None:
    uvx = [BIN / "uvx", "--quiet", "--python", python, "--from", f"{wheel}[cli,serve]", "upshot"]
    assert wheel.name.split("-")[1] in said(*uvx, "--version")
    answer = said(*uvx, "run", "desk.py:agent", "Refund order 7.", "--journal", "r.db", cwd=folder)
    assert "Refunded." in answer
    assert "refund" in said(*uvx, "show", "last", "--journal", "r.db", cwd=folder)
    assert "--port" in said(*uvx, "serve", "--help", cwd=folder)
