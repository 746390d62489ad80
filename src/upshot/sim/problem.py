"""Problem: an error that the simulated provider answers with, before it has a wire form."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

__all__ = ["Problem", "usual_message"]

_USUAL: Mapping[int, str] = {
    400: "The request is not valid.",
    401: "Incorrect API key provided.",
    403: "The key has no access to this.",
    404: "The model does not exist, or you have no access to it.",
    408: "The request took too long to arrive.",
    413: "The request is larger than allowed.",
    429: "Rate limit reached. Please try again later.",
    500: "The server had an error while processing your request.",
    503: "The service is temporarily unavailable.",
    529: "Overloaded",
}


class Problem(Struct, frozen=True):
    """An error reply.

    Attributes:
        status: HTTP status, 400 to 599.
        message: What the client is told.
        code: The provider's code; "" for the usual one of the status.
        param: Which part of the request is meant; None for none.
        resource: For 429: what ran out, requests or tokens; "" where it is not known.
        retry_after_s: Seconds for ``retry-after``; None for no such header.
        headers: Further headers.
    """

    status: int
    message: str
    code: str = ""
    param: str | None = None
    resource: str = ""
    retry_after_s: float | None = None
    headers: Mapping[str, str] = {}


def usual_message(status: int) -> str:
    """What providers say with *status* where the scenario does not."""
    return _USUAL.get(status, _USUAL[400] if status < 500 else _USUAL[500])
