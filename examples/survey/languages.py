"""Which language a file is written in, by its name."""

from __future__ import annotations

from pathlib import PurePosixPath

__all__ = ["OTHER", "language_of"]

OTHER = "other text"

BY_SUFFIX = {
    ".bash": "Shell",
    ".c": "C",
    ".cc": "C++",
    ".cfg": "Configuration",
    ".clj": "Clojure",
    ".cpp": "C++",
    ".cs": "C#",
    ".css": "CSS",
    ".dart": "Dart",
    ".ex": "Elixir",
    ".exs": "Elixir",
    ".erl": "Erlang",
    ".go": "Go",
    ".h": "C",
    ".hpp": "C++",
    ".hs": "Haskell",
    ".html": "HTML",
    ".ini": "Configuration",
    ".java": "Java",
    ".jl": "Julia",
    ".js": "JavaScript",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".jsx": "JavaScript",
    ".kt": "Kotlin",
    ".lua": "Lua",
    ".md": "Markdown",
    ".mjs": "JavaScript",
    ".ml": "OCaml",
    ".php": "PHP",
    ".pl": "Perl",
    ".proto": "Protocol Buffers",
    ".py": "Python",
    ".pyi": "Python",
    ".r": "R",
    ".rb": "Ruby",
    ".rs": "Rust",
    ".rst": "reStructuredText",
    ".scala": "Scala",
    ".sh": "Shell",
    ".sql": "SQL",
    ".svelte": "Svelte",
    ".swift": "Swift",
    ".tf": "Terraform",
    ".toml": "TOML",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".vue": "Vue",
    ".xml": "XML",
    ".yaml": "YAML",
    ".yml": "YAML",
    ".zig": "Zig",
}
BY_NAME = {
    "CMakeLists.txt": "CMake",
    "Dockerfile": "Dockerfile",
    "Makefile": "Make",
}


def language_of(file: str) -> str:
    """The language of *file*, ``OTHER`` where its name does not tell."""
    path = PurePosixPath(file)
    return BY_NAME.get(path.name) or BY_SUFFIX.get(path.suffix.lower(), OTHER)
