"""The types of the console's API as TypeScript, and a check of the console's script by them.

``python -m tests.serve.console_types FOLDER`` writes ``api.d.ts`` and a ``tsconfig.json`` for an
editor or for ``tsc``.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

import upshot.serve
from upshot.contract.message import Part
from upshot.contract.pending import AnyAnswer, Outdated, Pending, Taken
from upshot.contract.protocols import RunCounts
from upshot.contract.schema import write_json_schema, write_typescript
from upshot.journal.audit import AuditPage
from upshot.serve import replies
from upshot.state.run_view import RunView

SCRIPT = Path(upshot.serve.__file__).parent / "static" / "console.js"
# What other modules define and the API sends as it is.
_OTHERS = (AuditPage, RunCounts, RunView, Taken, Outdated)
_UNIONS: dict[str, tuple[Any, str]] = {
    "AnyAnswer": (AnyAnswer, "An answer of the user."),
    "Part": (Part, "A part of a message or an artifact."),
    "Pending": (Pending, "What a parked run waits for."),
}
_OPTIONS = {
    "allowJs": True,
    "checkJs": True,
    "noEmit": True,
    "noUnusedLocals": True,
    "strict": False,
    "lib": ["es2022", "dom", "dom.iterable"],
    "module": "es2022",
    "moduleResolution": "bundler",
    "target": "es2022",
    "types": [],
}


def api_types() -> str:
    """Declarations of every reply of the console's API."""
    own = [
        kind
        for _, kind in inspect.getmembers(replies, inspect.isclass)
        if issubclass(kind, msgspec.Struct) and kind.__module__ == replies.__name__
    ]
    form: Any = write_json_schema([*own, *_OTHERS], _UNIONS, "Me", "")
    return write_typescript(form["$defs"], "What the console's API sends.")


def write_project(folder: Path, script: Path = SCRIPT) -> Path:
    """Write what ``tsc --project`` needs to check *script*; returns the project's file."""
    (folder / "api.d.ts").write_text(api_types())
    project = folder / "tsconfig.json"
    options = {**_OPTIONS, "paths": {"api": [str(folder / "api.d.ts")]}}
    files = [str(script), str(Path(__file__).with_name("console_nodes.d.ts"))]
    project.write_text(json.dumps({"compilerOptions": options, "files": files}))
    return project


if __name__ == "__main__":
    print(write_project(Path(sys.argv[1])))
