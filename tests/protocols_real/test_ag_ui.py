"""AG-UI's own client against /ag-ui: its checks of events, and whole dialogs, cut at each event."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.protocols_real.desk import make_desk
from tests.protocols_real.node import Script, needs_node, script
from tests.serve.kit import Client, served

pytestmark = needs_node
YES = {"status": "resolved", "payload": {"approved": True}}
NO = {"status": "resolved", "payload": {"approved": False, "reason": "Too dear."}}
NOTHING = {"status": "cancelled"}


class Thread:
    """A thread as the official client has it.

    Attributes:
        messages: What was said in it.
        interrupts: What is asked.
        events: What the last request told.
        failed: The error that ended it, None for none.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.messages: list[Any] = []
        self.interrupts: list[Any] = []
        self.events: list[Any] = []
        self.failed: Any = None

    async def do(self, *words: Any) -> None:
        now = await self._script.do(*words)
        self.messages, self.interrupts = now["messages"], now["interrupts"]
        self.events, self.failed = now.get("events", []), now.get("failed")

    @property
    def kinds(self) -> list[str]:
        return [one["type"] for one in self.events]

    @property
    def text(self) -> str:
        return str(self.messages[-1].get("content", ""))

    def shown(self) -> str:
        """What the client knows, but for the names of runs and what progress was seen."""
        said = [one for one in self.messages if one["role"] != "activity"]
        asked = [] if self.failed else self.interrupts
        known = json.dumps([said, asked, bool(self.failed)], sort_keys=True)
        return re.sub("run-[0-9a-f]{16}|[0-9a-f]{64}", "", known)


async def thread_in(found: Script, site: Client, agent: str, id: str = "t") -> Thread:
    """A thread of a client that may have had others."""
    thread = Thread(found)
    headers = {"authorization": "cal"}
    given = {"url": f"{site.url}/ag-ui/{agent}", "threadId": id, "headers": headers}
    await thread.do("open", given)
    return thread


@asynccontextmanager
async def thread_of(site: Client, agent: str, id: str = "t") -> AsyncGenerator[Thread]:
    async with script("ag_client.mjs") as found:
        yield await thread_in(found, site, agent, id)


# What is said, the answers to what is asked, and how it ends.
DIALOGS: list[tuple[str, str, list[Any], str]] = [
    ("desk", "Hello", [], "You said Hello"),
    ("desk", "Look", [], "Order 7 is on its way."),
    ("desk", "Miss", [], "There is no such order."),
    ("desk", "Fail", [], ""),
    ("desk", "Pay", [[YES]], "That is settled."),
    ("desk", "Pay", [[NO]], "That is settled."),
    ("desk", "Pay", [[NOTHING]], ""),
    ("desk", "Twice", [[YES, NO]], "Both are settled."),
    ("desk", "Then", [[YES], [NO]], "One after the other."),
    ("desk", "Silent", [[YES]], ""),
    ("tailor", "A shirt", [[{"status": "resolved", "payload": {"value": "M"}}]], "Size M."),
    ("discarded", "Hello", [], ""),
]
NAMES = [f"{text}-{len(answers)}-{place}" for place, (_, text, answers, _) in enumerate(DIALOGS)]


@pytest.mark.parametrize(("agent", "text", "answers", "said"), DIALOGS, ids=NAMES)
async def test_a_dialog_cut_at_each_event_is_the_whole_one(
    agent: str, text: str, answers: list[Any], said: str
) -> None:
    async with served(make_desk()) as site, script("ag_client.mjs") as client:
        shown, lengths = [], []
        whole = await thread_in(client, site, agent)
        await whole.do("say", "m", text)
        shown.append(whole.shown())
        lengths.append(len(whole.events))
        for given in answers:
            assert len(whole.interrupts) == len(given)
            await whole.do("answer", given)
            shown.append(whole.shown())
            lengths.append(len(whole.events))
        assert whole.failed or whole.interrupts == []
        assert (whole.text if said else "") == said
        if agent == "desk":
            await whole.do("go_on", "m-2", "Hello")
            assert (whole.text, whole.interrupts) == ("You said Hello", [])
        for part, length in enumerate(lengths):
            for stop in range(length):
                cut = await thread_in(client, site, agent, f"t-{part}-{stop}")
                await cut.do("say", "m", text, *([stop] if part == 0 else []))
                for number, given in enumerate(answers[:part], 1):
                    await cut.do("answer", given, *([stop] if part == number else []))
                await cut.do("again")
                assert cut.shown() == shown[part], (part, stop)


async def test_what_waits_for_staff_goes_on_by_itself() -> None:
    async with served(make_desk()) as site, thread_of(site, "desk") as thread:
        await thread.do("saying", "m", "Refund")
        await thread.do("seen", "CUSTOM")
        assert "refund" not in str(thread.events)
        staff = site.by("oz")
        (item,) = (await staff.get("/api/inbox"))[1]["items"]
        answer = {"kind": "approve", "call_id": "c00", "digest": item["pending"]["digest"]}
        assert (await staff.post(f"/api/runs/{item['run_id']}/answer", {"answers": [answer]}))[
            0
        ] == 200
        await thread.do("ended")
        assert thread.text == "Staff has looked at it."


async def test_a_run_that_is_canceled_is_an_error_that_the_client_knows() -> None:
    async with served(make_desk()) as site, thread_of(site, "desk") as thread:
        await thread.do("saying", "m", "Hold")
        await thread.do("seen", "TOOL_CALL_END")
        (run,) = (await site.by("oz").get("/api/runs"))[1]["runs"]
        assert (await site.by("oz").post(f"/api/runs/{run['run_id']}/cancel"))[0] == 200
        await thread.do("ended")
        assert thread.events[-1]["outcome"] == {"type": "cancelled"}
        await thread.do("ask")


async def test_a_thread_is_read_anew_and_goes_on() -> None:
    async with served(make_desk()) as site:
        async with thread_of(site, "desk") as first:
            await first.do("say", "m-1", "Look")
            await first.do("say", "m-2", "Hello")
            messages = first.messages
        async with thread_of(site, "desk") as other:
            await other.do("ask")
            assert [one for one in messages if one["role"] != "activity"] == other.messages
            await other.do("say", "m-3", "Pay")
            await other.do("answer", [YES])
            assert other.text == "That is settled."
        async with thread_of(site, "desk") as late:
            await late.do("say", "m-4", "Hello")
            assert late.failed["code"] == "conflict"
