"""The file of a gateway: its servers, and the rules for their tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

from upshot.contract.base.checks import did_you_mean, format_value, is_amount
from upshot.contract.base.enums import Effect
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.settings import Policy
from upshot.errors import Misuse, need_of_extra
from upshot.tools.definition.body import usable_schema
from upshot.tools.definition.cel import Condition, compile_condition
from upshot.tools.definition.lookup import Lookup
from upshot.tools.definition.tool import Tool
from upshot.tools.mcp.mcp_toolset import to_tool_name
from upshot.tools.mcp.server_address import Server, describe_server

Default: TypeAlias = Literal["read", "ask", "deny"]
_DEFAULTS = ("read", "ask", "deny")
_TOP = (
    "journal", "servers", "default", "tools", "wait_s", "secrets", "policy", "user", "user_header",
    "proxies", "sign_in", "oauth",
)  # fmt: skip
_OF_SERVER = ("command", "url", "env", "cwd", "headers", "trusted", "timeout_s")
_OF_TOOL = (
    "effect", "once", "may_differ", "scope", "effect_name", "on_repeat", "claim_wait_s", "keep_s",
    "approval", "approvals", "deny", "ask", "verify", "timeout_s", "idempotent", "error",
)  # fmt: skip
_OF_OAUTH = ("resource", "servers", "audience", "scopes", "tenant")
_OF_VERIFY = ("tool", "arguments", "found")
_OF_POLICY = ("allow", "deny", "ask", "approvals", "approval_expires_s")
# Taken by a Tool as they are.
_PLAIN = (
    "once", "may_differ", "scope", "effect_name", "on_repeat", "claim_wait_s", "timeout_s",
    "idempotent", "approvals",
)  # fmt: skip
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SERVER_NAME = re.compile(r"[A-Za-z0-9-]{1,32}")


@dataclass(frozen=True, slots=True)
class ServerTerms:
    """A server.

    Attributes:
        name: What the file calls it.
        server: Where it is, and how it is started.
        trusted: Whether the annotations of its tools are believed.
        timeout_s: Seconds for its start.
    """

    name: str
    server: Server
    trusted: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class ToolTerms:
    """What the file says of a tool.

    Attributes:
        name: The tool with its server: ``shop/refund``.
        options: The tool's options, as ``Tool`` takes them.
        approval: When the user is asked: a condition, True, False, or None by the effect.
        deny: When a call is denied.
        verify: How to find out whether a call took effect; None leaves that unknown.
        error: The effect to assume if the server answers a call with an error.
    """

    name: str
    options: Mapping[str, object]
    approval: str | bool | None = None
    deny: str | bool = False
    verify: Lookup | None = None
    error: Effect | None = None


WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""The path at which a client reads where its user signs in; RFC 9728 section 3.1."""


@dataclass(frozen=True, slots=True)
class OAuth:
    """Where users sign in by OAuth.

    Attributes:
        resource: The gateway's URL, as clients know it.
        servers: The URLs of the servers that issue tokens for it.
        audience: What tokens name as their audience.
        scopes: The scopes that a token must have.
        tenant: The claim that names the user's tenant, "" for none.
    """

    resource: str
    servers: tuple[str, ...]
    audience: str
    scopes: tuple[str, ...] = ()
    tenant: str = ""

    @property
    def host(self) -> str:
        """The host name in that URL."""
        return urlsplit(self.resource).hostname or ""

    @property
    def metadata_url(self) -> str:
        """The URL at which a client reads these facts."""
        parts = urlsplit(self.resource)
        path = "" if parts.path == "/" else parts.path
        return urlunsplit((parts.scheme, parts.netloc, WELL_KNOWN + path, "", ""))

    def to_json(self) -> JsonObject:
        """Return the document that a client reads there."""
        methods: Json = ["header"]
        servers: Json = [*self.servers]
        document: JsonObject = {
            "resource": self.resource,
            "authorization_servers": servers,
            "bearer_methods_supported": methods,
        }
        return {**document, "scopes_supported": [*self.scopes]} if self.scopes else document


@dataclass(frozen=True, slots=True)
class Config:
    """A gateway as its file describes it; ``read_config`` makes one.

    Attributes:
        file: The file.
        journal: Where calls and effects are kept.
        servers: The servers by name.
        tools: The file's terms for tools, by full name.
        default: The terms for all other tools.
        wait_s: How many seconds a call waits for a person before the client gets an error.
        secrets: Texts that no client may read: the servers' credentials, and more.
        policy: Rules on tools; None means no rules.
        user: The user that calls belong to if the front does not know one.
        user_header: A header that names the user, "" for none.
        proxies: Addresses of proxies whose header is believed.
        sign_in: The Python file, and the function in it, that names the user of an HTTP request;
            "" for none.
        oauth: Where users sign in, for clients that know OAuth; None if not set. Without *sign_in*
            the gateway verifies the tokens itself.
    """

    file: str
    journal: str
    servers: Mapping[str, ServerTerms]
    tools: Mapping[str, ToolTerms]
    default: Default
    wait_s: float
    secrets: tuple[str, ...]
    policy: Policy | None
    user: str
    user_header: str
    proxies: tuple[str, ...]
    sign_in: str = ""
    oauth: OAuth | None = None

    @property
    def masks(self) -> Secrets | None:
        """Masks every secret; None without any."""
        return Secrets(self.secrets) or None

    def check_names(self, server: str, names: Iterable[str]) -> None:
        """Check that a server has the tools that the file names.

        Raises:
            Misuse: It lacks one.
        """
        known = [f"{server}/{name}" for name in names]
        for full, terms in self.tools.items():
            wanted = [full] if full.startswith(f"{server}/") else []
            if terms.verify is not None and wanted:
                wanted.append(f"{server}/{terms.verify.tool}")
            for one in wanted:
                if one not in known:
                    have = f"it has {', '.join(known) or 'none'}"
                    hint = did_you_mean(one, known, have)
                    raise Misuse(f"{self.file}: the server {server} has no tool {one}: {hint}")

    def tool_of(self, terms: ServerTerms, listed: JsonObject, call: Callable[..., object]) -> Tool:
        """Return the tool that a server lists as *listed*, under the file's terms.

        Args:
            terms: The server.
            listed: The tool as the server describes it.
            call: Makes a call, given its ``ToolContext`` and arguments.

        Raises:
            Misuse: The file's terms do not fit the tool.
        """
        name = str(listed.get("name", ""))
        full, own = f"{terms.name}/{name}", to_tool_name(terms.name, name)
        schema = usable_schema(own, listed.get("inputSchema"))
        description = str(listed.get("description") or listed.get("title") or "")
        # A gateway sees no turns of a model: reads are repeated as often as a client wants.
        made = Tool.from_schema(own, description, schema, call, resources=(), error_key=None).but(
            ask="user", effect=Effect.WRITE
        )
        known = self.tools.get(full)
        if known is None:
            return made.but(**_by_default(self.default, terms, listed))
        try:
            return made.but(**_declared(known, schema))
        except Misuse as error:
            raise Misuse(f"{self.file}: {full}: {error}") from None


def _by_default(default: Default, terms: ServerTerms, listed: JsonObject) -> dict[str, object]:
    """What holds for a tool that the file does not name."""
    if default == "deny":
        return {"deny": True}
    hints = cast("JsonObject", listed.get("annotations") or {}) if terms.trusted else {}
    if hints.get("readOnlyHint") is True or default == "read":
        return {"effect": Effect.READ, "repeatable": True}
    if hints.get("destructiveHint") is False:
        return {"idempotent": hints.get("idempotentHint") is True}
    return {"approval": True}


def _declared(terms: ToolTerms, schema: JsonObject) -> dict[str, object]:
    names = cast("JsonObject", schema.get("properties", {})).keys()

    def compiled(given: object) -> object:
        return compile_condition(given, names=names) if isinstance(given, str) else given

    effect = terms.options.get("effect", Effect.WRITE)
    return {
        **terms.options,
        "repeatable": effect is Effect.READ,
        "approval": compiled(terms.approval),
        "deny": compiled(terms.deny),
    }


def read_config(file: str) -> Config:
    """Read the file of a gateway.

    Raises:
        Misuse: It cannot be read, or something in it is wrong; the message is one sentence.
    """
    top = _section(file, "", _load(file), _TOP)
    servers = {
        name: _server(file, name, given)
        for name, given in _mapping(file, "servers", top.get("servers")).items()
    }
    if not servers:
        raise Misuse(f"{file}: servers is empty: name a server, with its command or its url")
    tools = {
        name: _tool(file, name, given, servers)
        for name, given in _mapping(file, "tools", top.get("tools", {})).items()
    }
    default = top.get("default", "ask")
    if default not in _DEFAULTS:
        raise Misuse(f"{file}: default is {format_value(default)}: give read, ask or deny")
    secrets = [_expanded(file, "secrets", one) for one in _texts(file, "secrets", top)]
    for terms in servers.values():
        one = terms.server
        secrets += [*one.env.values(), *one.headers.values()]
        secrets += [value.partition(" ")[2] for value in one.headers.values()]
    sign_in = _text(file, "sign_in", top.get("sign_in", ""))
    if sign_in and "user_header" in top:
        raise Misuse(f"{file} has both sign_in and user_header: give the one that names users")
    if "oauth" in top and "user_header" in top:
        raise Misuse(f"{file} has both oauth and user_header: give the one that names users")
    return Config(
        file=file,
        journal=_beside(file, _expanded(file, "journal", top.get("journal", "gateway.db"))),
        servers=servers,
        tools=tools,
        default=default,
        wait_s=_seconds(file, "wait_s", top.get("wait_s", 45)),
        secrets=tuple(dict.fromkeys(one for one in secrets if len(one) >= 6)),
        policy=_policy(file, top.get("policy")),
        user=_text(file, "user", top.get("user", "")),
        user_header=_text(file, "user_header", top.get("user_header", "")).lower(),
        proxies=tuple(_texts(file, "proxies", top)) or ("127.0.0.1", "::1"),
        sign_in=_beside(file, sign_in) if sign_in else "",
        oauth=_oauth(file, top["oauth"]) if "oauth" in top else None,
    )


def _beside(file: str, where: str) -> str:
    """Return a path relative to the file's folder; a URL is returned unchanged."""
    if "://" in where or where == "memory:":
        return where
    return os.path.join(os.path.dirname(file), where)


def _oauth(file: str, given: object) -> OAuth:
    section = _section(file, "oauth", given, _OF_OAUTH)
    resource = _text(file, "oauth.resource", section.get("resource"))
    servers = tuple(_texts(file, "oauth.servers", section))
    for url in (resource, *(servers or ("",))):
        if not url.startswith(("http://", "https://")):
            raise Misuse(f"{file}: oauth has {url!r}: give a URL of http or https")
    return OAuth(
        resource,
        servers,
        audience=_text(file, "oauth.audience", section.get("audience", resource)),
        scopes=tuple(_texts(file, "oauth.scopes", section)),
        tenant=_text(file, "oauth.tenant", section.get("tenant", "")),
    )


def _load(file: str) -> object:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise Misuse(need_of_extra("upshot gateway", "gateway")) from error
    try:
        return cast("object", yaml.safe_load(Path(file).read_text("utf-8")))
    except OSError as error:
        raise Misuse(f"{file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Misuse(f"{file} is no YAML: {' '.join(str(error).split())}") from None


def _mapping(file: str, where: str, given: object) -> dict[str, object]:
    if not isinstance(given, dict):
        raise Misuse(f"{file}: {where or 'the file'} is {format_value(given)}: give a mapping")
    found = cast("dict[object, object]", given)
    for name in found:
        if not isinstance(name, str):
            raise Misuse(f"{file}: {where} has the key {name!r}: give a text")
    return cast("dict[str, object]", found)


def _section(file: str, where: str, given: object, known: tuple[str, ...]) -> dict[str, object]:
    """Return a mapping after checking that every key is known."""
    found = _mapping(file, where, given)
    for name in found:
        if name not in known:
            hint = did_you_mean(name, known, f"there are {', '.join(known)}")
            raise Misuse(f"{file}: {where or 'the file'} has no key {name!r}: {hint}")
    return found


def _text(file: str, where: str, given: object) -> str:
    if not isinstance(given, str):
        raise Misuse(f"{file}: {where} is {format_value(given)}: give a text")
    return given


def _texts(file: str, name: str, section: Mapping[str, object]) -> list[str]:
    given = section.get(name.rpartition(".")[2], [])
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise Misuse(f"{file}: {name} is {format_value(given)}: give a list of texts")
    return [_text(file, name, one) for one in cast("list[object]", listed)]


def _seconds(file: str, where: str, given: object) -> float:
    if not is_amount(given):
        raise Misuse(f"{file}: {where} is {format_value(given)}: give seconds, at least 0")
    return float(cast("float", given))


def _expanded(file: str, where: str, given: object) -> str:
    """Return a text with ``${NAME}`` replaced by the environment variable."""

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise Misuse(f"{file}: {where} needs the variable {name}, which is not set")
        return os.environ[name]

    return _VARIABLE.sub(value_of, _text(file, where, given))


def _server(file: str, name: str, given: object) -> ServerTerms:
    where = f"servers.{name}"
    if not _SERVER_NAME.fullmatch(name):
        raise Misuse(f"{file}: {where}: a server is called by 1 to 32 of a-z, A-Z, 0-9 and -")
    section = _section(file, where, given, _OF_SERVER)
    command, url = section.get("command"), section.get("url")
    if (command is None) == (url is None):
        raise Misuse(f"{file}: {where} has {'both' if url else 'neither'}: give command or url")
    words = None if command is None else _command(file, f"{where}.command", command)
    pairs: dict[str, dict[str, str]] = {}
    for key in ("env", "headers"):
        found = _mapping(file, f"{where}.{key}", section.get(key, {}))
        pairs[key] = {one: _expanded(file, f"{where}.{key}.{one}", v) for one, v in found.items()}
    cwd = None if section.get("cwd") is None else _expanded(file, f"{where}.cwd", section["cwd"])
    trusted = section.get("trusted", False)
    if not isinstance(trusted, bool):
        raise Misuse(f"{file}: {where}.trusted is {format_value(trusted)}: give true or false")
    where_to = None if url is None else _expanded(file, f"{where}.url", url)
    try:
        server = describe_server(words, where_to, cwd=cwd, **pairs)
    except Misuse as error:
        raise Misuse(f"{file}: {where}: {error}") from None
    timeout_s = _seconds(file, f"{where}.timeout_s", section.get("timeout_s", 30))
    return ServerTerms(name, server, trusted, timeout_s)


def _command(file: str, where: str, given: object) -> str | list[str]:
    if not isinstance(given, list):
        return _expanded(file, where, given)
    return [_expanded(file, where, one) for one in cast("list[object]", given)]


def _tool(file: str, name: str, given: object, servers: Iterable[str]) -> ToolTerms:
    server, slash, own = name.partition("/")
    if not slash or not own or server not in servers:
        raise Misuse(
            f"{file}: tools has {name!r}: name a server and its tool, such as "
            f"{next(iter(servers))}/refund"
        )
    where = f"tools.{name}"
    section = _section(file, where, given, _OF_TOOL)
    options: dict[str, object] = {key: section[key] for key in _PLAIN if key in section}
    for key in ("once", "may_differ"):
        if isinstance(options.get(key), list):
            options[key] = tuple(cast("list[str]", options[key]))
    effect = section.get("effect", "write")
    if effect not in ("read", "write", "destructive"):
        raise Misuse(
            f"{file}: {where}.effect is {format_value(effect)}: give read, write or destructive"
        )
    options["effect"] = Effect(cast("str", effect))
    if "keep_s" in section:
        options["keep"] = timedelta(seconds=_seconds(file, f"{where}.keep_s", section["keep_s"]))
    # Several approvals are always those of staff.
    audience = "user" if section.get("approvals", 1) == 1 else "staff"
    ask, error = section.get("ask", audience), section.get("error", "unknown")
    if ask not in ("user", "staff"):
        raise Misuse(f"{file}: {where}.ask is {format_value(ask)}: give user or staff")
    if error not in ("unknown", "none"):
        raise Misuse(f"{file}: {where}.error is {format_value(error)}: give unknown or none")
    options["ask"] = ask
    conditions = {
        key: _condition(file, f"{where}.{key}", section.get(key, default))
        for key, default in (("approval", None), ("deny", False))
    }
    verify = section.get("verify")
    return ToolTerms(
        name,
        options,
        approval=conditions["approval"],
        deny=bool(conditions["deny"]) if conditions["deny"] is None else conditions["deny"],
        verify=None if verify is None else _lookup(file, f"{where}.verify", server, verify),
        error=Effect.NONE if error == "none" else None,
    )


def _condition(file: str, where: str, given: object) -> str | bool | None:
    if given is None or isinstance(given, bool):
        return given
    if not isinstance(given, str):
        raise Misuse(
            f"{file}: {where} is {format_value(given)}: give true, false or a condition in CEL"
        )
    _compiled(file, where, given)
    return given


def _compiled(file: str, where: str, text: str) -> Condition:
    try:
        return compile_condition(text)
    except Misuse as error:
        raise Misuse(f"{file}: {where}: {error}") from None


def _lookup(file: str, where: str, server: str, given: object) -> Lookup:
    section = _section(file, where, given, _OF_VERIFY)
    for key in ("tool", "found"):
        _text(file, f"{where}.{key}", section.get(key))
    of, slash, own = str(section["tool"]).partition("/")
    if not slash or of != server:
        raise Misuse(f"{file}: {where}.tool is {section['tool']!r}: name a tool of {server}")
    arguments = _mapping(file, f"{where}.arguments", section.get("arguments", {}))
    found = _compiled(file, f"{where}.found", str(section["found"]))
    return Lookup(own, cast("JsonObject", arguments), found=found)


def _policy(file: str, given: object) -> Policy | None:
    if given is None:
        return None
    section = _section(file, "policy", given, _OF_POLICY)
    try:
        return Policy(taint="off", **cast("dict[str, Any]", section))
    except (Misuse, TypeError) as error:
        raise Misuse(f"{file}: policy: {error}") from None
