"""Place: the keys of runs inside a run that were given none."""

from __future__ import annotations

import hashlib
from collections import Counter

from ..contract import Request, encode

__all__ = ["Places"]


class Places:
    """Tells the children of one attempt apart by whom they ask what, and how often before.

    An engine that is called again from its top asks the same again, and not always in the same
    order, for what it does side by side has an order of its own each time.

    Args:
        attempt: Which pass of the engine this is, from 1.
    """

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._asked: Counter[bytes] = Counter()

    def key(self, agent_id: str, request: Request) -> str:
        """The key of the next child that asks an agent something; no user's begins like it.

        Args:
            agent_id: Whom it asks.
            request: What it asks, without secrets: the key must not tell of them.
        """
        said = f"\n{self._attempt}\n{agent_id}\n".encode(errors="surrogatepass")
        digest = hashlib.sha256(said + encode(request)).digest()
        self._asked[digest] += 1
        return f"\n{digest.hex()}\n{self._asked[digest]}"
