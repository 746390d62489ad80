"""Media types that a request accepts, against those of the artifacts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, Artifact, Data, File, Message, Request, RequestConfig, Text, run
from upshot.runs.result_builder import refused_modes

PICTURE = File(media_type="image/png; q=1", name="p")


@pytest.mark.parametrize(
    ("accepted", "refused"),
    [
        ([], ""),
        (["image/png", "text/plain", "application/json"], ""),
        (["image/*", "*/*"], ""),
        (["text/plain"], "image/png, application/json"),
        (["IMAGE/*; q=0.5"], "text/plain, application/json"),
    ],
)
def test_each_mode_that_is_not_accepted_is_told(accepted: list[str], refused: str) -> None:
    artifact = Artifact("report", (Text("x"), PICTURE, Data({}), File(name="unknown")))
    config = RequestConfig(accepted_output_modes=accepted)  # type: ignore[arg-type]
    told = [one.message for one in refused_modes([artifact], config)]
    assert len(told) == bool(refused)
    assert all(f"has parts of {refused}, " in one for one in told)


async def test_a_run_warns_of_artifacts_that_its_request_does_not_accept() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(Message("assistant", "For you."), "report")

    config = RequestConfig(accepted_output_modes=("image/png",))
    agent: Agent[str] = Agent("a", engine=Do(work))
    for asked, codes in ((Request("Q?", config=config), ["output_mode"]), (Request("Q?"), [])):
        result = await run(agent, asked, artifacts=["report"])
        assert result.success
        assert [one.code for one in result.warnings] == codes
