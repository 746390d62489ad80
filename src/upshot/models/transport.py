"""Transport: the one seam through which bytes go to a provider and come back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

import msgspec

from ..contract.number import check_amount

__all__ = ["Answered", "Timeouts", "Transport"]


class Timeouts(msgspec.Struct, frozen=True):
    """How long one HTTP request may take; None is no limit.

    Attributes:
        connect_s: Seconds until there is a connection, name look-up and TLS included.
        read_s: Seconds without a single byte from the server. Reasoning models are silent for
            minutes before the first one.
        total_s: Seconds from the start to the last byte.
    """

    connect_s: float | None = 10
    read_s: float | None = 300
    total_s: float | None = 1200

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_amount(name, getattr(self, name), above=0, none="no limit")


Answered: TypeAlias = tuple[int, Iterable[tuple[str, str]], AsyncIterator[bytes]]
"""Status, headers as pairs, and the body as it arrives."""


class Transport(Protocol):
    """Sends one request; anything with this method will do."""

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        timeouts: Timeouts,
    ) -> AbstractAsyncContextManager[Answered]:
        """Send a request and hand out its reply.

        A transport neither retries nor follows redirects, and takes any status as a reply.

        Args:
            method: Such as "POST".
            url: The whole address.
            headers: What to send; they hold the key, so they are not to be logged.
            body: The request's body.
            timeouts: How long it may take.

        Returns:
            A context manager that gives status, headers and the pieces of the body, decoded from
            any content coding. Leaving it frees the connection, also in the middle of a body.
            Entering it and reading may raise any exception for what the network does.
        """
        ...
