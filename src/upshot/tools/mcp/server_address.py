"""Server: where an MCP server is and how it is started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upshot.contract.base.checks import safe_address
from upshot.contract.base.secrets import Secrets, credentials_in
from upshot.errors import Misuse


@dataclass(frozen=True, slots=True)
class Server:
    """Where an MCP server is and how it is started.

    Attributes:
        command: The program and its arguments; empty for a server at *url*.
        url: Its streamable HTTP endpoint; "" for a program.
        env: Environment variables for the program, in addition to the few that it inherits.
        cwd: Its working directory, None for the current one.
        headers: Sent with every HTTP request.
        credentials: Other secrets that are sent for it.
    """

    command: tuple[str, ...]
    url: str
    env: dict[str, str]
    cwd: str | None
    headers: dict[str, str]
    credentials: tuple[str, ...] = ()

    @property
    def secrets(self) -> Secrets:
        """What must not appear in errors; includes all program arguments except option names."""
        words = [*self.env.values(), *self.credentials]
        for word in self.command[1:]:
            words.append(word.partition("=")[2] if word.startswith("-") else word)
        return credentials_in(url=self.url, headers=self.headers, words=words)


def describe_server(
    command: str | Sequence[str] | None,
    url: str | None,
    *,
    env: Mapping[str, str] | None,
    cwd: str | None,
    headers: Mapping[str, str] | None,
) -> Server:
    """Make a ``Server`` from the caller's arguments.

    Raises:
        Misuse: Not exactly one of *command* and *url* is given, or it is invalid.
    """
    if (command is None) == (url is None):
        raise Misuse("open_mcp takes either command= or url=")
    if url is not None and not url.startswith(("http://", "https://")):
        raise Misuse(
            f"open_mcp(url={safe_address(url)!r}): give an address that starts with http:// or https://"
        )
    words = shlex.split(command) if isinstance(command, str) else list(command or ())
    if url is None and not words:
        raise Misuse("open_mcp(command=...) is empty: give the program and its arguments")
    return Server(tuple(words), url or "", dict(env or {}), cwd, dict(headers or {}))
