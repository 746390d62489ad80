"""The AI SDK against /ui: its schema of chunks, its reader of streams, and its chat."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.protocols_real.desk import make_desk
from tests.protocols_real.node import Script, needs_node, script
from tests.serve.kit import Client, served
from upshot import App

pytestmark = needs_node
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Page:
    """A page with a chat of the AI SDK.

    Attributes:
        status: That of the chat.
        error: What went wrong in it, None for nothing.
        messages: Its messages.
        streams: The chunks of each stream so far.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.status, self.error = "ready", None
        self.messages: list[Any] = []
        self.streams: list[list[Any]] = []

    async def do(self, *words: Any) -> Any:
        """Have the page do something; gives its result."""
        now = await self._script.do(*words)
        self.status, self.error = now["status"], now.get("error")
        self.messages, self.streams = now["messages"], now["streams"]
        return now.get("result")

    @property
    def parts(self) -> list[Any]:
        """The parts of the last message, but for the marks between steps."""
        return [one for one in self.messages[-1]["parts"] if one["type"] != "step-start"]

    @property
    def text(self) -> str:
        return "".join(one["text"] for one in self.parts if one["type"] == "text")

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The tools of the last message, and their states."""
        return [
            (one["type"], one["state"]) for one in self.parts if one["type"].startswith("tool-")
        ]


@asynccontextmanager
async def page_of(
    url: str, agent: str = "desk", id: str = "chat-1", **headers: str
) -> AsyncGenerator[Page]:
    async with script("ui_page.mjs") as found:
        page = Page(found)
        await page.do("open", {"api": f"{url}/ui/{agent}", "id": id, "headers": headers})
        yield page


@asynccontextmanager
async def opened(
    agent: str = "desk", app: App | None = None
) -> AsyncGenerator[tuple[Page, Client]]:
    async with (
        served(app or make_desk()) as site,
        page_of(site.url, agent, authorization="cal") as page,
    ):
        yield page, site.by("oz")


async def staff_answers(staff: Client, kind: str = "approve") -> None:
    """Answer what waits for staff."""
    items = (await staff.get("/api/inbox"))[1]["items"]
    (item,) = [one for one in items if one["pending"]["tool_name"] == "refund"]
    answer = {"kind": kind, "call_id": "c00", "digest": item["pending"]["digest"]}
    status, said = await staff.post(f"/api/runs/{item['run_id']}/answer", {"answers": [answer]})
    assert status == 200, said


async def check_reload(page: Page) -> None:
    """A page that is opened anew shows the same."""
    messages = page.messages
    await page.do("load")
    assert [bare(one) for one in page.messages] == [bare(one) for one in messages]


def bare(message: Any) -> Any:
    """What of a message a page shows; how far apart its parts are does not count."""
    kept = ("type", "text", "state", "toolCallId", "input", "output", "errorText", "approval")
    return (
        message["id"],
        message["role"],
        [
            {name: value for name, value in part.items() if name in kept}
            | {"approval": {**part["approval"], "reason": None} if "approval" in part else None}
            for part in message["parts"]
            if part["type"] != "step-start"
        ],
    )


SETTLED = ("tool-pay", "output-available")


@pytest.mark.parametrize(
    ("agent", "text", "said", "calls"),
    [
        ("desk", "Hello", "You said Hello", []),
        ("desk", "Look", "Order 7 is on its way.", [("tool-lookup", "output-available")]),
        ("desk", "Miss", "There is no such order.", [("tool-lookup", "output-error")]),
        ("desk", "Fail", "", []),
        ("discarded", "Hello", "", []),
    ],
)
async def test_the_reader_of_streams_builds_the_message(
    agent: str, text: str, said: str, calls: list[Any]
) -> None:
    async with opened(agent) as (page, _):
        await page.do("send", text)
        message = await page.do("read")
        assert (page.status, page.text, page.calls) == ("ready", said, calls)
        assert bare(message) == bare(page.messages[-1])
        assert "s3cret" not in str(page.streams) and "only the model" not in str(page.streams)
        await check_reload(page)
    assert len(page.streams) == 1


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ("Hello", "You said Hello", []),
        ("Look", "Order 7 is on its way.", [("tool-lookup", "output-available")]),
    ],
)
async def test_of_what_a_decider_had_revised_the_last_answer_is_shown(
    text: str, said: str, calls: list[Any]
) -> None:
    app = make_desk()
    async with opened("revised", app) as (page, _):
        given: dict[str, Any] = {"conversation": "chat-1", "attributes": {"user": "cal"}}
        handle = await app.submit("revised", text, max_attempts=2, **given)
        await handle.result()
        await page.do("load")
        assert (page.text, set(page.calls)) == (said, set(calls))
        assert [part["type"] for part in page.parts].count("text") == 1


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize(
    ("text", "count", "said"),
    [("Pay", 1, "That is settled."), ("Twice", 2, "Both are settled."), ("Silent", 1, "")],
)
async def test_an_approval_is_answered_in_place(
    text: str, count: int, said: str, approved: bool
) -> None:
    async with opened() as (page, staff):
        await page.do("send", text)
        assert page.calls == [("tool-pay", "approval-requested")] * count
        await check_reload(page)
        await page.do("decide", approved, None if approved else "Too dear.")
        assert (page.status, page.error, page.text) == ("ready", None, said)
        assert (
            page.calls
            == [("tool-pay", "output-available" if approved else "output-denied")] * count
        )
        _, log = await staff.get(f"/api/runs/{page.messages[-1]['id']}")
        assert (log["head"].get("effect") == "applied") is approved
        # The chat sends what was answered once.
        assert len(page.streams) == 2
        await check_reload(page)


async def test_one_approval_after_the_other() -> None:
    async with opened() as (page, _):
        await page.do("send", "Then")
        await page.do("decide", True)
        assert page.calls == [SETTLED, ("tool-pay", "approval-requested")]
        await check_reload(page)
        await page.do("decide", True)
        assert (page.calls, page.text) == ([SETTLED, SETTLED], "One after the other.")
        await check_reload(page)


async def test_a_question_is_answered_by_its_output() -> None:
    async with opened("tailor") as (page, _):
        await page.do("send", "A shirt, please.")
        assert page.calls == [("tool-ask_user", "input-available")]
        await check_reload(page)
        await page.do("output", "M")
        assert (page.status, page.error, page.text) == ("ready", None, "Size M.")
        assert page.calls == [("tool-ask_user", "output-available")]
        await check_reload(page)
    assert len(page.streams) == 2


async def test_an_answer_that_is_none_can_be_given_again() -> None:
    async with opened("tailor") as (page, _):
        await page.do("send", "A shirt, please.")
        await page.do("output", "XXL")
        assert page.status == "error" and "XXL" in str(page.error)
        await page.do("load")
        await page.do("output", "S")
        assert page.text == "Size S."


async def test_what_waits_for_staff_goes_on_by_itself() -> None:
    async with opened() as (page, staff):
        await page.do("sending", "Refund")
        await page.do("seen", "data-waiting")
        assert page.calls == [] and "refund" not in str(page.streams)
        await staff_answers(staff)
        await page.do("ended")
        assert (page.status, page.text) == ("ready", "Staff has looked at it.")
        await check_reload(page)


async def test_the_user_and_staff_are_asked_at_once() -> None:
    async with opened() as (page, staff):
        await page.do("send", "Both")
        assert page.calls == [("tool-pay", "approval-requested")]
        assert "refund" not in str(page.streams)
        await staff_answers(staff, "deny")
        await page.do("decide", True)
        assert (page.error, page.calls, page.text) == (None, [SETTLED], "All is settled.")
        await check_reload(page)


async def test_a_page_that_is_opened_anew_goes_on_with_what_is_under_way() -> None:
    async with opened() as (page, staff):
        await page.do("sending", "Refund")
        await page.do("seen", "data-waiting")
        await page.do("stop")
        await page.do("load")
        await page.do("resuming")
        await staff_answers(staff)
        await page.do("seen", "looked at it")
        await page.do("ended")
        assert [one["role"] for one in page.messages] == ["user", "assistant"]
        await page.do("resume")
        assert (page.status, len(page.messages)) == ("ready", 2)


async def test_what_was_answered_is_not_asked_again_after_a_reload() -> None:
    async with opened() as (page, staff):
        await page.do("send", "Both")
        await page.do("deciding", True)
        await page.do("seen", "data-waiting")
        await page.do("stop")
        await page.do("load")
        await page.do("resuming")
        await page.do("seen", "data-waiting")
        assert "approval-requested" not in str(page.calls)
        await staff_answers(staff)
        await page.do("ended")
        assert (page.calls, page.text) == ([SETTLED], "All is settled.")


async def test_a_run_that_is_canceled_leaves_no_call_open() -> None:
    async with opened() as (page, staff):
        await page.do("sending", "Hold")
        await page.do("seen", "input-available")
        run = page.messages[-1]["id"]
        assert (await staff.post(f"/api/runs/{run}/cancel"))[0] == 200
        await page.do("ended")
        assert page.calls == [("tool-hold", "output-error")]
        assert page.streams[-1][-1]["finishReason"] == "interrupted"
        await check_reload(page)


async def test_an_answer_is_had_again_as_often_as_it_is_wanted() -> None:
    async with opened() as (page, _):
        await page.do("send", "Hello")
        ids = [page.messages[-1]["id"]]
        for given in ([], [], [page.messages[0]["id"]], [page.messages[0]["id"]]):
            await page.do("regenerate", *given)
            assert (page.status, page.error, page.text) == ("ready", None, "You said Hello")
            ids.append(page.messages[-1]["id"])
        assert len({*ids}) == len(ids)
        await page.do("edit", page.messages[0]["id"], "Look")
        assert page.text == "Order 7 is on its way."
        await page.do("send", "Hello")
        assert [one["role"] for one in page.messages] == ["user", "assistant"] * 2
        await check_reload(page)


async def test_what_has_done_something_is_not_had_again() -> None:
    async with opened() as (page, _):
        await page.do("send", "Pay")
        await page.do("decide", True)
        await page.do("regenerate")
        assert page.status == "error" and "cannot be taken back" in str(page.error)


@asynccontextmanager
async def process_of(folder: Path, gate: Path) -> AsyncGenerator[tuple[Any, str, str]]:
    """``upshot serve`` of the desk: its process, its address, and the line that signs in."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "XDG_STATE_HOME": str(folder),
        "UPSHOT_TEST_GATE": str(gate),
    }
    command = ["serve", str(HERE / "desk.py"), "--journal", str(folder / "desk.db")]
    where = folder / "port"
    port = where.read_text() if where.exists() else "0"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "upshot", *command, "--port", port),
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        while line := (await process.stderr.readline()).decode():
            if "/sign-in" in line:
                break
        url = line.strip().partition("/sign-in")[0]
        where.write_text(url.rpartition(":")[2])
        yield process, url, line.strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def cookie_of(link: str) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(link, allow_redirects=False) as response,
    ):
        return response.headers["set-cookie"].partition(";")[0]


async def test_a_dialog_with_a_server_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with process_of(tmp_path, gate) as (process, url, link):
        cookie = await cookie_of(link)
        async with page_of(url, cookie=cookie) as page:
            await page.do("send", "Pay")
            await page.do("decide", True)
            assert (page.text, page.error) == ("That is settled.", None)
            await page.do("sending", "one two ... three")
            await page.do("seen", "said one two ...")
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await page.do("ended")
            assert page.status == "error"
            gate.touch()
            async with process_of(tmp_path, gate):
                await page.do("resume")
                assert (page.status, page.text) == ("ready", "You said one two ... three")
                assert len(page.messages) == 4
                await check_reload(page)
