"""Fixtures for pytest: ``pytest_plugins = ["upshot.testing.plugin"]`` in a conftest.py."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from upshot.models.scripted import ScriptedModel
from upshot.sim.simulator import Simulator

_LOOPBACK = ("127.", "::1", "localhost")


class NetworkUsed(RuntimeError):
    """A test under ``no_network`` tried to connect to another machine."""


@pytest.fixture
def scripted() -> Generator[Callable[..., ScriptedModel]]:
    """Make ScriptedModels: ``scripted(["Hello"])``; each must be played to its end."""
    made: list[ScriptedModel] = []

    def make(script: Any, **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(script, **options))
        return made[-1]

    yield make
    for model in made:
        model.assert_finished()


@pytest.fixture
def simulator() -> Generator[Callable[..., Simulator]]:
    """Start provider simulators: ``simulator(["Hello"]).base_url``; they end with the test.

    Each runs in a thread of its own, so plain and async tests can both use it.
    """
    with ExitStack() as stack:

        def start(*args: Any, **options: Any) -> Simulator:
            return stack.enter_context(_served(Simulator(*args, **options)))

        yield start


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection except to this machine, with ``NetworkUsed``."""
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))


def _guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
    def connect_near(own: socket.socket, address: Any) -> Any:
        near = own.family not in (socket.AF_INET, socket.AF_INET6)
        if not near and not str(address[0]).startswith(_LOOPBACK):
            raise NetworkUsed(f"a connection to {address[0]}:{address[1]} was tried")
        return connect(own, address)

    return connect_near


@contextmanager
def _served(simulator: Simulator) -> Generator[Simulator]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="upshot-simulator")
    thread.start()

    def do(work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result()

    do(simulator.__aenter__())
    try:
        yield simulator
    finally:
        do(simulator.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
