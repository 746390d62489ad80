"""McpTools: the tools of one MCP server."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mcp import MCPError
from mcp_types import Tool as Listed

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.message import Message
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.tools.definition.body import usable_schema
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.definition.tool_options import Trust
from upshot.tools.mcp.connection import CannotConnect, Connection, Line
from upshot.tools.mcp.exchange import Exchange, list_tools
from upshot.tools.mcp.exchange_errors import LineLost, not_done, reach, read_refusal
from upshot.tools.mcp.resources import Resources
from upshot.tools.mcp.skills import Skill, list_skills, make_skill_tool

TOOL_CHANGED = "tool_changed"

_MAX_NAME_CHARS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Terms:
    """How a server's tools are used.

    Attributes:
        namespace: The prefix of every name.
        trusted: Whether the server's annotations are believed.
        include: Globs for the server's own names; None includes all.
        exclude: Globs for names to leave out.
        timeout_s: Seconds for one call.
        trust: The label of the results.
        network: Whether the server itself is reached over the network.
        pins: The accepted versions of the tools, by name; None accepts any.
        resources: Whether there are tools that read the server's resources.
        skills: Whether there is a tool that reads the server's skills.
    """

    namespace: str
    trusted: bool
    include: tuple[str, ...] | None
    exclude: tuple[str, ...]
    timeout_s: float
    trust: Trust
    network: bool
    pins: Mapping[str, str] | None
    resources: bool = False
    skills: bool = False

    def takes(self, name: str) -> bool:
        """Return whether the tool that the server calls *name* is included."""
        wanted = self.include is None or any(fnmatchcase(name, glob) for glob in self.include)
        return wanted and not any(fnmatchcase(name, glob) for glob in self.exclude)


class McpTools:
    """The tools of one MCP server: an iterable of ``Tool``, made by ``open_mcp``."""

    def __init__(self, connection: Connection, terms: Terms) -> None:
        self._connection = connection
        self._terms = terms
        self._loop = asyncio.get_running_loop()
        self._tools: dict[str, Tool] = {}
        self._own_names: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._changed: set[str] = set()
        self._checked: Line | None = None
        self._comparing = asyncio.Lock()
        self._resources = Resources(connection, terms.namespace, terms.trust)

    def __repr__(self) -> str:
        return f"McpTools({list(self._tools)})"

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        """Return the tool called *name*, with or without the namespace.

        Raises:
            KeyError: There is no such tool.
        """
        return self._tools.get(name) or self._tools[to_tool_name(self._terms.namespace, name)]

    @property
    def pins(self) -> dict[str, str]:
        """The versions of the tools by name, to store and pass to ``open_mcp(pins=...)``."""
        return {tool.name: tool.version for tool in self._tools.values()}

    @property
    def changed(self) -> frozenset[str]:
        """Tools whose description has changed on the server since they were first listed.

        Calls of them fail until the tool set is opened again.
        """
        return frozenset(self._own_names[name] for name in self._changed)

    async def resources(self) -> list[JsonObject]:
        """Return the server's resources as it describes them, and templates of their addresses.

        Raises:
            ToolError: The server cannot be reached, or refuses.
        """
        return await self._resources.list()

    async def resource(self, uri: str) -> Message:
        """Return a resource as a message of the user, for a ``Request``.

        Unless the server is trusted, it taints the run that reads it.

        Raises:
            ToolError: The server cannot be reached, or refuses.
        """
        return await self._resources.message(uri)

    async def prompts(self) -> list[JsonObject]:
        """Return the server's prompts as it describes them.

        Raises:
            ToolError: The server cannot be reached, or refuses.
        """
        return await self._resources.prompts()

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Return the messages of a prompt.

        Unless the server is trusted, they taint the run that reads them.

        Raises:
            ToolError: The server cannot be reached, or refuses.
        """
        return await self._resources.prompt(name, arguments or {})

    async def load(self) -> None:
        """List the server's tools.

        Raises:
            Misuse: No tool is included, or two of them have the same name.
            CannotConnect: The server cannot be reached, or does not list its tools in time.
            MCPError, ...: Whatever the connection raises.
        """
        line = await self._connection.open()
        timeout_s = self._terms.timeout_s
        # Separate from the start, whose own timeout reports what the server wrote.
        listing = asyncio.ensure_future(list_tools(line))
        try:
            if not await self._connection.wait_for(listing, timeout_s):
                raise CannotConnect(f"it did not list its tools within {timeout_s:g} s")
        finally:
            listing.cancel()
        listed = listing.result()
        for one in listed:
            if self._terms.takes(one.name):
                self._add(one)
        self._checked = line
        if self._terms.resources and line.client.server_capabilities.resources is not None:
            own = self._resources.tools(network=self._terms.network, timeout_s=timeout_s)
            self._add_own(own)
        if self._terms.skills and (skills := await list_skills(line)):
            self._add_own([self._make_skill_tool(skills)])
        if not self._tools and self._terms.include is not None:
            names = ", ".join(one.name for one in listed) or "none"
            raise Misuse(
                f"open_mcp({self._terms.namespace!r}): include= matches no tool; it has: {names}"
            )

    def _make_skill_tool(self, skills: Mapping[str, Skill]) -> Tool:
        terms = self._terms
        return make_skill_tool(
            skills,
            self._resources.read,
            namespace=terms.namespace,
            network=terms.network,
            timeout_s=terms.timeout_s,
            trust=terms.trust,
        )

    def _add_own(self, tools: Iterable[Tool]) -> None:
        """Add tools that are made here."""
        for tool in tools:
            if tool.name in self._tools:
                raise Misuse(
                    f"the MCP server has a tool {tool.name!r} of its own: exclude= it, or leave "
                    "out resources= or skills="
                )
            self._tools[tool.name] = tool

    def _add(self, listed: Listed) -> None:
        tool = self._make(listed)
        if tool.name in self._tools:
            raise Misuse(f"the MCP server has two tools called {listed.name!r}")
        pins = self._terms.pins
        if pins is not None and pins.get(tool.name) != tool.version:
            tool = tool.but(approval=True)
        self._tools[tool.name] = tool
        self._own_names[listed.name] = tool.name
        self._digests[listed.name] = _digest_of(listed)

    def _make(self, listed: Listed) -> Tool:
        name, terms = listed.name, self._terms
        annotations = listed.annotations if terms.trusted else None
        reads = bool(annotations and annotations.read_only_hint)
        effect = Effect.READ if reads else Effect.WRITE
        if annotations and annotations.destructive_hint and not reads:
            effect = Effect.DESTRUCTIVE
        # In the protocol, this hint applies only to tools that write.
        idempotent = bool(annotations and annotations.idempotent_hint and not reads)
        hints = listed.annotations
        support = None if listed.execution is None else listed.execution.task_support
        may_be_task = support in ("optional", "required")

        async def call(context: ToolContext, arguments: JsonObject) -> object:
            return await self._call(
                name, arguments, context, safe=reads or idempotent, may_be_task=may_be_task
            )

        setattr(call, "continues", True)  # noqa: B010  # a function has no such field to a type checker
        own_name = to_tool_name(terms.namespace, name)
        return Tool.from_schema(
            own_name,
            listed.description or listed.title or "",
            usable_schema(own_name, listed.input_schema),
            call,
            effect=effect,
            idempotent=idempotent,
            # A hint that makes it stricter is believed even from an untrusted server.
            network=terms.network or bool(hints and hints.open_world_hint),
            timeout_s=terms.timeout_s,
            error_key=None,
            trust=terms.trust,
            foreign=True,
        )

    async def _call(
        self,
        name: str,
        arguments: JsonObject,
        context: ToolContext,
        *,
        safe: bool,
        may_be_task: bool,
    ) -> object:
        if asyncio.get_running_loop() is not self._loop:
            raise not_done("its MCP server was opened in another event loop", retryable=False)
        for last in (False, True):
            line = await reach(self._connection)
            try:
                await self._check(name, line)
                connection = self._connection
                return await Exchange(
                    line,
                    name,
                    arguments,
                    context,
                    connection=connection,
                    may_repeat=safe,
                    may_be_task=may_be_task,
                ).run()
            except LineLost as lost:
                # Only a call that was never sent, or is safe to repeat, is sent again; and only
                # once, because it may be what crashes the server.
                if last or (lost.sent and not safe):
                    raise lost.to_tool_error(safe=safe) from lost
            except ToolError as error:
                error.message = self._connection.secrets.mask_text(error.message)
                error.args = (error.message,)
                raise
        raise AssertionError("the last try returns or raises")

    async def _check(self, name: str, line: Line) -> None:
        # Concurrent calls wait for the one comparison that says whether they may run.
        async with self._comparing:
            await self._compare(line)
        if name in self._changed:
            raise not_done(
                f"the server has changed {name} since it was listed; check it and open the tool "
                "set again before it is called",
                code=TOOL_CHANGED,
                retryable=False,
            )

    async def _compare(self, line: Line) -> None:
        """Compare the tools with how they were first listed."""
        if line is self._checked and not line.stale:
            return
        # Unchecked until the list has arrived, whatever interrupts the wait for it.
        self._checked, line.stale = None, False
        try:
            listed = await list_tools(line)
        except Exception as error:  # a server may fail in any way; the call was not made
            if isinstance(error, MCPError) and isinstance(read_refusal(line, error), LineLost):
                raise LineLost(sent=False) from error
            raise not_done(f"the server does not list its tools: {error}") from error
        now = {one.name: _digest_of(one) for one in listed}
        self._changed = {name for name, then in self._digests.items() if now.get(name) != then}
        self._checked = line


def to_tool_name(namespace: str, name: str) -> str:
    """Return the name by which a model calls the server's tool *name*."""
    whole = f"{namespace}_{name}"
    plain = _NOT_IN_NAMES.sub("_", whole)
    if plain == whole and len(whole) <= _MAX_NAME_CHARS:
        return whole
    # So that two different names stay different.
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{plain[: _MAX_NAME_CHARS - 9]}_{digest}"


def _digest_of(listed: Listed) -> str:
    identity = canonical_json([listed.description, listed.input_schema])
    return hashlib.sha256(identity).hexdigest()
