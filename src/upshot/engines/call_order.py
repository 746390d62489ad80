"""Call order: outcomes of one reply in the order of its calls, however late some of them came.

The board keeps the order in which things happened: where a call waited for people, what others of
its reply gave stands before it. A model reads them as it asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import Conversation, Message, Role

__all__ = ["InCallOrder", "in_call_order"]


class InCallOrder:
    """What a model is shown of a channel, over the turns of one sitting.

    Only what an earlier sitting left can be out of order: within one, the outcomes of a reply come
    together. So it is looked through once.
    """

    def __init__(self) -> None:
        self._shown: Conversation | None = None
        self._is_looked = False

    def of(self, messages: Conversation) -> Conversation:
        """*messages* themselves where they are in order, else a copy that is, and grows."""
        if not self._is_looked:
            self._is_looked = True
            ordered = in_call_order(messages)
            if ordered is not messages:
                self._shown = messages.in_order(ordered)
        if self._shown is None:
            return messages
        self._shown.extend(messages[len(self._shown) :])
        return self._shown.so_far()


def in_call_order(messages: Sequence[Message]) -> Sequence[Message]:
    """*messages* with the outcomes after each reply in the order of its calls.

    Returns:
        The very same object where nothing has to move.
    """
    moved: list[Message] | None = None
    for at, message in enumerate(messages):
        if len(message.tool_calls) < 2:
            # One call has no order.
            continue
        places = {call.id: place for place, call in enumerate(message.tool_calls)}
        if len(places) < len(message.tool_calls):
            # Of an id that is there twice nobody knows which is which.
            continue
        end = at + 1
        while end < len(messages) and messages[end].role is Role.TOOL:
            end += 1
        found = messages[at + 1 : end]
        ordered = sorted(found, key=lambda told: places.get(told.tool_call_id or "", len(places)))
        if any(a is not b for a, b in zip(ordered, found, strict=True)):
            moved = list(messages) if moved is None else moved
            moved[at + 1 : end] = ordered
    return messages if moved is None else moved
