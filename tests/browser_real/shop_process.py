"""The shop in a process of its own, which can be killed and begun again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import aiohttp

from tests.processes import start_python


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

    process: subprocess.Popen[Any]

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.gate = folder / "gate"
        self._session = session
        self._command = ["-m", "tests.browser_real.server", str(folder / "runs.db"), str(port)]

    async def begin(self) -> None:
        """Begin, and be reached."""
        env = {**os.environ, "SHOP_GATE": str(self.gate)}
        self.process = await asyncio.to_thread(start_python, *self._command, env=env, max_s=200)
        while self.process.poll() is None:
            try:
                async with self._session.get(self.url + "/static/console.css") as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
        raise RuntimeError(f"the server of the shop ended with {self.process.returncode}")

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait until it is gone."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            await asyncio.to_thread(self.process.wait)
