"""DiscardOnInterruptCauses: an interrupted run is not kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import raising, say
from upshot import (
    Agent,
    DiscardOnInterruptCauses,
    FinalizeDecision,
    Interrupted,
    Misuse,
    run,
)


class Keep:
    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.keep_partial("worth it")


@pytest.mark.parametrize(
    ("causes", "committed"),
    [(("user_cancel",), False), (("other", "user_cancel"), False), (("other",), True), ((), True)],
)
async def test_a_named_cause_is_discarded(causes: tuple[str, ...], *, committed: bool) -> None:
    agent: Agent[str] = Agent("a", engine=raising(Interrupted("user_cancel")))
    deciders = [Keep(), DiscardOnInterruptCauses("stale", *causes)]
    result = await run(agent, "Go.", deciders=deciders)
    assert result.committed is committed


async def test_its_reason_is_kept() -> None:
    agent: Agent[str] = Agent("a", engine=raising(Interrupted("user_cancel")))
    decider = DiscardOnInterruptCauses("stale", "user_cancel")
    result = await run(agent, "Go.", deciders=[decider])
    assert result.state["finalize_reason"] == "stale"


async def test_a_completed_run_is_none_of_its_business() -> None:
    class Answer:
        async def execute(self, run: Any, host: Any, board: Any) -> None:
            board.append(say("Done."))

    agent: Agent[str] = Agent("a", engine=Answer())
    result = await run(agent, "Go.", deciders=[DiscardOnInterruptCauses("stale")])
    assert result.committed


@pytest.mark.parametrize("causes", [["user_cancel"], ("a", "b"), 5, None])
def test_a_list_of_causes_is_no_cause(causes: Any) -> None:
    with pytest.raises(Misuse, match="a cause of an interrupt is a word"):
        DiscardOnInterruptCauses("stopped", causes)
