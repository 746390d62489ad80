"""What an engine can read of its run, and cannot set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, Misuse, run

FACTS = [
    "id",
    "identity",
    "parent_run_id",
    "depth",
    "attributes",
    "dependencies",
    "budget",
    "resume_from",
    "attempt",
    "feedback",
]


@pytest.mark.parametrize("name", FACTS)
async def test_an_engine_sets_no_fact_of_its_run(name: str) -> None:
    async def work(run: Any, host: Any, board: Any) -> str:
        before = getattr(run, name)
        # As of anything in Python that cannot be set, and in upshot's own words.
        for kind in (AttributeError, Misuse):
            with pytest.raises(kind, match=rf"run\.{name} cannot be set"):
                setattr(run, name, "forged")
            with pytest.raises(kind, match=rf"run\.{name} cannot be deleted"):
                delattr(run, name)
        assert getattr(run, name) == before
        return "fine"

    result = await run(Agent("a", engine=Do(work)), "?", attributes={"run_id": "forged"})
    assert (result.output, result.error) == ("fine", None)
