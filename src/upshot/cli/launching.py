"""Opens what the agent of a run needs: its model, and the MCP servers of ``--mcp``."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import click
from msgspec.structs import replace

from upshot.cli.loading import AnyAgent, Launch, check_path, open_model
from upshot.cli.terminal import Terminal
from upshot.contract.agent_spec import AgentSpec
from upshot.engines.loop import LoopEngine
from upshot.errors import Misuse
from upshot.runs.plan import ResumeOptions
from upshot.tools.definition.tool import Tool
from upshot.tools.mcp.oauth import OAuth
from upshot.tools.mcp.server_file import open_mcp_servers

Loaded: TypeAlias = tuple[AnyAgent, ResumeOptions]

_MAY_SIGN_IN = "the server asks the user to sign in: run the command once on a terminal"


@asynccontextmanager
async def open_launch(launch: Launch, loaded: Loaded, terminal: Terminal) -> AsyncGenerator[Loaded]:
    """Open the model and the MCP servers of a run.

    Args:
        launch: How the run is started.
        loaded: Its agent, and the options that belong to it.
        terminal: Where a user may be asked to sign in.

    Yields:
        The agent with the servers' tools, and the options with the model.
    """
    agent, options = loaded
    if launch.mcp and not calls_model(agent):
        raise Misuse(
            f"agent {agent.id!r} has an engine of its own: --mcp gives tools to agents that call a "
            "model themselves; upshot.open_mcp_servers opens the servers in Python"
        )
    async with (
        open_model(launch.model, agent, base_url=launch.base_url) as model,
        open_servers(launch.mcp, terminal) as tools,
    ):
        agent, options = add_tools(agent, options, tools)
        options["model"] = model
        yield agent, options


def calls_model(agent: AnyAgent) -> bool:
    """Whether *agent* sends the request to a model; other engines may need no request."""
    return isinstance(agent, AgentSpec) or isinstance(agent.engine, LoopEngine | None)


def add_tools(agent: AnyAgent, options: ResumeOptions, tools: Iterable[Tool]) -> Loaded:
    """Return the agent with more tools, and the options in which their names are found."""
    more = list(tools)
    if not more:
        return agent, options
    changed: ResumeOptions = {**options, "tools": [*options.get("tools", ()), *more]}
    if agent.tools is None:
        return agent, changed
    if isinstance(agent, AgentSpec):
        names = dict.fromkeys((*agent.tools, *(one.name for one in more)))
        return replace(agent, tools=tuple(names)), changed
    return agent.but(tools=[*agent.tools, *more]), changed


@asynccontextmanager
async def open_servers(file: str, terminal: Terminal) -> AsyncGenerator[list[Tool]]:
    """Open the MCP servers of *file*, "" for none, and yield their tools.

    A server over HTTP may ask the user to sign in. The token is then kept in the user's
    configuration folder, in a file for each server that only the user may read.
    """
    if not file:
        yield []
        return
    check_path(Path(file))
    # Otherwise Python prints what the package logs, tracebacks included, beside our one sentence.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    async with open_mcp_servers(file, auth=_sign_in_of(terminal)) as servers:
        yield [tool for tools in servers.values() for tool in tools]


def _sign_in_of(terminal: Terminal) -> Callable[[str, str], OAuth]:
    """Return a function that says how the user signs in at a server, by its name and address."""
    # One at a time: browsers are all sent back to one address of this machine.
    turn = asyncio.Lock()

    def sign_in(name: str, url: str) -> OAuth:
        async def ask(address: str) -> str:
            from upshot.tools.mcp.oauth_flow import BrowserSignIn, OAuthFlowError

            if not terminal.err.is_terminal:
                raise OAuthFlowError(_MAY_SIGN_IN)

            def show(address: str) -> bool:
                terminal.hint(f"{name} asks you to sign in: {address}")
                return _may_open_browser()

            async with turn:
                return await BrowserSignIn(OAuth.redirect_uri, show=show)(address)

        return OAuth(store=_token_file(url), redirect=ask)

    return sign_in


def _token_file(url: str) -> Path:
    folder = Path(click.get_app_dir("upshot")) / "mcp"
    return folder / f"{sha256(url.encode()).hexdigest()[:16]}.json"


def _may_open_browser() -> bool:
    """Whether there is a browser with a window of its own; one in this terminal would take it."""
    if sys.platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in os.environ
    return any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
