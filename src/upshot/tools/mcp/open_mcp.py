"""open_mcp: the tools of an MCP server for the duration of a block."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from upshot.async_context import block
from upshot.contract.base.checks import check_amount, safe_address
from upshot.contract.base.secrets import Secrets
from upshot.contract.tool_calls import UNTRUSTED
from upshot.errors import Misuse, need_of_extra
from upshot.tools.definition.tool_options import TRUSTS, Trust
from upshot.tools.mcp.oauth import OAuth
from upshot.tools.mcp.server_address import Server, describe_server

if TYPE_CHECKING:
    import httpx2

    from upshot.tools.mcp.mcp_toolset import McpTools
    from upshot.tools.mcp.server_requests import Elicit, Sample


@block("upshot.open_mcp(...)", "tools")
async def open_mcp(
    namespace: str,
    *,
    command: str | Sequence[str] | None = None,
    url: str | None = None,
    trusted: bool = False,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
    timeout_s: float = 30,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    headers: Mapping[str, str] | None = None,
    auth: OAuth | httpx2.Auth | None = None,
    trust: Trust | None = None,
    pins: Mapping[str, str] | None = None,
    elicit: Elicit | None = None,
    sampling: bool | Sample = False,
    roots: Iterable[str | Path] | None = None,
    resources: bool = False,
    skills: bool = False,
) -> AsyncGenerator[McpTools]:
    """Open an MCP server's tools.

    ::

        async with open_mcp("files", command="npx -y some-server /data") as files:
            result = await run(Agent("a", model=..., tools=[files]), "...")

    A lost connection is reopened at the next call. A write that may have arrived is never sent
    again: its effect is unknown. A tool whose description has changed on the server since it was
    first listed is not called (code ``tool_changed``).

    Args:
        namespace: The prefix of each tool's name, joined with ``_``.
        command: A program to start, which communicates over its standard input and output.
        url: A streamable HTTP endpoint instead.
        trusted: Whether the server's annotations are believed. Otherwise every tool counts as a
            write that is not idempotent.
        include: Globs for the server's own names; None includes all.
        exclude: Globs for the server's own names to leave out.
        timeout_s: Seconds for the start, for the first list of its tools and for each call.
        env: Environment variables for the program, which inherits only a few harmless ones.
        cwd: The working directory of the program.
        headers: Sent with every HTTP request.
        auth: What authorises the HTTP requests: an ``OAuth``, or an authentication of ``httpx2``.
        trust: The label of its results: "untrusted", "" for a server whose words count like your
            own, or "trusted" if its records may also resolve names that the user mentions; None is
            "untrusted" unless the server is *trusted*, and "" if it is.
        pins: The stored value of an earlier ``McpTools.pins``; a tool that is new or differs needs
            approval.
        elicit: Answers a question of the server at once: with the fields of its form, "accept",
            "decline" or "cancel", or with None if nobody can answer now. None leaves questions to
            the run, which parks.
        sampling: Whether the run's model replies to the server, under the run's budget, or a
            function that replies to a ``ModelRequest``.
        roots: The folders that the server is told to work on.
        resources: Whether there are tools ``list_resources`` and ``read_resource``, if the server
            has resources.
        skills: Whether there is a tool ``read_skill``, if the server has skills. It needs the
            extra ``machine``, for YAML.

    Yields:
        The tool set, an iterable of tools, for use in the same event loop until the block ends.
        The server's process ends with the block.

    Raises:
        Misuse: The server does not start, does not answer in time or does not speak MCP; no tool
            matches *include*; or an argument is invalid.
    """
    server = describe_server(command, url, env=env, cwd=cwd, headers=headers)
    check_amount("open_mcp(timeout_s=)", timeout_s, above=0)
    if trust not in (None, *TRUSTS):
        raise Misuse(f'open_mcp(trust={trust!r}): give "untrusted", "trusted", "" or None')
    if auth is not None and not server.url:
        raise Misuse("open_mcp(auth=) needs url=: a program gets its credentials by env=")
    if isinstance(auth, OAuth):
        server = replace(server, credentials=(auth.client_secret, auth.private_key))
    if isinstance(include, str) or isinstance(exclude, str):
        raise Misuse("open_mcp: include= and exclude= are lists of globs")
    try:
        from upshot.tools.mcp.connection import Connection
        from upshot.tools.mcp.mcp_toolset import McpTools, Terms
        from upshot.tools.mcp.server_requests import Abilities, ServerRequests
    except ModuleNotFoundError as error:
        raise Misuse(need_of_extra("open_mcp", "mcp")) from error
    terms = Terms(
        namespace=namespace,
        trusted=trusted,
        include=None if include is None else tuple(include),
        exclude=tuple(exclude),
        timeout_s=timeout_s,
        trust=("" if trusted else UNTRUSTED) if trust is None else trust,
        network=bool(server.url),
        pins=pins,
        resources=resources,
        skills=skills,
    )
    requests = ServerRequests(namespace, Abilities(elicit, sampling, _folders(roots)))
    connection = Connection(server, timeout_s=timeout_s, auth=auth, requests=requests)
    try:
        tools = McpTools(connection, terms)
        await _load(tools, namespace, server, connection.secrets)
        yield tools
    finally:
        await connection.aclose()


def _folders(roots: Iterable[str | Path] | None) -> tuple[str, ...] | None:
    if isinstance(roots, str | Path):
        raise Misuse("open_mcp: roots= is a list of folders")
    return None if roots is None else tuple(map(str, roots))


async def _load(tools: McpTools, namespace: str, server: Server, secrets: Secrets) -> None:
    # The rest of an address or command may be a password or a key.
    where = safe_address(server.url) if server.url else server.command[0]
    try:
        await tools.load()
    except Misuse:
        raise
    except Exception as error:  # a server may fail in any way; the caller gets one kind of error
        text = secrets.mask_text(str(error))
        # Without the cause, whose text may contain the same secrets.
        raise Misuse(f"the MCP server {namespace!r} ({where}) cannot be used: {text}") from None
