"""The ways in which one refund is asked for twice, for clients of gateways: one effect each."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from mcp import MCPError

from tests.gateway.kit import REFUND, Place, approving, text_of, told
from upshot import Ledger, open_journal

EFFECT = {**REFUND, "effect_name": "refund", "timeout_s": 1, "error": "unknown"}


def is_repeat(result: Any, order: str) -> bool:
    return not result.is_error and text_of(result).startswith(f"re_{order}\nThis was done before")


def is_denied_as_unknown(result: Any) -> bool:
    assert told(result)["reason"] == "effect_unknown", told(result)
    return result.is_error and told(result)["repeats"]["call_id"] != ""


async def test_one_effect_whoever_asks_again(place: Place):
    servers = {"shop": place.shop(), "mall": place.shop()}
    tools = {"shop/refund": EFFECT, "mall/refund": EFFECT}
    place.write(tools, servers=servers, default="read")
    async with (
        place.client(mode="legacy") as one,
        place.client(mode="auto") as other,
    ):

        async def refund(client: Any, order: str, tool: str = "shop_refund", **more: Any) -> Any:
            return await client.call_tool(tool, {"order_id": order, **more})

        # 1 and 2: it fails, or does not answer in time, after it was made.
        for order, then in (("1", "fail"), ("2", "hang")):
            first = await refund(one, order, then=then)
            assert first.is_error and told(first)["effect"] == "unknown"
            for client in (one, other):
                assert is_denied_as_unknown(await refund(client, order))
        # 3, 5 and 6: again, by the same client and by another process.
        assert text_of(await refund(one, "3")) == "re_3"
        assert is_repeat(await refund(one, "3"), "3") and is_repeat(await refund(other, "3"), "3")
        # 4 and 7: at the same moment, in one session and in two.
        found = await asyncio.gather(*(refund(one if n % 2 else other, "4") for n in range(8)))
        assert [text_of(client) for client in found].count("re_4") == 1
        assert sum(is_repeat(client, "4") for client in found) == 7
        # 8 and 9: by a tool of another server that makes the same effect.
        await refund(one, "8")
        assert is_repeat(await refund(other, "8", "mall_refund"), "8")
        # 15: by a plain function, before and after.
        async with open_journal(place.journal) as journal:
            once = Ledger(journal).once(
                "order_id", effect_name="refund", may_differ=("note", "then")
            )
            again = once(_never)
            kept: Any = await asyncio.to_thread(again, "3")
            assert kept["content"][0]["text"] == "re_3"
            states = {one.key: one.state for one in await journal.effects()}
    assert sorted(place.lines) == [f"refund {order}" for order in "12348"]
    unknown = sorted(key for key, state in states.items() if state == "unknown")
    assert unknown == ['{"order_id":"1"}', '{"order_id":"2"}']


def _never(order_id: str, cents: int = 900, note: str = "", then: str = "") -> Any:
    raise AssertionError("it was called")


async def test_the_gateway_or_the_server_is_killed_after_the_refund(bare_place: Place):
    # 10 and 11.
    place = bare_place
    servers = {"shop": place.program()}
    place.write({"shop/refund": EFFECT | {"timeout_s": None}}, servers=servers)
    process = await place.hanging()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    async with place.client(mode="legacy") as client:
        after = await client.call_tool("refund", {"order_id": "7"})
        assert is_denied_as_unknown(after)
        died = await client.call_tool("refund", {"order_id": "8", "then": "die"})
        assert told(died)["effect"] == "unknown"
        assert is_denied_as_unknown(await client.call_tool("refund", {"order_id": "8"}))
    assert place.lines == ["refund 7", "refund 8"]


async def test_approved_twice_and_tried_again(place: Place):
    # 13 and 14.
    place.write({"shop/refund": {**EFFECT, "approval": "order_id == '7'", "error": "none"}})
    async with place.client(mode="legacy", elicitation_callback=approving()) as client:
        first, second = [await client.call_tool("refund", {"order_id": "7"}) for _ in range(2)]
        assert text_of(first) == "re_7" and is_repeat(second, "7")
        refused = await client.call_tool("refund", {"order_id": "8", "then": "refuse"})
        assert refused.is_error
        assert text_of(await client.call_tool("refund", {"order_id": "8"})) == "re_8"
        try:
            await client.call_tool("none", {})
        except MCPError as error:
            assert "Unknown tool" in error.message
    assert place.lines == ["refund 7", "refund 8"]
