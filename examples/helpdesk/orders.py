"""The shop's own data: orders and refunds, in a file of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_TABLES = """
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER PRIMARY KEY, customer TEXT, article TEXT, price REAL, state TEXT);
CREATE TABLE IF NOT EXISTS refunds (number INTEGER, amount REAL);
"""
_FIRST = [
    (1041, "ada", "desk lamp", 24.90, "delivered"),
    (1042, "ada", "oak table", 349.00, "on its way"),
    (1043, "ada", "night light", 9.99, "not sent yet"),
    (1051, "ben", "bookshelf", 129.00, "delivered"),
    (1052, "ben", "picture frame", 14.50, "not sent yet"),
]


class Order(NamedTuple):
    """An order of a customer."""

    number: int
    article: str
    price: float
    state: str


class Shop:
    """The shop, in a file that several processes may open.

    Args:
        path: The file; it is made with a few orders unless it is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as shop:
            shop.executescript(_TABLES)
            shop.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?)", _FIRST)

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def orders_of(self, customer: str) -> list[Order]:
        """What a customer has ordered."""
        asked = "SELECT number, article, price, state FROM orders WHERE customer = ? ORDER BY 1"
        with self._open() as shop:
            return [Order(*row) for row in shop.execute(asked, (customer,))]

    def order(self, customer: str, number: int) -> Order | None:
        """An order, if it is the customer's."""
        return next((one for one in self.orders_of(customer) if one.number == number), None)

    def refund(self, order: Order) -> None:
        """Pay an order back, as often as one asks."""
        with self._open() as shop:
            paid = "INSERT INTO refunds (number, amount) VALUES (?, ?)"
            shop.execute(paid, (order.number, order.price))
            shop.execute("UPDATE orders SET state = 'refunded' WHERE number = ?", (order.number,))

    def cancel(self, number: int) -> None:
        """Cancel an order."""
        with self._open() as shop:
            shop.execute("UPDATE orders SET state = 'cancelled' WHERE number = ?", (number,))

    def refunds(self) -> list[int]:
        """The order of each refund."""
        with self._open() as shop:
            return [int(row[0]) for row in shop.execute("SELECT number FROM refunds")]
