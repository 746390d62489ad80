"""``CallIds``: the ids of a run's tool calls, of which each names one call.

Some models number the calls of each reply anew, and some use one id twice in a reply. Answers,
outcomes and the log refer to a call by its id, and other providers refuse a request in which an id
stands twice. So a call gets an id of its own where its reply enters the run, and the provider's id
is kept in ``ToolCall.given_id``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from upshot.contract.model_calls import ModelResponse, ToolCallDelta
from upshot.contract.tool_calls import ToolCall

__all__ = ["CallIds", "StreamedIds"]

# The start of the id of a call that came without one.
_UNNAMED = "call"


class CallIds:
    """The ids that a run has used, those of the messages that it began with included."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def add(self, calls: Iterable[ToolCall]) -> None:
        """Note the ids of *calls*."""
        for call in calls:
            self._known.add(call.id)

    def make_unique(self, response: ModelResponse) -> ModelResponse:
        """*response* with an id of its own for each call; the very same object if they have one."""
        calls, known = response.tool_calls, self._known
        ids = {call.id for call in calls}
        if len(ids) == len(calls) and "" not in ids and known.isdisjoint(ids):
            return response
        taken = set[str]()
        parts = [
            self._with_own_id(part, taken) if type(part) is ToolCall else part
            for part in response.parts
        ]
        return msgspec.structs.replace(response, parts=tuple(parts))

    def _with_own_id(self, call: ToolCall, taken: set[str]) -> ToolCall:
        own = self.unused(call.id, taken)
        taken.add(own)
        return call if own == call.id else msgspec.structs.replace(call, id=own, given_id=call.id)

    def unused(self, id: str, taken: set[str]) -> str:
        """*id*, or one that begins with it where the run or this reply, by *taken*, has used it."""
        known = self._known
        if id and id not in known and id not in taken:
            return id
        # By what is known, so that a session that resumes the run gives the same.
        number = len(known) + len(taken) + 1
        while (made := f"{id or _UNNAMED}_{number}") in known or made in taken:
            number += 1
        return made


class StreamedIds:
    """The ids of a reply's calls while it comes in pieces: those that the whole reply will have."""

    def __init__(self, ids: CallIds) -> None:
        self._ids, self._own, self._taken = ids, dict[int, str](), set[str]()

    def make_unique(self, piece: ToolCallDelta) -> ToolCallDelta:
        """*piece* with the id that the run will know its call by."""
        if not piece.call_id:
            return piece
        own = self._own.get(piece.index)
        if own is None:
            own = self._own[piece.index] = self._ids.unused(piece.call_id, self._taken)
            self._taken.add(own)
        return piece if own == piece.call_id else msgspec.structs.replace(piece, call_id=own)
