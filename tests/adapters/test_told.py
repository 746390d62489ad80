"""What was measured of each framework is whole, and is what the page shows."""

import re

import pytest

from tests.adapters_real.plays import CASES, NATIVE
from tests.adapters_real.told import FACTS, stored
from upshot import adapters

CLIENTS = {"aisuite", "langchain", "litellm"}


def test_every_adapter_of_agents_is_measured():
    names = {name.removeprefix("from_") for name in adapters.__all__ if name.startswith("from_")}
    assert names - CLIENTS == {*NATIVE} == {*stored()}


@pytest.mark.parametrize("name", NATIVE)
def test_every_case_was_run(name):
    measured = stored()[name]
    assert (list(measured["cases"]), list(measured["facts"])) == ([*CASES], [*FACTS])
    assert all(re.match(r"`\w+`", cell) for cell in measured["cases"].values())
    assert {*measured["facts"].values()} <= {"yes", "-"}
