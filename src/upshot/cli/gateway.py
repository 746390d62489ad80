"""``upshot gateway``: stands between MCP clients and MCP servers, or says what it would do."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import signal
from typing import Any, cast

from upshot.cli.app_runs import listen, serve_until_stopped
from upshot.cli.loading import Target, choose
from upshot.cli.terminal import Terminal
from upshot.errors import Misuse, need_of_extra


async def run_gateway(
    terminal: Terminal, *, file: str, user: str, checks: bool, host: str, port: int | None
) -> int:
    """Serve the gateway of a file over standard input and output, or over HTTP if *port* is set."""
    for module in ("mcp", "yaml"):
        if importlib.util.find_spec(module) is None:
            raise Misuse(need_of_extra("upshot gateway", "gateway"))
    from upshot.gateway import check, read_config, serve_http, serve_stdio

    config = read_config(file)
    if checks:
        rows = await check(config)
        width = max((len(name) for name, _ in rows), default=0)
        for name, fate in rows:
            terminal.put(f"{name.ljust(width)}  {fate}\n")
        return 0
    if port is None:
        serving = asyncio.ensure_future(serve_stdio(config, user))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        try:
            await serving
        except asyncio.CancelledError:
            # Ctrl-C cancels this task; SIGTERM cancels only the serving one.
            if cast("asyncio.Task[Any]", asyncio.current_task()).cancelling():
                raise
        return 0
    sign_in = choose(Target(config.sign_in), "function", _function) if config.sign_in else None
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    async with serve_http(config, user, [shown], sign_in) as application:
        terminal.tell(f"serving {', '.join(config.servers)}; Ctrl-C ends it")
        terminal.hint(f"http://{shown}:{listening.getsockname()[1]}/mcp")
        # The file names the proxies by their own addresses, which no header may replace.
        return await serve_until_stopped(application, listening, proxy_headers=False)


def _function(value: object) -> Any:
    return value if inspect.isfunction(value) else None
