"""Makes the ids of a run's tool calls unique.

Some models number the calls of each reply from the start, and some use one id twice in a reply.
Answers, outcomes and the log refer to a call by its id, and other providers refuse a request in
which an id occurs twice. So a duplicate gets a new id when its reply enters the run, and the
provider's id is kept in ``ToolCall.given_id``. The ids used in a run are in ``RunState.call_ids``.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from upshot.contract.model_calls import ModelResponse, ToolCallDelta
from upshot.contract.tool_calls import ToolCall

__all__ = ["StreamedIds", "with_unique_ids"]

# The prefix of the id for a call that has none.
_UNNAMED = "call"


def with_unique_ids(response: ModelResponse, known: AbstractSet[str]) -> ModelResponse:
    """Return *response* with a unique id for each call; the same object if they are unique.

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
                own = _make_id(part.id, known, taken)
                renamed[place] = replace(part, id=own, given_id=part.id)
            taken.add(own)
    if not renamed:
        return response
    parts = [renamed.get(place, part) for place, part in enumerate(response.parts)]
    return replace(response, parts=tuple(parts))


def _make_id(id: str, known: AbstractSet[str], taken: AbstractSet[str]) -> str:
    """Return a new id that starts with *id*, which is in *known* or *taken*."""
    # Depends only on the known ids, so that a resumed session makes the same id.
    number = len(known) + len(taken) + 1
    while (made := f"{id or _UNNAMED}_{number}") in known or made in taken:
        number += 1
    return made


class StreamedIds:
    """The call ids of a reply while it streams: the same ids that the whole reply will have.

    Args:
        known: The ids that the run has used.
    """

    def __init__(self, known: AbstractSet[str]) -> None:
        self._known = known
        self._own: dict[int, str] = {}
        self._taken: set[str] = set()

    def make_unique(self, piece: ToolCallDelta) -> ToolCallDelta:
        """Return *piece* with the id that its call will have in the run."""
        if not piece.call_id:
            return piece
        own = self._own.get(piece.index)
        if own is None:
            own = piece.call_id
            if own in self._known or own in self._taken:
                own = _make_id(own, self._known, self._taken)
            self._own[piece.index] = own
            self._taken.add(own)
        return piece if own == piece.call_id else replace(piece, call_id=own)
