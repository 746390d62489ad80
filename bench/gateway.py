"""What a gateway adds to a call: CPU of its process, and time compared with a direct call."""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

__all__ = ["gateway"]

CALLS, WARM = 300, 50
PAUSE_S = 0.004
AIM_MS = 1.5
# A server that does next to nothing, so that the gateway is measured.
SERVER = """
import json, sys
tool = {"name": "refund", "inputSchema": {"type": "object", "properties": {
    "order_id": {"type": "string"}, "cents": {"type": "integer"}}, "required": ["order_id"]}}
hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
    "serverInfo": {"name": "shop", "version": "1"}}
done = {"content": [{"type": "text", "text": "refunded"}]}
results = {"initialize": hello, "tools/list": {"tools": [tool]}, "tools/call": done}
for line in sys.stdin:
    said = json.loads(line)
    if "id" in said:
        answer = {"jsonrpc": "2.0", "id": said["id"], "result": results[said["method"]]}
        print(json.dumps(answer), flush=True)
"""
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
TERMS = {
    "reads": {"effect": "read"},
    "writes": {"effect": "write"},
    "writes that are made once": {"effect": "write", "once": ["order_id"]},
}


def gateway() -> None:
    """CPU and time that a gateway over standard input and output adds to a call."""
    with tempfile.TemporaryDirectory() as folder:
        server = Path(folder, "server.py")
        server.write_text(SERVER)
        direct = _play([sys.executable, str(server)])
        print(
            f"gateway, standard input and output, SQLite\n  direct: {direct.wall_ms:.2f} ms a call"
        )
        print(f"  two bare commits of SQLite: {_commits_ms(folder):.2f} ms CPU (p50)")
        for name, terms in TERMS.items():
            file = Path(folder, "desk.yml")
            # JSON is YAML too.
            text = json.dumps(
                {
                    "journal": str(Path(folder, f"{len(name)}.db")),
                    "servers": {"shop": {"command": [sys.executable, str(server)]}},
                    "tools": {"shop/refund": terms},
                }
            )
            file.write_text(text)
            figures = _play([sys.executable, "-m", "upshot", "gateway", str(file)])
            print(
                f"  {name}: {figures.cpu_ms:.2f} ms CPU a call (p50; aim <= {AIM_MS} ms), "
                f"{figures.wall_ms - direct.wall_ms:+.2f} ms"
            )


def _commits_ms(folder: str) -> float:
    """CPU of the two commits that a write needs, in a program that does nothing else.

    It pauses before each commit, as the gateway does while it waits.
    """
    spent = list[float]()
    with closing(sqlite3.connect(Path(folder, "bare.db"), isolation_level=None)) as database:
        database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE bare (body BLOB)"
        )
        for _ in range(WARM + CALLS):
            call = 0.0
            for _ in range(2):
                time.sleep(PAUSE_S)
                begun = time.thread_time()
                database.execute("INSERT INTO bare VALUES (?)", (b"x" * 700,))
                call += time.thread_time() - begun
            spent.append(call)
    return statistics.median(spent[WARM:]) * 1e3


class _Figures:
    """Medians of a call: CPU of the process, and time until its answer."""

    def __init__(self, cpu: list[float], wall: list[float]) -> None:
        self.cpu_ms = statistics.median(cpu[WARM:]) * 1e3
        self.wall_ms = statistics.median(wall[WARM:]) * 1e3


def _play(command: list[str]) -> _Figures:
    cpu, wall = list[float](), list[float]()
    with _client(command) as (ask, pid):
        ask("initialize", HELLO)
        # The clock of the CPU time of another process, as clock_getcpuclockid(3) gives it.
        clock = (~pid << 3) | 2
        before = time.clock_gettime(clock)
        for number in range(WARM + CALLS):
            begun = time.perf_counter()
            answer = ask("tools/call", {"name": "refund", "arguments": {"order_id": f"o{number}"}})
            wall.append(time.perf_counter() - begun)
            assert "refunded" in str(answer), answer
            # Work done after one answer counts for the next call.
            before, past = time.clock_gettime(clock), before
            cpu.append(before - past)
    return _Figures(cpu, wall)


@contextmanager
def _client(command: list[str]) -> Generator[tuple[Callable[[str, Any], Any], int]]:
    numbers: Iterator[int] = count()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writer, reader = process.stdin, process.stdout

        def ask(method: str, params: Any) -> Any:
            id = next(numbers)
            said = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            writer.write(json.dumps(said).encode() + b"\n")
            writer.flush()
            while (answer := json.loads(reader.readline())).get("id") != id:
                pass
            return answer

        yield ask, process.pid
        writer.close()
