"""Fixtures for pytest."""

import socket

import pytest

from upshot.models import resolve
from upshot.testing.plugin import (  # noqa: F401  # fixtures are found by name
    NetworkUsed,
    no_network,
    scripted,
    simulator,
)


async def test_a_scripted_model_is_made(scripted):  # noqa: F811
    assert (await scripted(["Hello"]).call("Hi")).content == "Hello"


async def test_a_simulator_answers(simulator, no_network):  # noqa: F811
    server = simulator(["Hello"])
    model = resolve("openai:any", base_url=server.base_url, api_key="k")
    assert (await model.call("Hi")).content == "Hello"


def test_a_connection_elsewhere_is_refused(no_network):  # noqa: F811
    with socket.socket() as one, pytest.raises(NetworkUsed, match=r"192\.0\.2\.1:80"):
        one.connect(("192.0.2.1", 80))
