"""One session: routes a client's requests to servers, and merges their lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

from mcp import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_INFO_META_KEY,
)

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.pending import Approve, Deny, PendingApproval
from upshot.contract.protocols import Journal
from upshot.errors import Misuse
from upshot.gateway.calls import (
    Calls,
    Elicit,
    Owner,
    Ticket,
    answer_in,
    ask,
    can_elicit,
    envelope_of,
    form_of,
)
from upshot.gateway.config import Config
from upshot.gateway.link import Link
from upshot.gateway.peer import Context, Front, Params
from upshot.tools.definition.tool import Tool
from upshot.tools.mcp.mcp_toolset import to_tool_name
from upshot.version import __version__

Result: TypeAlias = dict[str, Any]
_Handler: TypeAlias = Callable[[Context, str, dict[str, Any]], Awaitable[Result]]

# The name of the list in the result, by method.
_LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_NAMED = ("tools", "prompts")
_TO_ALL = frozenset(("ping", "logging/setLevel"))
_MAX_PAGES = 100
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_TASKS = "io.modelcontextprotocol/tasks"


class Session:
    """Serves one client.

    Args:
        config: The gateway's configuration.
        journal: Stores the calls.
        owner: The user and tenant that the calls belong to.
        front: Sends to the client outside its requests; None if that is impossible.
    """

    def __init__(self, config: Config, journal: Journal, owner: Owner, front: Front | None) -> None:
        self._config = config
        self._front = front
        self._by: str = owner.user or "the client's user"
        self.links: dict[str, Link] = {
            name: Link(terms, self._asked_back, self._forward_notification, config.masks)
            for name, terms in config.servers.items()
        }
        self.calls: Calls = Calls(config, journal, owner)
        self._is_single: bool = len(self.links) == 1
        self._places: dict[str, tuple[Link, str]] = {}
        self._full_names: dict[str, str] = {}
        self._prompts: dict[str, tuple[Link, str]] = {}
        self._resources: dict[str, Link] = {}
        self._loading = asyncio.Lock()
        self._is_loaded = False
        self._capabilities: object = None
        self._listens: dict[str, tuple[Json, Context]] = {}
        self._count = 0
        self._handlers: dict[str, _Handler] = {
            "initialize": self._initialize,
            "tools/call": self._call,
            "subscriptions/listen": self._listen,
        }
        if not self._is_single:
            self._handlers |= {
                "server/discover": self._discover,
                "prompts/get": self._get_prompt,
                "completion/complete": self._complete,
                **dict.fromkeys(_LISTS, self._list),
                **dict.fromkeys(_TO_ALL, self._ask_all),
                **dict.fromkeys(
                    ("resources/read", "resources/subscribe", "resources/unsubscribe"),
                    self._on_resource,
                ),
            }

    async def on_request(self, context: Context, method: str, params: Params) -> Result:
        """Answer a request of the client.

        Raises:
            MCPError: The server, or the gateway, refuses it.
        """
        handler = self._handlers.get(method, self._pass_on)
        try:
            found = await handler(context, method, _without_tasks(params or {}))
            return self.calls.mask(_without_tasks(found) if "capabilities" in found else found)
        except MCPError as error:
            text = self.calls.mask(error.message)
            raise MCPError(error.code, text, self.calls.mask(error.data)) from error

    async def on_notify(self, method: str, params: Params) -> None:
        """Forward a notification of the client."""
        for link in self.links.values():
            await link.notify(method, params)

    def found(self) -> list[tuple[str, Tool]]:
        """The tools that were found, by the names that the file gives them."""
        tools = self.calls.tools
        return [(full, tools[own]) for full, own in self._full_names.items()]

    async def aclose(self) -> None:
        """End the connections to the servers."""
        await asyncio.gather(*(link.aclose() for link in self.links.values()))
        await self.calls.aclose()

    # -- what servers ask and tell

    async def _asked_back(
        self, link: Link, context: Context, method: str, params: Params
    ) -> Result:
        """Forward a server's request to the client."""
        able = (one for one in reversed(link.in_flight) if one.can_send_request)
        target: Front | None = next(able, self._front)
        if target is None:
            raise MCPError(METHOD_NOT_FOUND, f"the client cannot be asked: {method}")
        return await target.request(method, self.calls.mask(params), context.progress)

    async def _forward_notification(self, link: Link, method: str, params: Params) -> None:
        """Forward a server's notification to the client."""
        if method == "notifications/tools/list_changed":
            self._is_loaded = False
        masked = self.calls.mask(params)
        if (listened := self._listened(masked)) is not None:
            masked, context = listened
            await context.notify(method, masked)
        elif link.in_flight and (self._front is None or method == "notifications/message"):
            await link.in_flight[-1].notify(method, masked)
        elif self._front is not None:
            await self._front.notify(method, masked)

    def _listened(self, params: Params) -> tuple[dict[str, Any], Context] | None:
        """Return a notification for the stream that the client opened, and that stream."""
        meta = cast("JsonObject", (params or {}).get("_meta") or {})
        found = self._listens.get(str(meta.get(_SUBSCRIPTION)))
        if found is None:
            return None
        return {**(params or {}), "_meta": {**meta, _SUBSCRIPTION: found[0]}}, found[1]

    # -- requests

    async def _pass_on(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        """Send a request to the first server that knows its method."""
        refused: MCPError | None = None
        for link in self.links.values():
            try:
                return await ask(link, context, method, params)
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                refused = error
        raise refused or MCPError(METHOD_NOT_FOUND, f"no server knows {method}")

    async def _ask_all(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        for link in self.links.values():
            try:
                await ask(link, context, method, params)
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
        return {}

    async def _initialize(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        self._capabilities = params.get("capabilities")
        results = await asyncio.gather(*(one.initialize(params) for one in self.links.values()))
        return results[0] if self._is_single else _merged(results)

    async def _discover(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        results = await asyncio.gather(
            *(ask(one, context, method, params) for one in self.links.values())
        )
        return _merged(results)

    async def _listen(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        """Open a stream of notifications at every server that has them."""

        async def listen(link: Link) -> Result:
            self._count += 1
            id = f"listen-{self._count}"
            self._listens[id] = (cast("Json", context.request_id), context)
            try:
                return await ask(link, context, method, params, request_id=id)
            finally:
                del self._listens[id]

        results = await asyncio.gather(
            *(listen(one) for one in self.links.values()), return_exceptions=not self._is_single
        )
        for one in results:
            if isinstance(one, dict):
                return one
        raise cast("BaseException", results[0])

    async def _list(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        """List all pages of all servers as one, with distinct names."""
        kind, listed, whole = _LISTS[method], list[Any](), Result()
        params.pop("cursor", None)
        for link in self.links.values():
            for page in await _pages(partial(ask, link, context), method, params):
                items = cast("list[JsonObject]", page.get(kind) or [])
                listed += [self._renamed(link, kind, one) for one in items]
                rest = {name: page[name] for name in page if name not in (kind, "nextCursor")}
                whole = {**rest, **whole}
        return {**whole, kind: listed}

    def _renamed(self, link: Link, kind: str, item: JsonObject) -> JsonObject:
        """Return an item under the client's name for it, and note its server."""
        if kind not in _NAMED:
            key = str(item.get("uri") or item.get("uriTemplate"))
            self._resources[key] = link
            return item
        own = str(item.get("name"))
        name = to_tool_name(link.name, own)
        if kind == "prompts":
            self._prompts[name] = (link, own)
        return {**item, "name": name}

    async def _get_prompt(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        link, own = await self._prompt(context, str(params.get("name")), params)
        return await ask(link, context, method, {**params, "name": own})

    async def _prompt(
        self, context: Context, name: str, params: Mapping[str, Any]
    ) -> tuple[Link, str]:
        if name not in self._prompts:
            await self._list(context, "prompts/list", _bare(params))
        if name not in self._prompts:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {name!r}")
        return self._prompts[name]

    async def _complete(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        named = cast("JsonObject", params.get("ref") or {})
        if named.get("type") == "ref/prompt":
            link, own = await self._prompt(context, str(named.get("name")), params)
            return await ask(link, context, method, {**params, "ref": {**named, "name": own}})
        link = await self._resource(context, str(named.get("uri")), params)
        return await ask(link, context, method, params)

    async def _on_resource(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        link = await self._resource(context, str(params.get("uri")), params)
        return await ask(link, context, method, params)

    async def _resource(self, context: Context, uri: str, params: Mapping[str, Any]) -> Link:
        """Return the server that lists a resource, or a template with the same prefix."""
        for is_listed in (False, True):
            if is_listed:
                for method in ("resources/list", "resources/templates/list"):
                    await self._list(context, method, _bare(params))
            if uri in self._resources:
                return self._resources[uri]
            starts = [
                key for key in self._resources if "{" in key and uri.startswith(key.split("{")[0])
            ]
            if starts:
                return self._resources[max(starts, key=len)]
        raise MCPError(INVALID_PARAMS, f"no server lists the resource {uri!r}")

    # -- tool calls

    async def _call(self, context: Context, method: str, params: dict[str, Any]) -> Result:
        name = str(params.get("name"))
        await self._load(params)
        if name not in self._places:
            # Not every server notifies its clients of a new tool.
            self._is_loaded = False
            await self._load(params)
        if name not in self._places:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}")
        link, own = self._places[name]
        tool = self.calls.tools[own]
        elicit = self._elicit(context, params)
        answered = params.pop("inputResponses", None) if _is_ours(params) else None
        if _is_ours(params):
            params.pop("requestState")
        ticket = Ticket(link, context, params)
        if not envelope_of(params):
            result = await self.calls.make(tool, ticket, elicit)
            # An earlier call that is repeated may have been one of the other version.
            return {name: value for name, value in result.items() if name != "resultType"}
        result = await self._call_in_rounds(ticket, own, answered)
        return {"resultType": "complete", **result}

    async def _call_in_rounds(self, ticket: Ticket, own: str, answered: object) -> Result:
        """Make a call of a client that is asked by a result and answers by a new request."""
        forms: dict[str, Any] = {}
        fields = cast("JsonObject", answered) if isinstance(answered, dict) else {}

        async def elicit(item: PendingApproval) -> Approve | Deny | None:
            key = f"upshot/{item.digest}"
            if key in fields:
                return answer_in(item, fields[key], self._by)
            forms[key] = {"method": "elicitation/create", "params": form_of(item)}
            raise _AskFirst

        able = can_elicit(envelope_of(ticket.params).get(CLIENT_CAPABILITIES_META_KEY))
        # A user who closed the form is not shown it again.
        try:
            tool = self.calls.tools[own]
            return await self.calls.make(tool, ticket, elicit if able else None)
        except _AskFirst:
            return {
                "resultType": "input_required",
                "inputRequests": forms,
                "requestState": _OURS,
            }

    def _elicit(self, context: Context, params: Params) -> Elicit | None:
        """Return how to ask the person at a client with a handshake; None if impossible."""
        if envelope_of(params) or not can_elicit(self._capabilities):
            return None

        async def elicit(item: PendingApproval) -> Approve | Deny | None:
            form = self.calls.mask(form_of(item))
            try:
                reply = await context.request("elicitation/create", form)
            except MCPError:
                return None
            return answer_in(item, reply, self._by)

        return elicit

    async def _load(self, params: Mapping[str, Any]) -> None:
        """List the servers' tools, unless they are unchanged since the last time.

        Raises:
            MCPError: A server does not list them, or the file does not fit them.
        """
        async with self._loading:
            if self._is_loaded:
                return
            # Set first, so that a change during the load is noticed.
            self._is_loaded = True
            try:
                await self.load(_bare(params))
            except Misuse as error:
                self._is_loaded = False
                raise MCPError(INTERNAL_ERROR, f"no calls are made: {error}") from error
            except BaseException:
                self._is_loaded = False
                raise

    async def load(self, params: Mapping[str, Any]) -> None:
        """List the servers' tools again.

        Raises:
            MCPError: A server does not list them.
            Misuse: The file does not fit them.
        """
        places: dict[str, tuple[Link, str]] = {}
        tools: dict[str, Tool] = {}
        full_names: dict[str, str] = {}
        for link in self.links.values():
            listed = await _tools_of(link, params)
            self._config.check_names(link.name, [str(one.get("name")) for one in listed])
            for one in listed:
                name = str(one.get("name"))
                full = f"{link.name}/{name}"
                terms = self._config.tools.get(full)
                body = self.calls.body_of(name, None if terms is None else terms.error)
                tool = self._config.tool_of(link.terms, one, body)
                if terms is not None and terms.verify is not None:
                    tool = tool.but(verify=self.calls.verify_of(link, terms.verify, params))
                link.schemas[name] = one.get("inputSchema")
                tools[tool.name], full_names[full] = tool, tool.name
                places[name if self._is_single else tool.name] = (link, tool.name)
        self._places, self.calls.tools, self._full_names = places, tools, full_names
        self.calls.forget()


class _AskFirst(Exception):
    """The client has to be asked by the result of its request."""


def _without_tasks(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request or a result that neither asks for tasks nor offers them.

    What a task did is known at its end only, so the gateway has its servers make each call whole.
    """
    plain = {name: value for name, value in message.items() if name != "task"}
    if "capabilities" in plain:
        plain["capabilities"] = _less_able(plain["capabilities"])
    meta = plain.get("_meta")
    if isinstance(meta, dict) and CLIENT_CAPABILITIES_META_KEY in meta:
        known = cast("JsonObject", meta)
        able = _less_able(known[CLIENT_CAPABILITIES_META_KEY])
        plain["_meta"] = {**known, CLIENT_CAPABILITIES_META_KEY: able}
    return plain


def _less_able(capabilities: Json) -> Json:
    if not isinstance(capabilities, dict):
        return capabilities
    able = {name: value for name, value in capabilities.items() if name != "tasks"}
    extensions = able.get("extensions")
    if isinstance(extensions, dict):
        able["extensions"] = {name: one for name, one in extensions.items() if name != _TASKS}
    return able


_OURS = "upshot"


def _is_ours(params: Mapping[str, Any]) -> bool:
    return params.get("requestState") == _OURS


def _bare(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request's envelope, for another request of the same client."""
    envelope = {name: value for name, value in envelope_of(params).items() if "/" in name}
    return {"_meta": envelope} if envelope else {}


async def _tools_of(link: Link, params: Mapping[str, Any]) -> list[JsonObject]:
    pages = await _pages(link.request, "tools/list", params, must=True)
    return [one for page in pages for one in cast("list[JsonObject]", page.get("tools") or [])]


async def _pages(
    request: Callable[[str, Params], Awaitable[Result]],
    method: str,
    params: Mapping[str, Any],
    *,
    must: bool = False,
) -> list[Result]:
    """Return the pages of a list; none of a server that does not know it, unless it *must*."""
    pages: list[Result] = []
    asked = dict(params)
    while len(pages) < _MAX_PAGES:
        try:
            pages.append(await request(method, asked))
        except MCPError as error:
            if must or error.code != METHOD_NOT_FOUND:
                raise
            break
        asked["cursor"] = pages[-1].get("nextCursor")
        if not asked["cursor"]:
            break
    return pages


def _merged(results: list[Result]) -> Result:
    """Merge the descriptions of several servers into one."""
    whole = dict(results[0])
    versions = [one["protocolVersion"] for one in results if "protocolVersion" in one]
    if versions:
        whole["protocolVersion"] = min(versions)
    capabilities: dict[str, Any] = {}
    for one in results:
        for name, value in cast("dict[str, Any]", one.get("capabilities") or {}).items():
            known: Any = capabilities.get(name)
            both = isinstance(known, dict) and isinstance(value, dict)
            capabilities[name] = {**known, **value} if both else value
    whole["capabilities"] = capabilities
    instructions = [str(one["instructions"]) for one in results if one.get("instructions")]
    if instructions:
        whole["instructions"] = "\n\n".join(instructions)
    info = {"name": "upshot-gateway", "version": __version__}
    if "serverInfo" in whole:
        whole["serverInfo"] = info
    if "_meta" in whole:
        whole["_meta"] = {**whole["_meta"], SERVER_INFO_META_KEY: info}
    return whole
