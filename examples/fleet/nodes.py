"""A Restate cluster on this machine: every node listens on 127.0.0.1 and tells nobody of itself."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from glob import glob
from pathlib import Path
from typing import NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

PACKAGE = ".venv-restate/node/node_modules/@restatedev/restate-server-*/bin/restate-server"
START_S = 60
PARTITIONS = 4


def find_server() -> str | None:
    """The server's program: the one that ``make restate`` installs, or the machine's own."""
    root = Path(__file__).resolve().parents[2]
    return next(iter(glob(str(root / PACKAGE))), None) or shutil.which("restate-server")


def free_port() -> int:
    """A port that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    """A server of the cluster.

    Attributes:
        ingress: Where it takes requests.
        admin: Where services are registered.
    """

    def __init__(self, name: str, folder: Path, ports: tuple[int, int, int]) -> None:
        self.name = name
        self._folder = folder
        self._ports = ports
        self._process: subprocess.Popen[bytes] | None = None
        self.ingress: str = f"http://127.0.0.1:{ports[1]}"
        self.admin: str = f"http://127.0.0.1:{ports[2]}"

    @property
    def address(self) -> str:
        """Where the other nodes reach it."""
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def start(self, peers: list[str], *, is_first: bool) -> None:
        """Start it; the first one makes the cluster."""
        program = find_server()
        if program is None:
            raise SystemExit("there is no restate-server: `make restate` installs it")
        fabric, ingress, admin = (f"127.0.0.1:{port}" for port in self._ports)
        settings = {
            "NODE_NAME": self.name,
            "CLUSTER_NAME": "fleet",
            "BASE_DIR": str(self._folder),
            "LISTEN_MODE": "tcp",
            "BIND_ADDRESS": fabric,
            "ADVERTISED_ADDRESS": self.address,
            "INGRESS__BIND_ADDRESS": ingress,
            "ADMIN__BIND_ADDRESS": admin,
            "METADATA_CLIENT__ADDRESSES": f"[{','.join(peers)}]",
            "AUTO_PROVISION": str(is_first).lower(),
            # What is acknowledged is on two nodes of three, so that one may be lost.
            "DEFAULT_REPLICATION": str(len(peers) // 2 + 1),
            "DEFAULT_NUM_PARTITIONS": str(PARTITIONS),
            "ROCKSDB_TOTAL_MEMORY_SIZE": "256MB",
            "DISABLE_TELEMETRY": "true",
            "LOG_FILTER": "warn",
            "LOG_DISABLE_ANSI_CODES": "true",
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = {f"RESTATE_{name}": value for name, value in settings.items()}
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [program, "--no-logo"],
                env={**os.environ, **environment, "DO_NOT_TRACK": "1"},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End it at once, as a crash does; does nothing if it has ended."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(START_S)

    def told(self) -> str:
        """What it wrote to its log."""
        return (self._folder / "log").read_text(errors="replace")


class Cluster:
    """Nodes that hold one log; used as an async context manager, which kills them in the end."""

    def __init__(self, folder: Path, *, size: int = 3) -> None:
        self.nodes: list[Node] = [
            Node(f"n{number}", folder / f"n{number}", (free_port(), free_port(), free_port()))
            for number in range(1, size + 1)
        ]

    @property
    def ingress(self) -> list[str]:
        """Where its nodes take requests."""
        return [node.ingress for node in self.nodes]

    def start(self, node: Node) -> None:
        """Start a node, for the first time or again."""
        node.start([one.address for one in self.nodes], is_first=node is self.nodes[0])

    async def __aenter__(self) -> Cluster:
        try:
            for node in self.nodes:
                self.start(node)
            async with asyncio.timeout(START_S):
                for node in self.nodes:
                    await self.ready(node)
        except BaseException:
            self.close()
            raise
        return self

    async def ready(self, node: Node) -> None:
        """Wait until a node takes requests."""
        await answered(f"{node.ingress}/restate/health")
        await answered(f"{node.admin}/health")

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all nodes."""
        for node in self.nodes:
            node.kill()

    async def register(self, uri: str) -> None:
        """Have it drive the services at *uri*, an address of all of them."""
        async with ClientSession(timeout=ClientTimeout(total=START_S)) as session:
            asked = {"uri": uri, "use_http_11": True, "force": True}
            async with session.post(f"{self.nodes[0].admin}/deployments", json=asked) as reply:
                if not reply.ok:
                    raise SystemExit(f"Restate does not take the service: {await reply.text()}")


async def answered(url: str) -> None:
    """Wait until a server answers."""
    async with ClientSession(timeout=ClientTimeout(total=1)) as session:
        while True:
            try:
                async with session.get(url) as reply:
                    if reply.ok:
                        return
            except (ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.05)


class Effect(NamedTuple):
    """Something that was done: what, by which run, with which bill, in which process, and when."""

    what: str
    run_id: str
    bill: int
    pid: int
    at: float


class Fleet(Cluster):
    """A cluster, and services that work on the runs of a journal."""

    def __init__(self, folder: Path, journal: str, *, size: int = 3, services: int = 2) -> None:
        super().__init__(folder, size=size)
        self._folder = folder
        self.journal = journal
        self._count = services
        self._port = free_port()
        self.services: list[subprocess.Popen[bytes]] = []
        self.done: Path = folder / "done"

    async def __aenter__(self) -> Fleet:
        await super().__aenter__()
        try:
            for _ in range(self._count):
                self.start_service()
            await self.register(f"http://127.0.0.1:{self._port}")
        except BaseException:
            self.close()
            raise
        return self

    def start_service(self) -> None:
        """Start one service more, and wait until it listens."""
        program = Path(__file__).with_name("service.py")
        with open(self._folder / "services", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, program, str(self._port), self.journal, *self.ingress],
                env={**os.environ, "FLEET_DONE": str(self.done)},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.services.append(process)
        assert process.stdout is not None
        with process.stdout:
            if not process.stdout.readline():
                raise SystemExit((self._folder / "services").read_text())

    def kill_service(self, service: subprocess.Popen[bytes]) -> None:
        """End a service at once."""
        self.services.remove(service)
        service.kill()
        service.wait(START_S)

    def close(self) -> None:
        """Kill all services and nodes."""
        for service in [*self.services]:
            self.kill_service(service)
        super().close()

    def effects(self) -> list[Effect]:
        """All that was done so far."""
        if not self.done.exists():
            return []
        rows = (line.split() for line in self.done.read_text().splitlines())
        return [
            Effect(what, run_id, int(bill), int(pid), float(at))
            for what, run_id, bill, pid, at in rows
        ]

    def twice(self) -> list[tuple[str, str, int]]:
        """What was done more than once."""
        counts = Counter((one.what, one.run_id, one.bill) for one in self.effects())
        return [done for done, count in counts.items() if count > 1]
