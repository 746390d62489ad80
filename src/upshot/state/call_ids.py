"""The ids of a run's tool calls, of which each names one call.

Some models number the calls of each reply anew, and some use one id twice in a reply. Answers,
outcomes and the log refer to a call by its id, and other providers refuse a request in which an id
stands twice. So a call gets an id of its own where its reply enters the run, and the provider's id
is kept in ``ToolCall.given_id``. The ids that a run has used are ``RunState.call_ids``.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from upshot.contract.model_calls import ModelResponse, ToolCallDelta
from upshot.contract.tool_calls import ToolCall

__all__ = ["StreamedIds", "with_unique_ids"]

# The start of the id of a call that came without one.
_UNNAMED = "call"


def with_unique_ids(response: ModelResponse, known: AbstractSet[str]) -> ModelResponse:
    """*response* with an id of its own for each call; the very same object if they have one.

    Args:
        response: The reply of a model.
        known: The ids that the run has used.
    """
    taken: set[str] = set()
    renamed: dict[int, ToolCall] = {}
    for place, part in enumerate(response.parts):
        if type(part) is ToolCall:
            own = part.id
            if not own or own in known or own in taken:
                own = _made_id(part.id, known, taken)
                renamed[place] = replace(part, id=own, given_id=part.id)
            taken.add(own)
    if not renamed:
        return response
    parts = [renamed.get(place, part) for place, part in enumerate(response.parts)]
    return replace(response, parts=tuple(parts))


def _made_id(id: str, known: AbstractSet[str], taken: AbstractSet[str]) -> str:
    """An id that begins with *id*, which the run or this reply, by *taken*, has used."""
    # By what is known, so that a session that resumes the run gives the same.
    number = len(known) + len(taken) + 1
    while (made := f"{id or _UNNAMED}_{number}") in known or made in taken:
        number += 1
    return made


class StreamedIds:
    """The ids of a reply's calls while it comes in pieces: those that the whole reply will have.

    Args:
        known: The ids that the run has used.
    """

    def __init__(self, known: AbstractSet[str]) -> None:
        self._known = known
        self._own: dict[int, str] = {}
        self._taken: set[str] = set()

    def make_unique(self, piece: ToolCallDelta) -> ToolCallDelta:
        """*piece* with the id that the run will know its call by."""
        if not piece.call_id:
            return piece
        own = self._own.get(piece.index)
        if own is None:
            own = piece.call_id
            if own in self._known or own in self._taken:
                own = _made_id(own, self._known, self._taken)
            self._own[piece.index] = own
            self._taken.add(own)
        return piece if own == piece.call_id else replace(piece, call_id=own)
