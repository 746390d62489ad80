"""Place: where in an engine that is called again from its top something is asked for.

What has no key of its own is found again by its number: the second question, the third reply.
The bodies of ``host.once`` are not run again once they are done, so each counts for itself.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextvars import ContextVar
from typing import Final

from ..contract import Request, encode

__all__ = ["Body", "Places", "body_of", "current_body"]


class Places:
    """Tells the children of one attempt apart by whom they ask what, and how often before.

    An engine that is called again from its top asks the same again, and not always in the same
    order, for what it does side by side has an order of its own each time.

    Args:
        attempt: Which pass of the engine this is, from 1.
        step: The key of the ``host.once`` in whose body they are, "" for none.
    """

    def __init__(self, attempt: int, step: str = "") -> None:
        self._within = f"\n{attempt}\n{len(step)}\n{step}\n"
        self._asked: Counter[bytes] = Counter()

    def key(self, agent_id: str, request: Request) -> str:
        """The key of the next child that asks an agent something; no user's begins like it.

        Args:
            agent_id: Whom it asks.
            request: What it asks, without secrets: the key must not tell of them.
        """
        said = f"{self._within}{agent_id}\n".encode(errors="surrogatepass")
        digest = hashlib.sha256(said + encode(request)).digest()
        self._asked[digest] += 1
        return f"\n{digest.hex()}\n{self._asked[digest]}"


class Body:
    """The body of a ``host.once`` that is being run.

    Args:
        run_id: Whose it is.
        attempt: Of the engine.
        key: Of the step.

    Attributes:
        run_id: As given.
        key: As given.
        places: Those of the children that it starts.
        questions: How many it has asked that have no key.
    """

    def __init__(self, run_id: str, attempt: int, key: str) -> None:
        self.run_id: Final = run_id
        self.key: Final = key
        self.places: Final = Places(attempt, key)
        self.questions: int = 0


current_body: ContextVar[Body | None] = ContextVar("upshot_body", default=None)
"""The innermost body that this task works in; it may be that of a run around the current one."""


def body_of(run_id: str) -> Body | None:
    """The body of the run's ``host.once`` in which this is asked, None outside of any."""
    body = current_body.get()
    return body if body is not None and body.run_id == run_id else None
