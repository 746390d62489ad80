"""Agent Skills: folders with a ``SKILL.md`` that a model reads when it needs them.

The format is that of https://agentskills.io/specification. A model sees the name and description of
each skill in the description of one tool, and reads the text and the other files by calling it. So
a skill passes the same gates, limits and log as any other tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from upshot.contract.base.checks import did_you_mean
from upshot.data_files import parse_yaml
from upshot.errors import Misuse
from upshot.tools.catalog import ToolSet
from upshot.tools.definition.tool import Tool, tool
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.definition.tool_options import Trust

MAIN_FILE = "SKILL.md"

MAX_FILE_BYTES = 1_000_000
"""A larger file of a skill is not read."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_CHARS, _DESCRIPTION_CHARS = 64, 1024
_LISTED_FILES = 100
_FENCE = "---"


@dataclass(frozen=True, slots=True)
class _Skill:
    name: str
    description: str
    folder: Path

    def files(self) -> Iterator[str]:
        """Yield its other files, relative to its folder; hidden ones are left out."""
        for path in sorted(self.folder.rglob("*")):
            inner = path.relative_to(self.folder)
            is_hidden = any(part.startswith(".") for part in inner.parts)
            if path.is_file() and not is_hidden and inner != Path(MAIN_FILE):
                yield inner.as_posix()

    def read(self, file: str) -> str:
        """Return a file's text; that of ``SKILL.md`` without its header, and with a list of files.

        Raises:
            ToolError: There is no such file in the folder, or it is too large or not text.
        """
        path, folder = (self.folder / file).resolve(), self.folder.resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            hint = did_you_mean(file, [MAIN_FILE, *self.files()], "read SKILL.md for a list")
            raise ToolError(f"skill {self.name} has no file {file!r:.100}: {hint}")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ToolError(f"{file} of skill {self.name} has {size:,} bytes, too many to read")
        try:
            text = path.read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise ToolError(f"{file} of skill {self.name} is not text ({size:,} bytes)") from None
        if path != folder / MAIN_FILE:
            return text
        files = [*self.files()]
        shown = "\n".join(f"- {one}" for one in files[:_LISTED_FILES])
        more = f"\n- and {len(files) - _LISTED_FILES} more" if len(files) > _LISTED_FILES else ""
        return split_header(text)[1].strip() + (f"\n\nOther files:\n{shown}{more}" if files else "")


def load_skills(*folders: str | Path, tool_name: str = "read_skill", trust: Trust = "") -> ToolSet:
    """Return a tool set that lets an agent read skills; an item of ``Agent.tools``.

    Its one tool reads and never writes. Scripts in a skill are read like any other text; to run
    them, give the agent a tool that does so. Names and descriptions are read now, texts when the
    model asks for them.

    Args:
        folders: Each is a skill, a folder with a ``SKILL.md``, or has such folders in it.
        tool_name: The name of the tool.
        trust: "untrusted" if the skills were written by others; see ``Tool``.

    Raises:
        Misuse: A folder is missing or has no skill, a ``SKILL.md`` is not as the format says, or
            two skills have one name. It needs the extra ``machine``, for YAML.
    """
    skills = dict[str, _Skill]()
    for folder in folders:
        for one in _skills_in(Path(folder)):
            if (other := skills.setdefault(one.name, one)) is not one:
                raise Misuse(
                    f"{one.folder} and {other.folder} both have the skill {one.name!r}: leave one "
                    "of them out"
                )
    if not skills:
        raise Misuse("load_skills needs a folder: give one with a SKILL.md, or with such folders")
    return ToolSet([_make_tool(skills, tool_name, trust)])


def _make_tool(skills: dict[str, _Skill], name: str, trust: Trust) -> Tool:
    def read_skill(skill: str, file: str = MAIN_FILE) -> str:
        return skills[skill].read(file)

    # The model is offered these names only.
    read_skill.__annotations__ = {
        "skill": Literal[tuple(skills)],
        "file": str,
        "return": str,
    }
    listed = "\n".join(f"- {one.name}: {one.description}" for one in skills.values())
    description = (
        "Reads a skill: instructions for a kind of task. If a task matches a description, read the "
        f"skill before you start, and its other files when it refers to them.\n{listed}"
    )
    made = tool(name=name, description=description, effect="read", trust=trust)(read_skill)
    return cast("Tool", made)


def _skills_in(folder: Path) -> Iterable[_Skill]:
    if not folder.is_dir():
        raise Misuse(f"{folder} is no folder: give one with a SKILL.md, or with such folders")
    if (folder / MAIN_FILE).is_file():
        return (_load(folder),)
    inner = [one for one in sorted(folder.iterdir()) if (one / MAIN_FILE).is_file()]
    if not inner:
        raise Misuse(f"{folder} has no skill: put a SKILL.md into it, or into a folder in it")
    return map(_load, inner)


def _load(folder: Path) -> _Skill:
    path = folder / MAIN_FILE
    try:
        header, _ = split_header(path.read_text("utf-8-sig"))
    except UnicodeDecodeError:
        raise Misuse(f"{path} is not UTF-8 text") from None
    found = parse_yaml(header, str(path))
    fields = cast("dict[object, object]", found) if isinstance(found, dict) else {}
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _NAME_CHARS:
        raise Misuse(
            f"{path}: name is {name!r:.80}: start the file with a header (---) whose name is up to "
            f"{_NAME_CHARS} small letters, digits and single hyphens, such as {folder.name!r}"
        )
    if name != folder.resolve().name:
        raise Misuse(f"{path}: name is {name!r}: the folder must have the same name")
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _DESCRIPTION_CHARS:
        raise Misuse(
            f"{path}: description is {description!r:.80}: say in 1 to {_DESCRIPTION_CHARS:,} "
            "characters what the skill does and when to use it"
        )
    return _Skill(name, " ".join(description.split()), folder)


def split_header(text: str) -> tuple[str, str]:
    """Return the header and the body of a ``SKILL.md``; without a header it is empty."""
    lines = text.splitlines()
    fences = [number for number, line in enumerate(lines) if line.rstrip() == _FENCE]
    if len(fences) < 2 or fences[0] != 0:
        return "", text
    # The fence becomes an empty line, so that faults name the right one.
    return "\n".join(["", *lines[1 : fences[1]]]), "\n".join(lines[fences[1] + 1 :])
