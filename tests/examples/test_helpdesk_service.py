"""The help desk as a service: a customer chats, staff approve, and a killed server pays once."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.examples.desk_server import DeskServer

CHAT = "/desk/ui/helpdesk"


class Person:
    """Somebody who is signed in."""

    def __init__(self, session: aiohttp.ClientSession, url: str, name: str) -> None:
        self.name, self.url, self._session = name, url, session
        self._headers = {"cookie": f"helpdesk_user={name}", "x-upshot": "1"}

    async def get(self, path: str) -> Any:
        async with self._session.get(self.url + path, headers=self._headers) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def post(self, path: str, body: Any) -> int:
        asking = self._session.post(self.url + path, json=body, headers=self._headers)
        async with asking as response:
            await response.read()
            return response.status

    async def say(self, text: str) -> AsyncGenerator[dict[str, Any]]:
        """The chunks of the answer, as they come."""
        said = {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": text}]}
        body = {"id": f"desk-{self.name}", "messages": [said]}
        asking = self._session.post(self.url + CHAT, json=body, headers=self._headers)
        async with asking as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])


ASKED = "I want my money back for order 1041."


async def waiting(staff: Person, kind: str) -> Any:
    """What waits for staff, once it does."""
    while True:
        for item in (await staff.get("/desk/api/inbox"))["items"]:
            if item["pending"]["kind"] == kind:
                return item


async def approve(customer: Person, staff: Person) -> str:
    """Approve the refund that waits; gives its run."""
    item = await waiting(staff, "pending_approval")
    run_id, asked = item["run_id"], item["pending"]
    yes = {"kind": "approve", "call_id": asked["call_id"], "digest": asked["digest"]}
    # What waits for staff is not the customer's to answer.
    path = f"/desk/api/runs/{run_id}/answer"
    assert await customer.post(path, {"answers": [yes]}) == 403
    assert await staff.post(path, {"answers": [yes]}) == 200
    return str(run_id)


async def last_text(customer: Person) -> str:
    shown = (await customer.get(f"{CHAT}/desk-{customer.name}"))["messages"]
    return "".join(part["text"] for part in shown[-1]["parts"] if part["type"] == "text")


async def until_it_waits_for_staff(customer: Person) -> None:
    async for chunk in customer.say(ASKED):
        if chunk["type"] == "data-waiting":
            return


async def refund_state(staff: Person, run_id: str) -> tuple[str, bool]:
    """The status of a run, and whether its refund is under way."""
    whole = await staff.get(f"/desk/api/runs/{run_id}")
    rows = [row for row in whole["rows"] if row["name"] == "refund"]
    return whole["head"]["status"], any(row.get("end_s") is None for row in rows)


@pytest.mark.parametrize("kills", ["before the bank has paid", "after it"])
async def test_a_server_that_is_killed_in_a_refund_pays_once(tmp_path: Path, kills: str) -> None:
    is_before = kills.startswith("before")
    with DeskServer(tmp_path) as server:
        server.start(*((60, 0) if is_before else (0, 60)))
        timeout = aiohttp.ClientTimeout(60)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            ada, sam = (Person(session, server.url, name) for name in ("ada", "sam"))
            await until_it_waits_for_staff(ada)
            run_id = await approve(ada, sam)
            while not ((await refund_state(sam, run_id))[1] if is_before else server.refunds()):
                pass
            server.kill()
            server.start(0, 0)
            # Nobody knows whether it was paid; who looks at the bank does.
            item = await waiting(sam, "pending_effect")
            assert item["run_id"] == run_id and item["pending"]["arguments"] == {"number": 1041}
            paid = (await sam.get("/bank"))["paid back"]
            assert paid == ([] if is_before else [1041])
            word = "no" if is_before else "yes"
            told = {"kind": "answer", "id": item["pending"]["id"], "value": word, "note": "/bank"}
            path = f"/desk/api/runs/{run_id}/answer"
            assert await ada.post(path, {"answers": [told]}) == 403
            assert await sam.post(path, {"answers": [told]}) == 200
            if is_before:
                # It is made anew then, and asked about as before.
                assert await approve(ada, sam) == run_id
            while (await refund_state(sam, run_id))[0] != "completed":
                pass
            log = await sam.get(f"/desk/api/runs/{run_id}")
            assert log["head"]["effect"] == "applied" and log["head"]["sessions"] > 1
            said = await last_text(ada)
            assert said.startswith("It is done: ")
            # Whoever asks for it once more is told so, and staff is not asked again.
            chunks = [chunk async for chunk in ada.say(ASKED)]
            assert chunks[-1]["type"] == "finish", chunks[-1]
            orders = (await ada.get("/mine"))["orders"]
            assert (await sam.get("/desk/api/inbox"))["items"] == []
        assert server.refunds() == [1041]
    assert orders[0]["state"] == "refunded"


async def test_a_customer_cancels_his_own_orders_and_sees_no_others(tmp_path: Path) -> None:
    with DeskServer(tmp_path) as server:
        server.start()
        async with aiohttp.ClientSession() as session:
            ada, ben = (Person(session, server.url, name) for name in ("ada", "ben"))
            chunks = [chunk async for chunk in ben.say("Please cancel order 1043.")]
            (asked,) = [one for one in chunks if one["type"] == "tool-approval-request"]
            assert asked and chunks[-1]["finishReason"] == "tool-calls"
            assert (await ada.get(f"{CHAT}/desk-ben"))["messages"] == []
            messages = (await ben.get(f"{CHAT}/desk-ben"))["messages"]
            part = messages[-1]["parts"][-1]
            part["state"] = "approval-responded"
            part["approval"]["approved"] = True
            assert await ben.post(CHAT, {"id": "desk-ben", "messages": messages}) == 200
            shown = (await ben.get(f"{CHAT}/desk-ben"))["messages"]
            # It is Ada's order, so there was nothing to cancel.
            assert "could not do that" in str(shown[-1])
            assert (await ada.get("/mine"))["orders"][2]["state"] == "not sent yet"
