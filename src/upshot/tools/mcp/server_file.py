"""open_mcp_servers: the servers of an ``mcpServers`` file, as other MCP clients keep them."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, cast

from upshot.async_context import block
from upshot.contract.base.checks import did_you_mean, format_value
from upshot.errors import Misuse
from upshot.tools.mcp.oauth import OAuth
from upshot.tools.mcp.open_mcp import open_mcp

if TYPE_CHECKING:
    import httpx2

    from upshot.tools.definition.tool_options import Trust
    from upshot.tools.mcp.mcp_toolset import McpTools
    from upshot.tools.mcp.server_requests import Elicit, Sample

    Auth: TypeAlias = OAuth | httpx2.Auth
    Credentials: TypeAlias = Mapping[str, Auth] | Callable[[str, str], Auth | None]

_KEYS = ("mcpServers", "servers")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
# ${NAME}, ${env:NAME} and ${NAME:-value}, as the files of Claude, Cursor and VS Code have them.
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_OTHER = re.compile(r"\$\{[^}]*\}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class SharedOptions(TypedDict, total=False):
    """Options of ``open_mcp`` that hold for every server of a file.

    Attributes:
        timeout_s: Seconds for the start of a server, for the first list of its tools, and for each
            call.
        trust: The label of the results.
        elicit: Answers questions of servers at once.
        sampling: Whether the run's model replies to servers, or a function that does.
        roots: The folders that the servers are told to work on.
        resources: Whether there are tools that read the resources of servers that have any.
        skills: Whether there are tools that read the skills of servers that have any.
    """

    timeout_s: float
    trust: Trust | None
    elicit: Elicit | None
    sampling: bool | Sample
    roots: Iterable[str | Path] | None
    resources: bool
    skills: bool


@block("upshot.open_mcp_servers(...)", "servers")
async def open_mcp_servers(
    source: str | Path | Mapping[str, Any],
    *,
    only: Iterable[str] | None = None,
    trusted: Iterable[str] = (),
    auth: Credentials | None = None,
    **options: Unpack[SharedOptions],
) -> AsyncGenerator[dict[str, McpTools]]:
    """Open the servers of an ``mcpServers`` file, all at the same time.

    ::

        async with open_mcp_servers("mcp.json") as servers:
            agent = Agent("a", model=..., tools=[*servers.values()])

    The files of Claude, Cursor and VS Code are read: ``mcpServers`` or ``servers``, by name, with
    ``command``, ``args``, ``env`` and ``cwd``, or ``url`` and ``headers``. In their texts,
    ``${NAME}`` and ``${env:NAME}`` are environment variables, and ``${NAME:-text}`` has a default.
    A server with ``disabled`` is left out. Other keys are ignored: no file says which tools are
    trusted or approved.

    Args:
        source: The file, or what it contains.
        only: The names of the servers to open; None opens all.
        trusted: The names of servers whose annotations are believed.
        auth: What authorises the requests, by the name of the server; or a function that returns it
            for the name and the address of a server without a header ``Authorization``.
        options: See ``SharedOptions``.

    Yields:
        The tool sets by the name of their server, in the order of the file, until the block ends.

    Raises:
        Misuse: The file is not valid, a name is unknown, or a server cannot be used.
    """
    file, found = _read(source)
    wanted = list(found) if only is None else list(only)
    credentials = auth or {}
    for name in (*wanted, *trusted, *(() if callable(credentials) else credentials)):
        if name not in found:
            there = ", ".join(found) or "none"
            hint = did_you_mean(name, found, f"it has: {there}")
            raise Misuse(f"{file} has no server {name!r}: {hint}")
    places = {name: _read_server(file, name, found[name]) for name in found if name in wanted}
    spaces = {name: _NOT_IN_NAMES.sub("_", name) for name in places}
    if len({*spaces.values()}) < len(spaces):
        raise Misuse(f"{file}: the tools of two servers would have the same names: rename one")
    believed = {*trusted}
    async with AsyncExitStack() as stack:

        async def enter(name: str) -> McpTools:
            opened = open_mcp(
                spaces[name],
                **places[name],
                **options,
                auth=_auth_of(name, places[name], credentials),
                trusted=name in believed,
            )
            return await stack.enter_async_context(opened)

        opening = {name: asyncio.ensure_future(enter(name)) for name in places}
        try:
            # The first that fails ends the others, which would be closed at once.
            await asyncio.gather(*opening.values())
        finally:
            for one in opening.values():
                one.cancel()
            await asyncio.gather(*opening.values(), return_exceptions=True)
        yield {name: one.result() for name, one in opening.items()}


def _auth_of(name: str, place: Mapping[str, Any], credentials: Credentials) -> Auth | None:
    if not callable(credentials):
        return credentials.get(name)
    has_own = "authorization" in {header.lower() for header in place.get("headers", ())}
    if has_own or "url" not in place:
        return None
    return credentials(name, place["url"])


def _read(source: str | Path | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return what to call the source in messages, and its enabled servers."""
    if isinstance(source, str | Path):
        file = str(source)
        try:
            whole = json.loads(Path(source).expanduser().read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise Misuse(f"{file} cannot be read: {error}") from error
    else:
        file, whole = "open_mcp_servers", source
    servers = next((whole[key] for key in _KEYS if key in whole), None) if whole else None
    if not isinstance(servers, Mapping):
        raise Misuse(f'{file}: give an object "mcpServers" with the servers by name')
    named = cast("Mapping[str, Any]", servers)
    for name, one in named.items():
        if not isinstance(one, Mapping):
            raise Misuse(f"{file}: {name} is {format_value(one)}: give an object")
    return file, {name: one for name, one in named.items() if not one.get("disabled")}


def _read_server(file: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``open_mcp`` that say where a server is."""
    where = f"{file}: {name}"
    kind = given.get("type")
    if kind == "sse":
        raise Misuse(f"{where}: the transport sse is not supported: give its streamable HTTP url")
    if kind not in (None, "stdio", *_HTTP):
        raise Misuse(f"{where}.type is {format_value(kind)}: give stdio or http")
    url, command = given.get("url", given.get("serverUrl")), given.get("command")
    if (url is None) == (command is None):
        raise Misuse(f"{where}: give either command or url")
    if url is not None:
        headers = _read_pairs(f"{where}.headers", given.get("headers"))
        return {"url": _expand(f"{where}.url", url), "headers": headers}
    words = [command, *_read_list(f"{where}.args", given.get("args"))]
    cwd = given.get("cwd")
    return {
        "command": [_expand(f"{where}.command", word) for word in words],
        "env": _read_pairs(f"{where}.env", given.get("env")),
        "cwd": None if cwd is None else _expand(f"{where}.cwd", cwd),
    }


def _read_list(where: str, given: object) -> list[object]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise Misuse(f"{where} is {format_value(given)}: give a list of texts")
    return cast("list[object]", given)


def _read_pairs(where: str, given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Misuse(f"{where} is {format_value(given)}: give an object of texts")
    pairs = cast("Mapping[str, object]", given)
    return {key: _expand(f"{where}.{key}", value) for key, value in pairs.items()}


def _expand(where: str, given: object) -> str:
    """Return a text with its variables replaced."""
    # As other clients do with the values of env.
    if isinstance(given, int | float) and not isinstance(given, bool):
        given = str(given)
    if not isinstance(given, str):
        raise Misuse(f"{where} is {format_value(given)}: give a text")

    def value_of(found: re.Match[str]) -> str:
        value = os.environ.get(found[1], cast("str | None", found[2]))
        if value is None:
            raise Misuse(f"{where} needs the variable {found[1]}, which is not set")
        return value

    # What is not a variable of the environment is found first: a value may look like one.
    others = [one[0] for one in _OTHER.finditer(given) if not _VARIABLE.fullmatch(one[0])]
    if others:
        raise Misuse(f"{where} has {others[0]}, which only its editor can fill in")
    return _VARIABLE.sub(value_of, given)
