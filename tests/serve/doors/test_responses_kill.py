"""A response outlives the server that was killed in one of its tools."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.serve.doors.test_a2a_kill import desk_in
from tests.serve.doors.test_responses import ROUTE, made, streamed, texts


async def test_a_response_goes_on_after_its_server_was_killed_in_a_tool(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as (client, process):
        begun = await made(client, "clerk", background=True)
        (tmp_path / "answered").touch()
        assert process.wait() == -signal.SIGKILL
    async with desk_in(tmp_path) as (client, _):
        path = f"{ROUTE}/{begun['id']}"
        events: list[object] = []
        async for event in streamed(client, "GET", f"{path}?stream=true"):
            (tmp_path / "watched").touch()
            events.append(event["type"])
        _, done = await client.get(path)
    assert (events[0], events[-1]) == ("response.created", "response.completed")
    assert (done["id"], texts(done)) == (begun["id"], ["All is fine."])
