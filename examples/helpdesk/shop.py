"""A shop in SQLite, and the tools of its help desk with what each argument is.

Who may decide what stands here, once: an order is one of the customer's own, an address or an
amount is one that the customer said. What carriers and reviewers write decides nothing.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from upshot import Record, ToolContext, ToolError, ref, target, tool

CARRIER = "parcels.example"
_TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, mail TEXT);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer INTEGER, article TEXT, cents INTEGER,
    state TEXT, day TEXT, street TEXT, city TEXT
);
CREATE TABLE notes (place TEXT, author TEXT, text TEXT);
CREATE TABLE refunds (customer INTEGER, id INTEGER, cents INTEGER);
CREATE TABLE mails (customer INTEGER, recipient TEXT, text TEXT);
"""


def open_shop() -> sqlite3.Connection:
    """A new shop without customers, in memory."""
    data = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    data.executescript(_TABLES)
    return data


@dataclass(frozen=True)
class Shop:
    """The shop as one customer may see it.

    Attributes:
        customer: Whose ticket is worked on.
        data: The database, open.
    """

    customer: int = 1
    data: sqlite3.Connection = field(default_factory=open_shop)

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """What *query* gives, as objects."""
        found = self.data.execute(query, values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found]

    def order(self, number: int) -> dict[str, Any]:
        """One of the customer's own orders."""
        query = "SELECT * FROM orders WHERE id = ? AND customer = ?"
        for row in self.rows(query, number, self.customer):
            return row
        raise ToolError(f"this customer has no order {number}", code="not_found", retryable=False)

    def change(self, number: int, **values: object) -> dict[str, Any]:
        """Change one of the customer's own orders, and give it as it is now."""
        self.order(number)
        for name, value in values.items():
            self.data.execute(f"UPDATE orders SET {name} = ? WHERE id = ?", (value, number))
        return self.order(number)

    def send(self, recipient: str, text: str) -> None:
        """Keep a mail that was sent."""
        row = (self.customer, recipient, text)
        self.data.execute("INSERT INTO mails VALUES (?, ?, ?)", row)


ORDER = ref("order")


@tool(effect="read", trust="trusted", records=Record("order", id="order", names=("article",)))
async def my_orders(context: ToolContext[Shop]) -> list[dict[str, Any]]:
    """All orders of the customer."""
    return context.dependencies.rows(
        'SELECT id AS "order", article, cents / 100.0 AS price, state, day, street, city '
        "FROM orders WHERE customer = ?",
        context.dependencies.customer,
    )


@tool(effect="read", trust="untrusted")
async def notes(context: ToolContext[Shop], order: int) -> list[dict[str, Any]]:
    """What carriers, neighbours and givers of presents wrote about an order."""
    context.dependencies.order(order)
    return context.dependencies.rows(
        "SELECT author, text FROM notes WHERE place = ?", f"order {order}"
    )


@tool(effect="read", trust="untrusted")
async def reviews(context: ToolContext[Shop], article: str) -> list[dict[str, Any]]:
    """What buyers wrote about an article."""
    return context.dependencies.rows("SELECT author, text FROM notes WHERE place = ?", article)


@tool(effect="read", network=True, trust="untrusted", arguments={"address": target(format="url")})
async def track(context: ToolContext[Shop], address: str) -> list[dict[str, Any]]:
    """What the carrier's page says of a parcel."""
    return context.dependencies.rows("SELECT author, text FROM notes WHERE place = ?", address)


@tool(arguments={"order": ORDER})
async def cancel(context: ToolContext[Shop], order: int) -> dict[str, Any]:
    """Cancel an order."""
    return context.dependencies.change(order, state="cancelled")


@tool(arguments={"order": ORDER, "street": "target", "city": "target"})
async def change_address(
    context: ToolContext[Shop], order: int, street: str, city: str
) -> dict[str, Any]:
    """Have an order brought to another address."""
    return context.dependencies.change(order, street=street, city=city)


@tool(arguments={"order": ORDER, "day": "day"}, asked_by=("deliver", "bring"))
async def change_day(context: ToolContext[Shop], order: int, day: str) -> dict[str, Any]:
    """Have an order brought on another day, YYYY-MM-DD."""
    return context.dependencies.change(order, day=day)


@tool(approval=True, arguments={"order": ORDER, "amount": "amount"})
async def refund(context: ToolContext[Shop], order: int, amount: float) -> dict[str, float]:
    """Pay back an amount in euros for an order."""
    shop = context.dependencies
    shop.order(order)
    row = (shop.customer, order, round(amount * 100))
    shop.data.execute("INSERT INTO refunds VALUES (?, ?, ?)", row)
    return {"refunded": amount}


@tool(arguments={"order": ORDER, "to": "recipient"})
async def send_invoice(context: ToolContext[Shop], order: int, to: str) -> dict[str, str]:
    """Mail the invoice of an order."""
    bill = context.dependencies.order(order)
    context.dependencies.send(to, f"Invoice {order}: {bill['article']}, {bill['cents'] / 100:.2f}")
    return {"sent_to": to}


@tool(arguments={"to": "recipient", "text": "content"}, asked_by=("mail", "write"))
async def mail(context: ToolContext[Shop], to: str, text: str) -> dict[str, str]:
    """Mail a text."""
    context.dependencies.send(to, text)
    return {"sent_to": to}


@tool(arguments={"order": ORDER, "words": "free"}, asked_by=("complain", "complaint", "person"))
async def call_colleague(context: ToolContext[Shop], order: int, words: str) -> dict[str, str]:
    """Have a colleague call the customer about an order."""
    context.dependencies.change(order, state=f"a colleague calls: {words}")
    return {"state": "a colleague will call"}


TOOLS = [
    my_orders,
    notes,
    reviews,
    track,
    cancel,
    change_address,
    change_day,
    refund,
    send_invoice,
    mail,
    call_colleague,
]
