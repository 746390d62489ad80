"""Submits runs to an App, works on them, and serves it; serves the gateway."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import math
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from datetime import UTC, datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from rich.text import Text

from upshot.cli.listing import answer_rows, plain_table
from upshot.cli.loading import Target, choose, instance_of, load_app
from upshot.cli.lookup import DEFAULT_JOURNAL, existing_journal, new_journal, read_moment, user_name
from upshot.cli.terminal import Terminal
from upshot.contract.agent import Agent
from upshot.contract.base.words import clean, count, duration
from upshot.contract.model_calls import Request
from upshot.contract.protocols import Journal
from upshot.errors import Misuse, need_of_extra
from upshot.fleet.app import App
from upshot.fleet.notifier import notifying
from upshot.fleet.run_logs import log_as_json
from upshot.fleet.status import Status, parse_place, serving_status
from upshot.fleet.worker import Worker
from upshot.fleet.worker_list import WorkerState, drain_worker, read_workers
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.opening import open_journal
from upshot.journal.sql.sql_journal import SqlJournal

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from upshot.gateway.config import Config
    from upshot.serve.guard import OwnerSignIn
    from upshot.serve.openid import OidcSignIn


def app_of(target: str, journal: str) -> tuple[App, Agent[Any] | None]:
    """Return what a file names, as ``load_app`` does; a given *journal* replaces the App's."""
    app, agent = load_app(Target(target))
    if journal or app.journal is None:
        app.journal = new_journal(journal or DEFAULT_JOURNAL)
    return app, agent


async def submit_run(
    terminal: Terminal,
    *,
    target: str,
    request: Request,
    agent: str,
    conversation: str,
    at: str,
    key: str,
    priority: int,
    journal: str,
) -> int:
    """Submit a run, and print its id."""
    app, found = app_of(target, journal)
    name = agent or (found.id if found is not None else _only_agent(app))
    async with app:
        run = await app.submit(
            name,
            request,
            conversation=conversation or None,
            at=read_moment(at) if at else None,
            key=key or None,
            priority=priority,
        )
    terminal.answer({"run_id": run.id}, run.id)
    return 0


def _only_agent(app: App) -> str:
    if len(app.agents) == 1:
        return next(iter(app.agents))
    raise Misuse(f"the App has {len(app.agents)} agents: say which, --agent {min(app.agents)}")


_HEADING = ("run", "agent", "state", "why or who", "since (UTC)")
# The exit code if not all runs could be released.
_NOT_CLEAN = 1


async def work_on_app(
    terminal: Terminal,
    *,
    target: str,
    journal: str,
    lists: bool,
    is_fed: bool,
    notify_url: str,
    console_url: str,
    status_at: str,
    log_json: bool,
    **options: Any,
) -> int:
    """Work on the due runs of a file's App until a signal; return the exit code.

    Args:
        terminal: The terminal to print on.
        target: The App, by file and name.
        journal: The journal of the runs; "" is the App's, or else the command line's default.
        lists: Whether to only print what is worked on and what is due.
        is_fed: Whether to work on the runs that are named over the socket at standard input.
        notify_url: Where to send what waits for people; "" for nowhere.
        console_url: The console's address for people; "" for none.
        status_at: Where monitors are served, as HOST:PORT; "" for nowhere.
        log_json: Whether to log as JSON.
        options: Those of ``Worker``.
    """
    start_log(terminal, as_json=log_json)
    app, _ = app_of(target, journal)
    try:
        if lists:
            return await _list(terminal, app)
        options["alone"] = _single_run_command(target, journal, options)
        worker, loop = Worker(app, **options), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, worker.stop)
        terminal.report(f"working on {', '.join(app.agents)}, version {app.version}")
        feed = _feed_socket() if is_fed else None
        status = Status(app.open, app, lambda: worker.is_draining, worker)
        async with (
            reporting(terminal, status, status_at),
            notifying(app, notify_url, console_url),
        ):
            is_clean = await (worker.work() if feed is None else worker.work_on_each(feed))
        return 0 if is_clean else _NOT_CLEAN
    finally:
        await app.aclose()


def _single_run_command(target: str, journal: str, options: dict[str, Any]) -> list[str]:
    """Return the command of a process that works on one run at a time."""
    own = [sys.executable, "-m", "upshot", "work", target, "--grace", str(options["grace_s"])]
    own += ["--park-over", str(options["park_over_s"])]
    return [*own, *(["--journal", journal] if journal else []), "--fed"]


def _feed_socket() -> socket.socket:
    """Return the socket at standard input, over which runs are named."""
    try:
        return socket.socket(fileno=os.dup(sys.stdin.fileno()))
    except OSError:
        raise Misuse(
            "--fed needs a socket as standard input, which a worker gives the processes that it "
            "starts: leave it out"
        ) from None


async def _list(terminal: Terminal, app: App) -> int:
    """Print the runs of the App that are worked on, and those that are due."""
    journal = await app.open()
    holders = await journal.holders() if isinstance(journal, SqlJournal) else {}
    rows: list[tuple[str, ...]] = [_HEADING]
    for run in await app.runs("running", limit=None):
        if run.agent_id in app.agents and (holder := holders.get(run.run_id)) is not None:
            who, left = _holder_name(holder), _lease_left(holder)
            rows.append((run.run_id, clean(run.agent_id), "at work", who, left))
    whys = [""] * len(rows)
    for one in await app.due():
        holder = holders.get(one.run_id)
        state, why = (
            ("died", "" if holder is None else _holder_name(holder))
            if one.at is None
            else ("due", one.reason)
        )
        since = "" if one.at is None else f"{one.at:%Y-%m-%d %H:%M:%S}"
        rows.append((one.run_id, clean(one.agent_id), state, why, since))
        whys.append(await app.why_left(one))
    if len(rows) == 1:
        terminal.report("no run is due, and none is worked on")
        return 0
    lines: list[Text] = []
    for line, why in zip(plain_table(rows), whys, strict=True):
        # A reason is not cut to the width.
        lines += [line, Text(f"  left here: {clean(why)}")] if why else [line]
    terminal.say_rows(lines)
    return 0


async def list_schedules(terminal: Terminal, *, target: str, journal: str) -> int:
    """Print when each schedule of a file's App runs next, when it last did, and what it missed."""
    app, _ = app_of(target, journal)
    async with app:
        states = await app.schedule_states()
    rows = [("schedule", "agent", "when", "next (UTC)", "last run", "missed")]
    for one in states:
        next = "" if one.next is None else f"{one.next:%Y-%m-%d %H:%M:%S}"
        last = "" if one.last is None else one.last.run_id
        since = one.missed_since
        missed = "" if since is None else f"{one.missed} since {since:%Y-%m-%d %H:%M:%S}"
        rows.append((one.name, clean(one.agent_id), one.rule, next, last, missed))
    none = "the App has no schedules: give it some with app.schedule()"
    answer_rows(terminal, states, rows, none)
    return 0


async def list_workers(terminal: Terminal, *, journal: str, drain: str, by: str) -> int:
    """Print the workers of a journal, or ask one of them to take no more runs."""
    async with open_journal(existing_journal(journal), create=False) as log:
        if drain:
            one = await drain_worker(log, drain, by=by or user_name())
            left = count(len(one.runs), "run")
            terminal.answer(one, f"worker {one.id} is asked to take no more runs; it holds {left}")
            return 0
        workers = await read_workers(log)
    rows = [("worker", "process", "state", "runs", "lease", "last sign", "since (UTC)", "version")]
    rows += [_worker_row(one) for one in workers]
    none = "no process works on runs: start one with upshot work FILE.py"
    answer_rows(terminal, workers, rows, none)
    return 0


def _worker_row(one: WorkerState) -> tuple[str, ...]:
    since = "" if one.since is None else f"{one.since:%Y-%m-%d %H:%M:%S}"
    seen_s = 0.0 if one.seen is None else (datetime.now(UTC) - one.seen).total_seconds()
    seen = "" if one.seen is None else f"{duration(max(0.0, seen_s))} ago"
    lease = "" if one.lease_s is None else f"{max(one.lease_s, 0):.0f} s"
    runs = f"{len(one.runs)} of {one.concurrency}" if one.concurrency else str(len(one.runs))
    process = f"{one.pid}@{clean(one.host)}"
    return one.id or "-", process, one.state, runs, lease, seen, since, clean(one.version)


def _holder_name(holder: LeaseHolder) -> str:
    """Return the process that has a run, or had it."""
    return f"{holder.pid}@{clean(holder.host)}" if holder.pid > 0 else ""


def _lease_left(holder: LeaseHolder) -> str:
    """Return how long it still has the run."""
    left_s = holder.lease_s
    return "" if left_s is None or not 0 < left_s < math.inf else f"{left_s:.0f} s left"


def start_log(terminal: Terminal, *, as_json: bool) -> None:
    """Log to standard error as JSON if requested, including what a terminal would show.

    Raises:
        Misuse: ``UPSHOT_LOG`` is neither "json" nor "text".
    """
    form = os.environ.get("UPSHOT_LOG", "") or "text"
    if form not in ("json", "text"):
        raise Misuse(f"UPSHOT_LOG is {form!r}: give json or text")
    if as_json or form == "json":
        log_as_json(sys.stderr)
        terminal.log = logging.getLogger("upshot.cli").info


@asynccontextmanager
async def reporting(terminal: Terminal, status: Status, place: str) -> AsyncGenerator[None]:
    """Serve what monitors ask for at *place* inside the block; no-op if that is "".

    Raises:
        Misuse: *place* is not HOST:PORT, or cannot be listened on.
    """
    if not place:
        yield
        return
    listening = listen(*parse_place(place), option="--status")
    host, port = listening.getsockname()[:2]
    with listening, status:
        async with serving_status(status, listening):
            shown = f"[{host}]" if ":" in host else host
            terminal.report(f"status at http://{shown}:{port}/metrics, /health and /ready")
            yield


_STOPS = (signal.SIGINT, signal.SIGTERM)
# How long open requests may take after a signal; streams end at once.
_ENDING_S = 5


async def serve_app(
    terminal: Terminal,
    *,
    target: str,
    journal: str,
    host: str,
    port: int,
    no_work: bool,
    opens: bool,
    signs_out: bool,
    provider: dict[str, Any],
    notify_url: str,
    console_url: str,
    trace_url: str,
    lab: str,
    datasets: str,
    status_at: str,
    log_json: bool,
) -> int:
    """Serve the App of a file until a signal."""
    start_log(terminal, as_json=log_json)
    for package in ("starlette", "sse_starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise Misuse(need_of_extra("upshot serve", "serve"))
    from upshot.serve.site import Site

    app, _ = app_of(target, journal)
    sign_in, path = _open_sign_in(provider, console_url, signs_out=signs_out)
    hosts = [name for name in (host, urlsplit(console_url).hostname) if name]
    site = Site(
        app,
        user=sign_in,
        hosts=hosts,
        work=not no_work,
        trace_url=trace_url,
        lab=lab,
        datasets=datasets,
    )
    listening = listen(host, port)
    # Before the link is printed: a fault of the journal is then an error message, and not a page.
    await app.open()
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}{path}"
    terminal.report(f"serving {', '.join(app.agents)}, version {app.version}; Ctrl-C ends it")
    terminal.hint(url)
    if opens:
        webbrowser.open(url)
    console_url = console_url or url.removesuffix(path)
    async with (
        reporting(terminal, site.status, status_at),
        notifying(app, notify_url, console_url),
    ):
        application = site.asgi()
        return await serve_until_stopped(application, listening, site.status)


def _open_sign_in(
    provider: dict[str, Any], url: str, *, signs_out: bool
) -> tuple[OwnerSignIn | OidcSignIn, str]:
    """Open the sign-in at a provider or, without an issuer, that of the owner; and return its path.

    Args:
        provider: The options of ``signs_in``.
        url: The site's address for browsers, "" if it is that of each request.
        signs_out: Whether to end all earlier sign-ins of the owner.
    """
    if provider["issuer"]:
        from upshot.serve.openid import oidc

        secret = os.environ.get("UPSHOT_OIDC_SECRET", "")
        roles = _to_roles(provider["roles"])
        given: Any = {**provider, "roles": roles, "client_secret": secret, "url": url}
        return oidc(**given), "/"
    if provider["client_id"] or provider["roles"]:
        raise Misuse("--client-id and --role need a provider: give --oidc ISSUER too")
    sign_in = _open_owner_sign_in(signs_out=signs_out)
    return sign_in, sign_in.path


def _to_roles(given: Sequence[str]) -> dict[str, list[str]]:
    """Return the groups of each role, from texts such as "operate=ops"."""
    roles: dict[str, list[str]] = {}
    for one in given:
        role, sign, group = one.partition("=")
        if not (role and sign and group):
            raise Misuse(f"--role is {one[:80]!r}: give ROLE=GROUP, such as operate=ops")
        roles.setdefault(role, []).append(group)
    if not roles:
        raise Misuse("--oidc needs a --role ROLE=GROUP: without one every account is refused")
    return roles


def _open_owner_sign_in(*, signs_out: bool) -> OwnerSignIn:
    """Open the sign-in of the owner; *signs_out* ends all earlier sign-ins."""
    from upshot.serve.guard import OwnerSignIn, key_path, renew_key

    path = key_path()
    try:
        if signs_out:
            renew_key(path)
        return OwnerSignIn(path)
    except OSError as error:
        raise Misuse(
            f"the file of the sign-in key, {path}, cannot be used: {error.strerror}; name another "
            "folder in XDG_STATE_HOME"
        ) from None


async def serve_mcp(terminal: Terminal, *, target: str, journal: str, no_work: bool) -> int:
    """Serve the agents of a file's App as MCP tools over standard input and output."""
    if importlib.util.find_spec("mcp") is None:
        raise Misuse(need_of_extra("upshot mcp", "mcp"))
    from upshot.contract.user import User
    from upshot.serve.doors.mcp import serve_stdio
    from upshot.serve.site import Site, working

    app, _ = app_of(target, journal)
    user = User(user_name() or "local")
    async with app, nullcontext() if no_work else working(app):
        terminal.report(f"serving {', '.join(app.agents)} over standard input and output")
        await serve_stdio(Site(app, user=lambda _: user), user)
    return 0


async def run_gateway(
    terminal: Terminal,
    *,
    file: str,
    user: str,
    checks: bool,
    host: str,
    port: int | None,
    status_at: str,
    log_json: bool,
) -> int:
    """Serve the gateway of a file over standard input and output, or over HTTP if *port* is set."""
    start_log(terminal, as_json=log_json)
    for module in ("mcp", "yaml"):
        if importlib.util.find_spec(module) is None:
            raise Misuse(need_of_extra("upshot gateway", "gateway"))
    from upshot.gateway import check, read_config

    config = read_config(file)
    if checks:
        rows = await check(config)
        width = max((len(name) for name, _ in rows), default=0)
        for name, fate in rows:
            terminal.put(f"{name.ljust(width)}  {fate}\n")
        return 0
    if not status_at:
        return await _serve_gateway(terminal, config, user, host, port)
    async with open_journal(config.journal) as journal:

        async def opened() -> Journal:
            return journal

        async with reporting(terminal, Status(opened), status_at):
            return await _serve_gateway(terminal, config, user, host, port)


async def _serve_gateway(
    terminal: Terminal, config: Config, user: str, host: str, port: int | None
) -> int:
    from upshot.gateway import serve_http, serve_stdio

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
    sign_in = (
        choose(Target(config.sign_in), "function", instance_of(FunctionType))
        if config.sign_in
        else None
    )
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    async with serve_http(config, user, [shown], sign_in) as application:
        terminal.report(f"serving {', '.join(config.servers)}; Ctrl-C ends it")
        terminal.hint(f"http://{shown}:{listening.getsockname()[1]}/mcp")
        # The file names the proxies by their own addresses, which no header may replace.
        return await serve_until_stopped(application, listening, proxy_headers=False)


def listen(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Return a listening socket; *option* is what the user named the port with.

    Raises:
        Misuse: There is no such host, or the port is in use.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # From here on the link works: the first request waits until the server is ready.
        listening.listen()
        return listening
    except OSError as error:
        raise Misuse(
            f"{host}:{port} cannot be listened on: {error.strerror}; name another {option}, or 0 "
            "for a free port"
        ) from None


async def serve_until_stopped(
    application: ASGIApp,
    listening: socket.socket,
    status: Status | None = None,
    *,
    proxy_headers: bool = True,
) -> int:
    """Serve an application until SIGTERM or Ctrl-C; return the exit code.

    Args:
        application: The application to serve.
        listening: The socket to serve it on.
        status: Is told once a signal has come.
        proxy_headers: Whether to trust a proxy's ``X-Forwarded-For`` for the client address.
    """
    import uvicorn

    class Server(uvicorn.Server):
        """Treats a signal as a normal request to end; uvicorn's own raises the signal again."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            before = {number: signal.signal(number, self.handle_exit) for number in _STOPS}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    more: dict[str, Any] = {"log_config": None} if logging.getLogger().handlers else {}
    config: Any = uvicorn.Config(
        application,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=_ENDING_S,
        server_header=False,
        proxy_headers=proxy_headers,
        # Records go to the handlers of the root logger where there are any.
        **more,
    )
    server = Server(config)
    if status is not None:
        status.is_draining = lambda: server.should_exit
    with listening:
        await server.serve(sockets=[listening])
    return 0 if server.started else 1
