"""The clerk of the shop: what he may do, and the script that he plays where no model is named."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from orders import Shop

from upshot import (
    Agent,
    App,
    Message,
    Role,
    RunInfo,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)

INSTRUCTIONS = """You are the clerk of a shop. Look at the customer's orders first. Pay money back
and cancel orders only where the customer asks for it, then say in a sentence what was done."""
NUMBER = re.compile(r"\b1\d{3}\b")
WORDS_S = 0.03


def tools_of(shop: Shop, bank_s: tuple[float, float]) -> list[Tool[..., Any]]:
    """What the clerk may do for the customer whose run it is.

    Args:
        shop: The shop.
        bank_s: How long the bank takes before and after it has paid.
    """

    def order_of(context: ToolContext[str], number: int) -> Any:
        order = shop.order(context.dependencies, number)
        if order is None:
            raise ToolError(f"there is no order {number} of this customer")
        return order

    @tool(effect="read", public=True, public_name="Look at your orders")
    def orders(context: ToolContext[str]) -> list[dict[str, Any]]:
        """List the customer's orders."""
        return [one._asdict() for one in shop.orders_of(context.dependencies)]

    @tool(
        effect="write",
        approval=True,
        # The bank pays as often as one asks, so a refund is asked for once; where nobody knows
        # whether it was paid, staff is asked, who can look at the bank.
        once="number",
        on_unknown="ask",
        public=lambda arguments: {"order": arguments["number"]},
        public_name="Pay your money back",
    )
    async def refund(context: ToolContext[str], number: int) -> str:
        """Pay an order back. Staff is asked first."""
        order = order_of(context, number)
        await asyncio.sleep(bank_s[0])
        shop.refund(order)
        await asyncio.sleep(bank_s[1])
        return f"{order.price:.2f} euros were paid back"

    @tool(effect="write", approval=True, ask="user", public=True, public_name="Cancel your order")
    def cancel_order(context: ToolContext[str], number: int) -> str:
        """Cancel an order that was not sent yet. The customer is asked first."""
        order = order_of(context, number)
        if order.state != "not sent yet":
            raise ToolError(f"order {number} is {order.state}: it cannot be cancelled any more")
        shop.cancel(number)
        return f"order {number} is cancelled"

    return [orders, refund, cancel_order]


class Script(ScriptedModel):
    """Plays the clerk, word by word, so that the example needs no key."""

    def __init__(self) -> None:
        super().__init__(_reply)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """As any model streams."""
        async for item in super().stream(request):
            await asyncio.sleep(WORDS_S)
            yield item


def _reply(messages: Sequence[Message]) -> str | ToolCall:
    """The next call, or the answer."""
    asked = max(at for at, one in enumerate(messages) if one.role is Role.USER)
    text, since = messages[asked].text, messages[asked + 1 :]
    found, id = NUMBER.search(text), f"call-{len(messages)}"
    if not since:
        return ToolCall(id, "orders", {})
    is_done = sum(one.role is Role.TOOL for one in since) > 1
    word = text.lower()
    if found and not is_done and re.search("refund|money|back", word):
        return ToolCall(id, "refund", {"number": int(found[0])})
    if found and not is_done and "cancel" in word:
        return ToolCall(id, "cancel_order", {"number": int(found[0])})
    if is_done:
        last = since[-1].text.lower()
        if "paid back" in last or ("cancelled" in last and "cannot" not in last):
            return f"It is done: {since[-1].text.strip('.')}. Is there anything else?"
        if '"effect":"applied"' in last:
            return "It is done: your money was paid back. Is there anything else?"
        if found and "has not taken effect" in last:
            # Staff looked at the bank: nothing was paid, so it is asked for once more.
            return ToolCall(id, "refund", {"number": int(found[0])})
        return "I could not do that for you, so nothing was changed. Is there anything else?"
    return (
        "I have your orders before me. Tell me the number of one, and whether you want your money "
        "back for it or want to cancel it."
    )


def make_app(
    folder: Path, *, model: str | None = None, bank_s: tuple[float, float] = (0.8, 0.8)
) -> App:
    """The desk, with the journal and the shop in one folder.

    Args:
        folder: Where ``desk.db`` and ``shop.db`` are.
        model: "provider:model", None for the script.
        bank_s: As in ``tools_of``.
    """
    shop = Shop(folder / "shop.db")
    clerk = Agent(
        "helpdesk",
        instructions=INSTRUCTIONS,
        model=model or Script(),
        tools=tools_of(shop, bank_s),
    )
    return App([clerk], journal=folder / "desk.db", dependencies=_customer_of)


def _customer_of(info: RunInfo) -> str:
    """Whose run it is: what the clerk sees and does is that customer's."""
    return str(info.attributes["user"])
