"""Media types that a request accepts, against those of the artifacts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Do
from upshot import Agent, Artifact, Data, File, Message, Request, RequestConfig, Text, run
from upshot.runs.attempt import refused_modes

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


async def test_channels_of_the_agent_and_of_the_call_give_artifacts_each_once() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(Message("assistant", "1"), "notes")
        board.append(Message("assistant", "2"), "drafts")

    agent: Agent[str] = Agent("a", engine=Do(work), artifacts=["notes"])
    result = await run(agent, "Q?", artifacts=["drafts", "notes"])
    assert [one.name for one in result.artifacts] == ["notes", "drafts"]
    assert [one.name for one in (await run(agent, "Q?")).artifacts] == ["notes"]
    assert (result.warnings, agent.spec().artifacts) == ((), ("notes",))


async def test_a_channel_that_gives_no_artifact_is_told() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(Message("assistant", "Hi."))

    result = await run(Agent("a", engine=Do(work)), "Q?", artifacts=["main", "nots"])
    assert result.artifacts == ()
    assert [(one.code, one.message) for one in result.warnings] == [
        ("no_artifact", "the channel 'main' gives no artifact: its messages are result.messages"),
        (
            "no_artifact",
            "the channel 'nots' gives no artifact: it has no messages; there are main",
        ),
    ]
