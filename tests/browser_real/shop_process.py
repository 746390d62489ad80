"""The shop in a process of its own, which can be killed and begun again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parents[2]


class ShopProcess:
    """A server of the shop on a port that it keeps.

    Args:
        folder: Where its journal is, and the gate of its carrier.
        session: What it is asked with whether it is there.

    Attributes:
        url: Its address.
        gate: Once this file is there, the carrier answers.
        process: The one that serves now.
    """

    process: Process

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.gate = folder / "gate"
        self._session = session
        journal = folder / "runs.db"
        self._command = [sys.executable, "-m", "tests.browser_real.server", str(journal), str(port)]

    async def begin(self) -> None:
        """Begin, and be reached."""
        paths = f"{ROOT}:{ROOT / 'src'}"
        env = {**os.environ, "SHOP_GATE": str(self.gate), "PYTHONPATH": paths}
        self.process = await asyncio.create_subprocess_exec(*self._command, env=env, cwd=ROOT)
        while self.process.returncode is None:
            try:
                async with self._session.get(self.url + "/static/console.css") as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
        raise RuntimeError(f"the server of the shop ended with {self.process.returncode}")

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait until it is gone."""
        if self.process.returncode is None:
            self.process.send_signal(number)
            await self.process.wait()
