"""Fixtures for pytest."""

import socket

import pytest

from tests.processes import run_pytest
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


def test_the_fixtures_fail_who_does_not_play_to_the_end(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["upshot.testing.plugin"]\n')
    (tmp_path / "test_it.py").write_text(
        "import socket\n"
        "def test_unplayed(scripted):\n    scripted(['one', 'two'])\n"
        "def test_far(no_network):\n    socket.create_connection(('192.0.2.1', 80))\n"
    )
    shown = run_pytest(tmp_path, "-p", "no:cacheprovider", ".")
    assert "has 2 of 2 replies left to play" in shown
    assert "NetworkUsed: a connection to 192.0.2.1:80 was tried" in shown
    assert "1 failed, 1 passed, 1 error" in shown
