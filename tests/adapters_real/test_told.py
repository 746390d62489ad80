"""The tables of docs/adapters.md say what the real packages tell."""

import logging

import pytest

from tests.adapters_real.plays import NATIVE, QUIET, is_here
from tests.adapters_real.told import measure, stored

# CrewAI and Microsoft Agent Framework have environments of their own.
HERE = [name for name in NATIVE if is_here(name)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    for name, value in {**QUIET, "UPSHOT_PLAYS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", HERE)
async def test_what_a_framework_tells_is_what_the_page_says(name):
    assert await measure(name) == stored()[name], "measure again: make told"
