"""Skills of an MCP server: listed with the tools, and read when a model asks for one.

The server's list has the name and description of each skill, and the digest and size of each of its
files. A file is read only when the model wants it, and only what fits its entry is used.

Source:
    SEP-2640, the extension io.modelcontextprotocol/skills, read in 2026.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from mcp_types import (
    BlobResourceContents,
    PaginatedRequest,
    PaginatedRequestParams,
    ReadResourceResult,
    Result,
)
from pydantic import ValidationError

from upshot.contract.base.checks import did_you_mean
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_context import ToolContext
from upshot.data_files import parse_yaml
from upshot.errors import Misuse
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.definition.tool_options import Trust
from upshot.tools.mcp.connection import Line
from upshot.tools.mcp.server_requests import SKILLS
from upshot.tools.skills import MAIN_FILE, MAX_FILE_BYTES, split_header

_MAX_PAGES = 100
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DESCRIPTION_CHARS = 1024

Read = Callable[[str], Awaitable[ReadResourceResult]]
"""Reads a resource of the server by its address."""


class _File(Result):
    uri: str
    digest: str | None = None
    size: int | None = None


class _Entry(Result):
    uri: str
    frontmatter: dict[str, Any]
    resources: list[_File] = []


class _Listed(Result):
    skills: list[_Entry]
    next_cursor: str | None = None


class _SkillsRequest(PaginatedRequest[Literal["skills/list"]]):
    method: Literal["skills/list"] = "skills/list"


@dataclass(eq=False)
class Skill:
    """A skill of a server.

    Attributes:
        name: Its name.
        description: When to use it.
        header: What its main file must say of it.
        files: Its files by their paths in it.
        is_verified: Whether its main file was read and fits.
    """

    name: str
    description: str
    header: Mapping[str, Any]
    files: dict[str, _File]
    is_verified: bool = field(default=False)

    async def text_of(self, path: str, read: Read) -> str:
        """Return the text of a file.

        Raises:
            ToolError: There is no such file, or it does not fit its entry.
        """
        if path not in self.files:
            hint = did_you_mean(path, self.files, f"read {MAIN_FILE} for a list")
            raise ToolError(f"skill {self.name} has no file {path!r:.100}: {hint}")
        if path == MAIN_FILE or not self.is_verified:
            # Nothing of a skill is used whose main file is not what the server said of it.
            main = await self._verified(MAIN_FILE, read)
            header, body = split_header(main)
            try:
                found = parse_yaml(header, MAIN_FILE)
            except Misuse as error:
                raise self._unfit(MAIN_FILE, str(error)) from error
            if found != self.header:
                raise self._unfit(MAIN_FILE, "its header differs from the list")
            self.is_verified = True
            if path == MAIN_FILE:
                others = "\n".join(f"- {one}" for one in self.files if one != MAIN_FILE)
                return body.strip() + (f"\n\nOther files:\n{others}" if others else "")
        return await self._verified(path, read)

    async def _verified(self, path: str, read: Read) -> str:
        listed = self.files[path]
        contents = (await read(listed.uri)).contents
        if len(contents) != 1 or isinstance(contents[0], BlobResourceContents):
            raise ToolError(f"{path} of skill {self.name} is not text")
        text = contents[0].text
        data = text.encode()
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(
                f"{path} of skill {self.name} has {len(data):,} bytes, too many to read"
            )
        if listed.size is not None and len(data) != listed.size:
            raise self._unfit(path, f"it has {len(data):,} bytes and not {listed.size:,}")
        if listed.digest is not None:
            algorithm, _, expected = listed.digest.partition(":")
            if algorithm != "sha256" or hashlib.sha256(data).hexdigest() != expected:
                raise self._unfit(path, "its digest differs from the list")
        return text

    def _unfit(self, path: str, why: str) -> ToolError:
        text = f"{path} of skill {self.name} is not the file that the server listed: {why}"
        return ToolError(text, code="skill_changed", retryable=False)


async def list_skills(line: Line) -> dict[str, Skill]:
    """Return the skills of a server, by name; none if it has no skills.

    Raises:
        MCPError: The server refuses.
        Misuse: Its list is not valid.
    """
    extensions = line.client.server_capabilities.extensions or {}
    if SKILLS not in extensions:
        return {}
    found: dict[str, Skill] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        request = _SkillsRequest(params=PaginatedRequestParams(cursor=cursor))
        try:
            page = await line.client.session.send_request(request, _Listed)
        except ValidationError as error:
            raise Misuse(f"the MCP server's list of skills is not valid: {error}") from error
        for entry in page.skills:
            one = _to_skill(entry)
            if found.setdefault(one.name, one) is not one:
                raise Misuse(f"the MCP server has two skills called {one.name!r}")
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _to_skill(entry: _Entry) -> Skill:
    name, description = entry.frontmatter.get("name"), entry.frontmatter.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Misuse(f"the MCP server has a skill without a valid name: {name!r:.80}")
    if not isinstance(description, str) or not description.strip():
        raise Misuse(f"the MCP server's skill {name!r} has no description")
    root = entry.uri.removesuffix(MAIN_FILE)
    files = {one.uri.removeprefix(root): one for one in entry.resources}
    files.setdefault(MAIN_FILE, _File(uri=entry.uri))
    shown = " ".join(description.split())[:_DESCRIPTION_CHARS]
    return Skill(name, shown, entry.frontmatter, files)


def make_skill_tool(
    skills: Mapping[str, Skill],
    read: Read,
    *,
    namespace: str,
    network: bool,
    timeout_s: float,
    trust: Trust,
) -> Tool:
    """Return the tool that reads the skills of a server.

    Args:
        skills: The skills by name.
        read: Reads a resource of the server.
        namespace: The prefix of the tool's name.
        network: Whether the server is reached over the network.
        timeout_s: Seconds for one call.
        trust: The label of what it returns.
    """

    async def call(context: ToolContext, arguments: JsonObject) -> object:
        skill = skills[cast("str", arguments["skill"])]
        return await skill.text_of(cast("str", arguments.get("file", MAIN_FILE)), read)

    setattr(call, "continues", True)  # noqa: B010  # a function has no such field to a type checker
    names: list[Json] = [*skills]
    listed = "\n".join(f"- {one.name}: {one.description}" for one in skills.values())
    return Tool.from_schema(
        f"{namespace}_read_skill",
        f"Reads a skill of the MCP server {namespace}: instructions for a kind of task, and its "
        f"other files when it refers to them.\n{listed}",
        {
            "type": "object",
            "properties": {
                "skill": {"enum": names},
                "file": {"type": "string", "default": MAIN_FILE},
            },
            "required": ["skill"],
            "additionalProperties": False,
        },
        call,
        effect="read",
        network=network,
        timeout_s=timeout_s,
        error_key=None,
        trust=trust,
        # The descriptions are the server's own words.
        foreign=True,
    )
