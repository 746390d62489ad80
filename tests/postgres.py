"""A PostgreSQL server for tests: one of their own, or the one that UPSHOT_TEST_POSTGRES names."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

__all__ = ["NAMED", "PostgresServer", "find_postgres", "free_port", "needed", "started_server"]

NAMED = "UPSHOT_TEST_POSTGRES"
START_S = 60
_ROOM_BYTES = 1_000_000_000
# The database of a program that runs as root refuses to start, so another user runs it.
_USERS = ("postgres", "nobody")
_SETTINGS = {
    # What is written survives a killed server, only not a machine that loses its power.
    "fsync": "off",
    "max_connections": "100",
    "shared_buffers": "16MB",
}


def find_postgres() -> str | None:
    """The folder of the server's programs, None where there are none."""
    folders = sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)
    if shutil.which("pg_config"):
        said = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=False
        )
        folders.insert(0, said.stdout.strip())
    return next((one for one in folders if os.access(f"{one}/initdb", os.X_OK)), None)


def needed() -> None:
    """Skip a test that needs a server where none can be had."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    if NAMED not in os.environ and find_postgres() is None:
        pytest.skip(f"there is no PostgreSQL: `make postgres` installs it, or set {NAMED}=URL")


def free_port() -> int:
    """A port of this machine that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def other_user() -> dict[str, Any]:
    """How to start a program that must not run as root."""
    if os.name != "posix" or os.getuid():
        return {}
    import pwd

    known = {one.pw_name: one for one in pwd.getpwall()}
    user = next(known[name] for name in _USERS if name in known)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class PostgresServer:
    """A server, and the databases on it; each is made for one test.

    Attributes:
        port: Where it listens on 127.0.0.1.
    """

    def __init__(self, *, folder: Path | None = None, url: str = "") -> None:
        self._url = url
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self.port: int = 0
        if folder is not None:
            self._begin(folder)

    @property
    def is_ours(self) -> bool:
        """Whether it may be stopped and started."""
        return self._folder is not None

    def url(self, database: str = "postgres", *, port: int = 0, user: str = "upshot") -> str:
        """The URL of a database."""
        if not self._folder:
            return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def do(self, statement: str, database: str = "") -> list[Any]:
        """Do a statement; returns its rows."""
        import psycopg

        url = self.url(database) if database else self._url or self.url()
        # So that the names of a journal's tables can be written as they are.
        options = "-c search_path=upshot,public"
        with psycopg.connect(url, autocommit=True, options=options) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, encoding: str = "UTF8") -> str:
        """Make an empty database; returns its name."""
        name = f"upshot_{os.getpid()}_{next(self._numbers)}"
        self.do(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING {encoding} LOCALE 'C'")
        return name

    @contextmanager
    def rule(self, line: str) -> Iterator[None]:
        """Put a rule of who may connect before the others, for a while."""
        assert self._folder is not None
        rules = self._folder / "data" / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"{line}\n{before}")
        self.do("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            rules.write_text(before)
            self.do("SELECT pg_reload_conf()")

    def drop(self, database: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.do(f'DROP DATABASE "{database}" WITH (FORCE)')

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        assert self._folder is not None
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    f"{find_postgres()}/postgres",
                    *("-D", str(self._folder / "data")),
                    *("-k", str(self._folder)),
                    *("-h", "127.0.0.1"),
                    *("-p", str(self.port)),
                    *settings,
                ],
                stdout=log,
                stderr=log,
                **other_user(),
            )
        ready = [f"{find_postgres()}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        for _ in range(START_S * 50):
            if subprocess.run([*ready, "-t", "1"], check=False).returncode == 0:
                return
            assert self._process.poll() is None, (self._folder / "log").read_text()
            self._process_waits()
        raise AssertionError("PostgreSQL did not start")

    def _process_waits(self) -> None:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop it at once, as if it had crashed, or as *how* says."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(START_S)

    def _begin(self, folder: Path) -> None:
        user = other_user()
        if user:
            os.chown(folder, user["user"], user["group"])
        os.chmod(folder, 0o755)
        initdb = [f"{find_postgres()}/initdb", "-D", str(folder / "data"), "-U", "upshot"]
        subprocess.run(
            [*initdb, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
            **user,
        )
        self.port = free_port()
        self.start()


def _fast_folder() -> str | None:
    """A folder in memory with room for a server, None where there is none."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > _ROOM_BYTES:
        return shared
    return None


@contextmanager
def started_server() -> Iterator[PostgresServer]:
    """A server for some tests, which is stopped after them."""
    needed()
    if named := os.environ.get(NAMED):
        yield PostgresServer(url=named)
        return
    # A socket's path may be no longer than some 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="upshot-pg-", dir=_fast_folder()))
    server = None
    try:
        server = PostgresServer(folder=folder)
        yield server
    finally:
        if server is not None:
            with suppress(ProcessLookupError):
                server.stop()
        shutil.rmtree(folder, ignore_errors=True)
