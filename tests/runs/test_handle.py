"""A run in flight, as it shows itself."""

from __future__ import annotations

from upshot import Agent, start
from upshot.models import ScriptedModel


async def test_a_run_in_flight_shows_its_id_and_how_it_ended() -> None:
    async with start(Agent("a", model=ScriptedModel(["Hi."])), "?") as live:
        assert repr(live) == f"LiveRun({live.run_id}, under way)"
        await live.result()
        assert repr(live) == f"LiveRun({live.run_id}, completed)"
