"""``upshot chat`` and a site's pages talk in one conversation."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.processes import run_python
from tests.serve.doors.test_ui_stream import Chat, text_of
from tests.serve.kit import served
from upshot import Agent, App, ScriptedModel

CODE = """
from upshot import Agent, ScriptedModel

agent = Agent(
    "echo",
    model=ScriptedModel(lambda messages: " + ".join(one.text for one in messages)),
)
"""


def app(journal: Path) -> App:
    model = ScriptedModel(lambda messages: " + ".join(one.text for one in messages))
    return App([Agent("echo", model=model)], journal=journal)


async def talk(folder: Path, conversation: str, *lines: str) -> str:
    """What ``upshot chat`` answers to some lines."""
    (folder / "desk.py").write_text(CODE)
    command = ["-m", "upshot", "chat", "desk.py:agent", "--journal", "desk.db"]
    done = await asyncio.to_thread(
        run_python,
        *(*command, "--conversation", conversation),
        said="".join(f"{line}\n" for line in lines),
        cwd=folder,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_terminal_goes_on_with_what_a_page_began(tmp_path: Path) -> None:
    async with served(app(tmp_path / "desk.db")) as site:
        page = Chat(site.by("cal"), "echo")
        await page.say("One")
        assert (await talk(tmp_path, "chat-1~cal", "Two")).strip() == "One + One + Two"
        # It stays the first user's, who sees all of it.
        page.messages = await page.shown()
        assert [text_of(one) for one in page.messages] == ["One", "One", "Two", "One + One + Two"]
        await page.say("Three")
        assert text_of(page.messages[-1]).endswith("Two + One + One + Two + Three")
        stranger = Chat(site.by("ben"), "echo")
        assert await stranger.shown() == []


async def test_a_page_goes_on_with_what_the_terminal_began(tmp_path: Path) -> None:
    assert (await talk(tmp_path, "chat-1", "One", "Two")).strip() == "One\nOne + One + Two"
    async with served(app(tmp_path / "desk.db")) as site:
        status, said = await site.by("oz").get("/api/conversations/chat-1")
        assert (status, len(said["runs"])) == (200, 2)
        body = {"agent": "echo", "text": "Three", "conversation": "chat-1"}
        status, begun = await site.by("oz").post("/api/runs", body)
        assert status == 201, begun
        while (await site.by("oz").get(f"/api/runs/{begun['run_id']}"))[1]["head"][
            "status"
        ] != "completed":
            pass
        # What is nobody's is no customer's either.
        assert (await site.by("cal").get("/api/conversations/chat-1"))[0] in (403, 404)
    said = await talk(tmp_path, "chat-1", "Four")
    assert said.strip().endswith("+ Three + One + One + Two + One + One + Two + Three + Four")
