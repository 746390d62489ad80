"""A PostgreSQL server for tests: their own, or the one in UPSHOT_TEST_POSTGRES."""

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

__all__ = [
    "NAMED",
    "PostgresServer",
    "fast_folder",
    "find_postgres",
    "free_port",
    "needed",
    "other_user",
    "started_server",
]

NAMED = "UPSHOT_TEST_POSTGRES"
START_S = 60
_ROOM_BYTES = 1_000_000_000
# PostgreSQL refuses to run as root, so another user runs it.
_USERS = ("postgres", "nobody")
_SETTINGS = {
    # Data survives a killed server, but not a machine that loses power.
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "16MB",
}


def find_postgres() -> str | None:
    """Return the folder of the server's programs, or None."""
    folders = sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True)
    if shutil.which("pg_config"):
        said = subprocess.run(
            ["pg_config", "--bindir"], capture_output=True, text=True, check=False
        )
        folders.insert(0, said.stdout.strip())
    return next((one for one in folders if os.access(f"{one}/initdb", os.X_OK)), None)


def needed() -> None:
    """Skip a test that needs a server if none is available."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'psycopg[binary]'")
    if NAMED not in os.environ and find_postgres() is None:
        pytest.skip(f"there is no PostgreSQL: `make postgres` installs it, or set {NAMED}=URL")


def free_port() -> int:
    """Return a port of this machine that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def other_user() -> dict[str, Any]:
    """Return arguments that start a program as another user if this one is root."""
    if os.name != "posix" or os.getuid():
        return {}
    import pwd

    known = {one.pw_name: one for one in pwd.getpwall()}
    user = next(known[name] for name in _USERS if name in known)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class PostgresServer:
    """A server and its databases; each is made for one test.

    Attributes:
        port: The port on 127.0.0.1.
    """

    def __init__(self, *, folder: Path | None = None, url: str = "") -> None:
        self._url = url
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self._connection: Any = None
        self._template = ""
        self.port: int = 0
        if folder is not None:
            self._begin(folder)

    @property
    def is_ours(self) -> bool:
        """Whether it may be stopped and started."""
        return self._folder is not None

    def url(self, database: str = "postgres", *, port: int = 0, user: str = "upshot") -> str:
        """Return the URL of a database."""
        if not self._folder:
            return urlunsplit(urlsplit(self._url)._replace(path=f"/{database}"))
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def do(self, statement: str, database: str = "") -> list[Any]:
        """Execute a statement; returns its rows."""
        if not database:
            cursor = self._connected().execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
        with self._connect(self.url(database)) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, encoding: str = "UTF8") -> str:
        """Create an empty database; returns its name."""
        return self._create(f"TEMPLATE template0 ENCODING {encoding} LOCALE 'C'")

    def new_journal(self) -> str:
        """Create a database with the tables of an empty journal; returns its name.

        It is a copy of one that is made first, for a third of what it costs to create the tables.
        """
        from upshot.journal.postgres.server import Server
        from upshot.journal.postgres.tables import prepare

        if not self._template:
            template = self.new_database()
            connection = Server(self.url(template)).connect()
            prepare(connection, template, create=True)
            connection.close()
            self._template = template
        # Older servers know no other way than to copy the files.
        copies_files = self._connected().info.server_version >= 150_000
        return self._create(
            f"TEMPLATE {self._template} {'STRATEGY FILE_COPY' if copies_files else ''}"
        )

    def _create(self, options: str) -> str:
        name = f"upshot_{os.getpid()}_{next(self._numbers)}"
        self.do(f"CREATE DATABASE {name} {options}")
        return name

    def _connected(self) -> Any:
        """Return the connection that is kept, or a new one if the server was stopped meanwhile."""
        if self._connection is None or self._connection.closed:
            self._connection = self._connect(self._url or self.url())
        return self._connection

    def _connect(self, url: str) -> Any:
        import psycopg

        # So that the tables of a journal can be named without a schema.
        return psycopg.connect(url, autocommit=True, options="-c search_path=upshot,public")

    @contextmanager
    def rule(self, line: str) -> Iterator[None]:
        """Put a connection rule before the others for the duration of the block."""
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
        """Remove a database, even if clients are connected to it."""
        self.do(f'DROP DATABASE "{database}" WITH (FORCE)')

    def close(self) -> None:
        """Remove the database that others are copies of, and close the connection."""
        if self._template:
            self.drop(self._template)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
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
        """Stop it at once as in a crash, or with another signal."""
        assert self._process is not None
        self._disconnect()
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


def fast_folder() -> str | None:
    """Return a folder in memory that has room and lets programs run, or None."""
    shared = "/dev/shm"
    if not os.access(shared, os.W_OK) or shutil.disk_usage(shared).free < _ROOM_BYTES:
        return None
    return None if os.statvfs(shared).f_flag & os.ST_NOEXEC else shared


@contextmanager
def started_server() -> Iterator[PostgresServer]:
    """Yield a server and stop it afterwards."""
    needed()
    if named := os.environ.get(NAMED):
        server = PostgresServer(url=named)
        yield server
        server.close()
        return
    # The path of a socket is limited to about 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="upshot-pg-", dir=fast_folder()))
    server = None
    try:
        server = PostgresServer(folder=folder)
        yield server
    finally:
        if server is not None:
            with suppress(ProcessLookupError):
                server.stop()
        shutil.rmtree(folder, ignore_errors=True)
